"""Texts as streams, their cache, and the sample corpora."""

import gzip
import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from highway.config.experiment import Experiment
from highway.data import enwik8, sample_texts
from highway.data.fetch import Files, cached
from highway.data.prepare import verify
from highway.errors import Refused
from highway.ledger.files import write_text
from highway.run import build
from tests.support.data import REAL_DATA, needs_file, needs_real_data, write_corpus

Compose = Callable[..., Experiment]


# Forms


@pytest.mark.parametrize(
    ("form", "decoded"),
    [
        ("eos", " ab a <eos> b <eos>"),
        ("newline", " ab a \n b \n"),
        ("joined", " ab a  b "),
        ("word", ["ab", "a", "<eos>", "b", "<eos>"]),
    ],
)
def test_forms(
    experiment: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, decoded: object
) -> None:
    write_corpus(tmp_path / "data", " ab a \n b \n", " b \n")
    monkeypatch.setattr(Files, "verify_all", lambda *_: None)
    symbols = len(set(decoded))  # type: ignore[arg-type]
    described = experiment(
        f"dataset.form={form}",
        f"dataset.vocabulary.files={symbols}",
        "dataset.train={lanes:1,window:2,stride:1,scored:1}",
        "dataset.evaluation={lanes:1,window:1,stride:1,scored:1}",
    )
    streams = build.data(described).streams
    text = [streams.vocabulary[number] for number in streams.splits["train"].tolist()]
    assert text == list(decoded)  # type: ignore[call-overload]
    assert streams.vocabulary == list(dict.fromkeys(text))  # in order of first appearance


@needs_real_data
@pytest.mark.parametrize(
    ("option", "vocabulary", "sizes", "updates"),
    [
        ("ptb_char", 49, (5_269_890, 413_262, 464_989), 1030),
        ("ptb_char_newline", 50, (5_101_618, 399_782, 449_945), None),
        ("ptb_char_joined", 49, (5_059_550, 396_412, 446_184), None),
        ("ptb_char_benchmark", 50, (5_017_482, 393_042, 442_423), None),
        ("ptb_word", 10_000, (929_589, 73_760, 82_430), 1452),
    ],
)
def test_real_counts(
    experiment: Compose, option: str, vocabulary: int, sizes: tuple[int, ...], updates: int | None
) -> None:
    data = build.data(experiment(f"dataset={option}", f"data_dir={REAL_DATA}"))
    assert tuple(len(stream) for stream in data.streams.splits.values()) == sizes
    assert len(data.streams.vocabulary) == vocabulary
    assert updates is None or data.steps_per_epoch == updates


