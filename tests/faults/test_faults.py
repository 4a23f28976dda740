"""The harness notices what is wrong, and finds nothing wrong in a part of its cases; `make faults` tries them all."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from highway.errors import Refused
from tests.faults import adversary, sweeps
from tests.faults.every import cases
from tests.faults.scenes import Scenes, small_data
from tests.faults.sweeps import FAULTS, Folder
from tests.faults.trials import ALLOWED, Case, Kept, Verdict, chosen, forked, tried
from tests.support.commands import ROOT

PART = 110  # cases in make test-slow, of more than four thousand
KILLS = 3  # of each of three kinds; make faults uses seventeen


def refuses() -> None:
    raise Refused("this file is not a table.")


def fails() -> None:
    raise ValueError("a mistake of ours")


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (lambda: time.sleep(60), "hang"),
        (fails, "traceback"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "traceback"),
        (lambda: 1, "traceback"),  # an exit code without a sentence
        (refuses, None),
        (lambda: 0, None),
    ],
)
def test_how_a_command_may_end(command: object, outcome: str | None) -> None:
    verdict = forked(command, seconds=1.0).forbidden()  # type: ignore[arg-type]
    assert (verdict and verdict.outcome) == outcome


def test_wrong_outcomes_are_kept() -> None:
    given = [Case("kind", name, lambda _, name=name: Verdict(name)) for name in ("right", "WRONG", "hang")]  # type: ignore[misc]
    tally = tried(given)
    assert [case.name for case, _ in tally.wrong] == ["WRONG", "hang"]
    assert tally.counts["kind"].total() == 3


def test_a_case_that_fails_itself_is_wrong_and_the_others_go_on() -> None:
    def broken(_: Path) -> Verdict:
        raise IsADirectoryError("a lease")

    tally = tried([Case("kind", "broken", broken), Case("kind", "whole", lambda _: Verdict("right"))])
    assert tally.counts["kind"] == {"WRONG": 1, "right": 1}


def test_a_run_that_was_ended_goes_on(tmp_path: Path) -> None:
    """A case that was tried is not tried again, until the code is another."""
    names: list[str] = []

    def attempt(name: str) -> Verdict:
        names.append(name)
        return Verdict("hang")

    given = [Case("kind", name, lambda _, name=name: attempt(name)) for name in ("first", "second")]  # type: ignore[misc]
    tried(given[:1], kept=Kept(tmp_path / "kept", "a"))
    assert tried(given, kept=Kept(tmp_path / "kept", "a")).counts["kind"] == {"hang": 2}
    assert names == ["first", "second"]
    tried(given, kept=Kept(tmp_path / "kept", "b"))
    assert names == ["first", "second"] * 2


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    folder = tmp_path_factory.mktemp("scenes")
    with small_data(folder):
        yield Scenes.made(folder)


@pytest.mark.slow
def test_a_part_of_all_faults(scenes: Scenes, tmp_path: Path) -> None:
    every = cases(scenes)
    for word, least in {"damage": 1000, "inputs": 1000, "archives": 1000, "interruptions": 100}.items():
        assert sum(word in case.kind for case in every) >= least
    assert tried(chosen(every, PART)).wrong == []


@pytest.mark.slow
def test_a_part_of_what_an_adversary_tried(tmp_path: Path) -> None:
    """The whole through real processes: python -m tests.faults.adversary."""
    tool = adversary.Checkout(ROOT, tmp_path)
    for name in random.Random(1).sample(sorted(adversary.ATTEMPTS), 4):
        verdict = adversary.attempted(tool, name)
        assert verdict.outcome in ALLOWED, (name, verdict)


@pytest.mark.slow
def test_other_weights_are_noticed(scenes: Scenes, tmp_path: Path) -> None:
    """A finished run whose metrics or weights are not those of the undisturbed run is WRONG."""
    outputs = scenes.copy("seed/finished", tmp_path)
    (theirs,) = outputs.glob("cells/*/*")
    theirs.rename(theirs.with_name("seed1"))
    assert scenes.difference(outputs) == "metrics"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return sweeps.undisturbed(tmp_path_factory.mktemp("whole"))


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("HIGHWAY_FAULTS") != "yes", reason="takes ten minutes; make faults prints the report"
)
@pytest.mark.parametrize("name", FAULTS)
def test_sweeps_under_faults(name: str, whole: Folder, tmp_path: Path) -> None:
    result = sweeps.outcome(name, tmp_path, whole, KILLS)
    assert result.injected and result.clean, result
