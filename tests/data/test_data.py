"""Streams, windows and the sample corpora."""

import gzip
import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from highway.config.datasets import LanguageDataset, Vocabulary
from highway.config.experiment import Experiment
from highway.data import enwik8, sample
from highway.data.download import Files
from highway.errors import Refused
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
    monkeypatch.setattr("highway.data.stream._number", lambda *_: pytest.fail("numbered again"))
    second = build.data(tiny()).streams
    assert all(torch.equal(first.splits[split], second.splits[split]) for split in first.splits)


def test_wrong_vocabulary_is_refused(tiny: Compose) -> None:
    with pytest.raises(Refused, match=r"has 27 symbols, and dataset.vocabulary.sample declares 28"):
        build.data(tiny("dataset.vocabulary.sample=28"))


@pytest.mark.parametrize("split", ["train", "valid"])
def test_stream_without_a_window_is_refused(tiny: Compose, split: str) -> None:
    cut = "train" if split == "train" else "evaluation"
    with pytest.raises(Refused, match=f"the {split} stream of [0-9]+ symbols is too short"):
        build.data(tiny(f"dataset.{cut}.lanes=30000"))


def test_symbol_that_training_lacks_is_refused(
    experiment: Compose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(tmp_path / "data", " a b \n", " a c \n")
    monkeypatch.setattr(Files, "verify_all", lambda *_: None)
    with pytest.raises(Refused, match="the valid split has a symbol that the training split lacks: 'c'"):
        build.data(experiment("dataset.form=word", "dataset.vocabulary.files=3"))


def test_corrupt_file_is_refused_by_name(experiment: Compose, tmp_path: Path) -> None:
    write_corpus(tmp_path / "data", " a \n", " a \n")
    with pytest.raises(Refused, match=r"ptb\.train\.txt is not the published Penn Treebank file"):
        build.data(experiment())


# The sample corpora


def test_sample_is_the_same_everywhere() -> None:
    text = sample.penn_treebank()["train"]
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "c41bc48467ee5e3c"


def test_sample_has_the_structure_it_promises() -> None:
    text = sample.penn_treebank()["train"]
    words = text.split()
    assert words.count("(") == words.count(")") > 500
    for line in text.splitlines():  # brackets close within their sentence, and never before they open
        depth = 0
        for word in line.split():
            depth += (word == "(") - (word == ")")
            assert depth >= 0
        assert depth == 0
    counts = sorted((words.count(word) for word in set(words)), reverse=True)
    assert counts[0] > 5 * counts[20] > 25 * counts[300]  # Zipfian: a long tail
    agreement = sum(line.split()[-1] == "themselves" for line in text.splitlines())
    assert agreement > 300
    train = set(words)
    assert all(set(sample.penn_treebank()[split].split()) <= train for split in ("valid", "test"))


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
    monkeypatch.setattr(enwik8, "WHOLE", len(content))
    monkeypatch.setattr(enwik8, "EXCERPT_SHA256", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(enwik8, "WHOLE_SHA256", hashlib.sha256(content).hexdigest())
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


def test_wrong_enwik8_is_refused(experiment: Compose, tmp_path: Path, small_wikipedia: bytes) -> None:
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
    with pytest.raises(Refused, match="is missing, and so is"):
        build.data(described)
    with pytest.raises(Refused, match="is missing"):
        build.verify(described.dataset, tmp_path)


def test_the_excerpt_is_the_beginning_of_the_whole(tmp_path: Path, experiment: Compose, small_wikipedia: bytes) -> None:
    (tmp_path / "enwik8" / "enwik8.first40000.gz").unlink()
    (tmp_path / "enwik8" / "enwik8").write_bytes(small_wikipedia)
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


def test_a_hundred_million_bytes_in_two_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data is read, checked, numbered and cached within two seconds; then the cache is read as fast.

    The limit is on processor time, because a machine that runs tests is busy.
    """
    content = sample.wikipedia() * (enwik8.WHOLE // len(sample.wikipedia()) + 1)
    (tmp_path / "enwik8").mkdir()
    (tmp_path / "enwik8" / "enwik8").write_bytes(content[: enwik8.WHOLE])
    monkeypatch.setattr(enwik8, "WHOLE_SHA256", hashlib.sha256(content[: enwik8.WHOLE]).hexdigest())
    described = LanguageDataset(name="enwik8", form="without_newline", vocabulary=Vocabulary(files=45))
    for _ in range(2):
        started = time.process_time()
        streams = enwik8.streams(described, tmp_path, tmp_path / "cache")
        assert time.process_time() - started < 2
    assert 98_000_000 > len(streams.splits["train"]) + len(streams.splits["valid"]) > 90_000_000


def test_missing_real_data_fails_where_it_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def test() -> None:
        raise AssertionError("it must not run")

    monkeypatch.setattr("tests.support.data.REAL_DATA", tmp_path)
    monkeypatch.setenv("HIGHWAY_DATA", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match=r"a\.txt is missing from .*which is HIGHWAY_DATA"):
        needs_file("a.txt")(test)()
    monkeypatch.delenv("HIGHWAY_DATA")
    assert needs_file("a.txt")(test).pytestmark[0].name == "skip"
    (tmp_path / "a.txt").touch()
    assert needs_file("a.txt")(test) is test