def test_cache_is_used_and_keyed_by_content(tiny: Compose, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.data(tiny()).streams
    monkeypatch.setattr("highway.data.texts._number", lambda *_: pytest.fail("numbered again"))
    second = build.data(tiny()).streams
    assert all(torch.equal(first.splits[split], second.splits[split]) for split in first.splits)


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("dataset.vocabulary.sample=28", r"has 27 symbols, and dataset.vocabulary.sample declares 28"),
        ("dataset.train.lanes=30000", "the train stream of [0-9]+ symbols is too short"),
        ("dataset.evaluation.lanes=30000", "the valid stream of [0-9]+ symbols is too short"),
    ],
)
def test_what_does_not_fit_the_text_is_refused(tiny: Compose, override: str, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        build.data(tiny(override))


def test_files_that_do_not_fit_are_refused(
    experiment: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path / "data", " a b \n", " a c \n")
    with pytest.raises(Refused, match=r"ptb\.train\.txt is not the published Penn Treebank file"):
        build.data(experiment())
    monkeypatch.setattr(Files, "verify_all", lambda *_: None)
    with pytest.raises(Refused, match="the valid split has a symbol that the training split lacks: 'c'"):
        build.data(experiment("dataset.form=word", "dataset.vocabulary.files=3"))


# Caches


def make(folder: Path) -> None:
    assert not list(folder.iterdir())
    write_text(folder / "text", "ours")


def refuse(folder: Path) -> None:
    write_text(folder / "text", "half")
    raise Refused("this text cannot be numbered.")


def test_a_cache_is_made_once_for_each_recipe(tmp_path: Path) -> None:
    cache = cached(tmp_path / "cache", "x", ["one text"], make)
    assert (cache / "text").read_text() == "ours"
    assert cached(tmp_path / "cache", "x", ["one text"], refuse) == cache
    with pytest.raises(Refused):
        cached(tmp_path / "cache", "x", ["another text"], refuse)
    assert list((tmp_path / "cache").iterdir()) == [cache], "nothing is left of a cache that was not finished"


def test_two_processes_make_the_same_cache_at_once(tmp_path: Path) -> None:
    """Both make it; the slower one discards its own, and both read the same."""
    both = threading.Barrier(2, timeout=60)

    def make_together(folder: Path) -> None:
        make(folder)
        both.wait()

    with ThreadPoolExecutor(2) as pool:
        caches = list(pool.map(lambda _: cached(tmp_path, "x", ["text"], make_together), range(2)))
    assert [(cache / "text").read_text() for cache in caches] == ["ours", "ours"]
    assert list(tmp_path.iterdir()) == [caches[0]]


# The sample corpora


def test_sample_is_the_same_everywhere() -> None:
    text = sample_texts.penn_treebank()["train"]
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "c41bc48467ee5e3c"


@pytest.mark.parametrize(
    ("option", "vocabulary"),
    [
        ("ptb_char", 27),
        ("ptb_char_newline", 26),
        ("ptb_char_joined", 25),
        ("ptb_char_benchmark", 26),
        ("ptb_word", 389),
    ],
)
def test_every_form_has_a_sample(experiment: Compose, option: str, vocabulary: int) -> None:
    data = build.data(experiment(f"dataset={option}", "dataset.source=sample"))
    assert len(data.streams.vocabulary) == vocabulary


# enwik8


def byte_words(folder: Path, *overrides: str) -> list[str]:
    return ["model=transformer_xl", "dataset=enwik8_excerpt", f"data_dir={folder}", *overrides]


@pytest.fixture
def small_wikipedia(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Write an excerpt of 40,000 bytes to the data folder, with every byte value of a text; return its content."""
    content = (b"abc\ndef\xc3\xa9\n" * 4000)[:40_000]
    monkeypatch.setattr(enwik8, "EXCERPT", len(content))
    monkeypatch.setattr(enwik8, "WHOLE", len(content) + 5)
    monkeypatch.setattr(enwik8, "EXCERPT_SHA256", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(enwik8, "WHOLE_SHA256", hashlib.sha256(content + b"after").hexdigest())
    (tmp_path / "enwik8").mkdir()
    (tmp_path / "enwik8" / "enwik8.first40000.gz").write_bytes(gzip.compress(content))
    return content


@pytest.mark.parametrize("form", ["without_newline", "bytes"])
def test_bytes_are_symbols(experiment: Compose, tmp_path: Path, small_wikipedia: bytes, form: str) -> None:
    size = 9 if form == "bytes" else 8
    overrides = byte_words(tmp_path, f"dataset.form={form}", f"dataset.vocabulary.files={size}")
    streams = build.data(experiment(*overrides, "dataset.train.lanes=2", "dataset.evaluation.lanes=1")).streams
    for split, part in (("train", slice(0, 36_000)), ("valid", slice(36_000, 38_000)), ("test", slice(38_000, None))):
        expected = small_wikipedia[part].replace(b"\n", b"" if size == 8 else b"\n")
        assert bytes(ord(streams.vocabulary[symbol]) for symbol in streams.splits[split].tolist()) == expected
    assert streams.vocabulary[:3] == ["a", "b", "c"]  # in order of first appearance


def test_wrong_enwik8_is_refused(
    experiment: Compose, tmp_path: Path, small_wikipedia: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enwik8, "ENWIK8", replace(enwik8.ENWIK8, sources=()))  # nowhere to fetch it from
    described = experiment(*byte_words(tmp_path))
    file = tmp_path / "enwik8" / "enwik8.first40000.gz"
    for content, sentence in (
        (gzip.compress(b"x" * 40_000), "is not enwik8: the sha256"),
        (gzip.compress(small_wikipedia[:-1]), "has 39,999 bytes, expected 40,000"),
        (file.read_bytes()[:40], "is not a whole gzip file"),
    ):
        file.write_bytes(content)
        with pytest.raises(Refused, match=sentence):
            build.data(described)
    file.unlink()
    with pytest.raises(Refused, match=r"enwik8: enwik8 missing from .*Put the files there"):
        build.data(described)
    with pytest.raises(Refused, match="is missing"):
        verify(described.dataset, tmp_path)
    (tmp_path / "enwik8" / "enwik8").write_bytes(small_wikipedia + b"after, and more")
    with pytest.raises(Refused, match="has 40,015 bytes, expected 40,005"):
        build.data(experiment(*byte_words(tmp_path), "dataset=enwik8"))


def test_the_excerpt_is_the_beginning_of_the_whole(tmp_path: Path, experiment: Compose, small_wikipedia: bytes) -> None:
    (tmp_path / "enwik8" / "enwik8.first40000.gz").unlink()
    (tmp_path / "enwik8" / "enwik8").write_bytes(small_wikipedia + b"after")
    overrides = ("dataset.vocabulary.files=8", "dataset.train.lanes=2", "dataset.evaluation.lanes=1")
    assert len(build.data(experiment(*byte_words(tmp_path, *overrides))).streams.splits["train"]) == 28_800


@needs_file("enwik8/enwik8.first4150000.gz")
def test_published_counts_of_the_excerpt(experiment: Compose) -> None:
    described = experiment("model=transformer_xl", "dataset=enwik8_excerpt", f"data_dir={REAL_DATA}")
    splits = build.streams(described.dataset, REAL_DATA, described.outputs_dir).splits
    assert {split: len(stream) for split, stream in splits.items()} == {
        "train": 3_693_409,
        "valid": 205_426,
        "test": 204_603,
    }
