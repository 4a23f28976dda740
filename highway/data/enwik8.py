"""enwik8, the first 100,000,000 bytes of an English Wikipedia dump, a symbol each; or the first 4,150,000 of them.

                        train        valid        test      symbols
    enwik8          90,000,000   5,000,000   5,000,000   205, 204 without the newline
    enwik8_excerpt   3,735,000     207,500     207,500   200, 199 without the newline

`without_newline` is the text that the released Transformer-XL code reads: it splits at newlines and drops them.
"""

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from highway.cards.datasets import LanguageDataset
from highway.data import sample_texts
from highway.data.sources import ENWIK8
from highway.data.texts import Streams, cached_streams
from highway.errors import Refused

WHOLE = 100_000_000
EXCERPT = 4_150_000
EXCERPT_SHA256 = "204482105f330f13c6490df36624bd9bc020dd24ba0854e005ada4d735ad6d7e"
WHOLE_SHA256 = ENWIK8.checksums["enwik8"]


@dataclass(frozen=True)
class File:
    """A file with enwik8 or its beginning."""

    path: Path
    length: int  # bytes, unpacked
    sha256: str

    def read(self) -> bytes:
        if self.path.suffix != ".gz":
            with open(self.path, "rb") as file:
                return file.read(self.length if self.length < WHOLE else -1)
        try:
            return gzip.decompress(self.path.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            raise Refused(f"{self.path} is not a whole gzip file ({error}). Replace it.") from error


def _file(dataset: LanguageDataset, data_dir: Path) -> File:
    """Return the file that is read: for the excerpt its own, if it is there, or else the beginning of the whole."""
    whole, excerpt = (data_dir / ENWIK8.folder / name for name in ("enwik8", f"enwik8.first{EXCERPT}.gz"))
    if dataset.name == "enwik8":
        return File(whole, WHOLE, WHOLE_SHA256)
    return File(excerpt if excerpt.exists() else whole, EXCERPT, EXCERPT_SHA256)


def files(dataset: LanguageDataset, data_dir: Path) -> dict[str, Path]:
    return {"all": _file(dataset, data_dir).path}


def verify(dataset: LanguageDataset, data_dir: Path) -> None:
    """Refuse a file that is missing or differs from the published file."""
    file = _file(dataset, data_dir)
    if not file.path.exists():
        raise Refused(f"{file.path} is missing. To fetch it: highway data prepare.")
    _check(file, file.read())


def _check(file: File, content: bytes) -> None:
    if len(content) != file.length:
        raise Refused(f"{file.path} has {len(content):,} bytes, expected {file.length:,}. Delete it.")
    actual = hashlib.sha256(content).hexdigest()
    if actual != file.sha256:
        raise Refused(
            f"{file.path} is not enwik8: the sha256 of its {file.length:,} bytes is {actual[:12]}.... Delete it."
        )


def streams(dataset: LanguageDataset, data_dir: Path, cache_dir: Path) -> Streams:
    """Return the symbol numbers of the three splits: 90, 5 and 5 % of the bytes."""
    content = sample_texts.wikipedia() if dataset.source == "sample" else _content(dataset, data_dir)
    twentieth = len(content) // 20
    ends = {"train": (0, -2 * twentieth), "valid": (-2 * twentieth, -twentieth), "test": (-twentieth, None)}
    texts = {split: content[start:end] for split, (start, end) in ends.items()}
    dropped = b"\n" if dataset.form == "without_newline" else b""
    return cached_streams(texts, dataset, lambda text: text.translate(None, dropped), cache_dir)


def _content(dataset: LanguageDataset, data_dir: Path) -> bytes:
    file = _file(dataset, data_dir)
    if not file.path.exists():
        ENWIK8.fetch([file.path])
    content = file.read()
    _check(file, content)
    return content
