"""Data of tests: the real data of the person who runs them, and a corpus that a test writes."""

import os
from pathlib import Path

import pytest

from tests.support.commands import ROOT

REAL_DATA = Path(os.environ.get("HIGHWAY_DATA", ROOT.parent / "shared" / "data"))
needs_real_data = pytest.mark.skipif(
    not (REAL_DATA / "ptb" / "ptb.train.txt").exists(), reason=f"no real data in {REAL_DATA}: set HIGHWAY_DATA"
)


def write_corpus(folder: Path, train: str, other: str) -> None:
    """Write the files of Penn Treebank with this text, as words and as characters."""
    (folder / "ptb").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        text = train if split == "train" else other
        (folder / "ptb" / f"ptb.{split}.txt").write_text(text)
        (folder / "ptb" / f"ptb.char.{split}.txt").write_text(text.strip().replace(" ", "_"))
