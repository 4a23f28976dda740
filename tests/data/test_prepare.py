"""Data is checked before a run has a directory: a missing file is reported once, and leaves nothing behind."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from highway.cli import main
from highway.config.experiment import Experiment
from highway.data import prepare
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from tests.support.overrides import TINY
from tests.support.tables import write_ended


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return a function that runs a command line without a network; it returns the exit code and the messages."""

    def unreachable(url: str, path: Path) -> None:
        raise Refused("no network")

    def run(*overrides: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["train.py", *overrides])
        with pytest.raises(SystemExit) as end:
            main("train")
        return int(end.value.code or 0), capsys.readouterr().err

    monkeypatch.setattr("highway.data.fetch.download", unreachable)
    return run


@pytest.mark.parametrize(
    "overrides",
    [
        ("dataset=ptb_word", "model=transformer_word"),
        ("-m", "table=highway_t1", "budget=mini", "seeds=1,2,3"),
        ("-m", "hydra/launcher=inline", "gate=none,sdu_tanh", "seed=1,2", "name=mine"),
    ],
    ids=["one run", "a table", "a grid, inline"],
)
def test_missing_data_is_said_once(
    typed: Callable[..., tuple[int, str]], tmp_path: Path, overrides: tuple[str]
) -> None:
    code, messages = typed(*overrides)
    assert code == 2
    assert messages.startswith("error: Penn Treebank: ptb.train.txt")
    assert messages.count("\n") == 1 == messages.count(" missing from ")
    assert not (tmp_path / "outputs").exists()


def test_only_what_is_to_be_run_needs_its_data(
    typed: Callable[..., tuple[int, str]], experiment: Callable[..., Experiment]
) -> None:
    overrides = ("dataset=ptb_word", "model=transformer_word")
    write_ended(RunDirectory.of(experiment(*overrides)).path, "failed", error="of old")
    code, messages = typed("-m", *overrides)
    assert code == 1 and "1 of 1 run did not finish" in messages and "Penn Treebank" not in messages


def test_a_data_set_is_read_once(experiment: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr("highway.data.prepare.streams", lambda dataset, *_: read.append(dataset.form))
    prepare.prepare_all(
        [experiment(*TINY, f"seed={seed}", f"dataset.form={form}") for seed in (1, 2) for form in ("eos", "joined")]
    )
    assert read == ["eos", "joined"]
