"""The hooks run in the order that the head of highway/tasks/task.py states, and a batch visits few files."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import highway.tasks.task
import highway.training
from highway.config.experiment import Experiment
from highway.testing.runs import trained

HIGHWAY = str(Path(highway.training.__file__).parent)
MOST_FILES, MOST_CLIMBS = 12, 8


class Calls:
    """The calls of functions of this project, in order: (file, qualified name, is called by highway.training.run)."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bool]] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(HIGHWAY):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(HIGHWAY):
            caller = caller.f_back
        by_run = caller is not None and caller.f_code is highway.training.run.__code__
        self.seen.append((path, frame.f_code.co_qualname, by_run and path != highway.training.__file__))


@pytest.fixture
def calls(tiny: Callable[..., Experiment]) -> list[tuple[str, str, bool]]:
    """The calls of a run of four updates, with a row of the curve and a validation after the fourth."""
    described, recorded = tiny("gate=sdu_tanh", "trainer.max_steps=4", "trainer.validate_every=4"), Calls()
    before = sys.getprofile()
    sys.setprofile(recorded)
    try:
        trained(described)
    finally:
        sys.setprofile(before)
    return recorded.seen


def test_the_stated_order_of_hooks(calls: list[tuple[str, str, bool]]) -> None:
    head = highway.tasks.task.__doc__ or ""
    stated = re.findall(r"^ +(\w+\.(?:on_|training_|validation_|configure_)\w+)", head, re.M)
    assert len(stated) == 15
    begins = stated[0]
    names = [name for _, name, _ in calls if name in stated]
    *_, last_update = (number for number, name in enumerate(names) if name == begins)
    in_order = [name for number, name in enumerate(names[last_update:]) if name != names[last_update + number - 1]]
    assert in_order[: len(stated)] == stated
    every_hook = {name for _, name, _ in calls if re.fullmatch(r"(Task|Recorder|Progress|Checkpointer)\.on_\w+", name)}
    of_an_update = {name for name in every_hook if re.search(r"_batch_|_optimizer_|_validation_", name)}
    assert of_an_update <= set(stated), "a hook of an update that tasks/task.py does not list"


def test_a_batch_visits_few_files(calls: list[tuple[str, str, bool]]) -> None:
    at = [number for number, (_, name, _) in enumerate(calls) if name == "Task.on_train_batch_start"]
    files = {path for path, _, _ in calls[at[1] : at[2]]}  # the second update; no row of the curve follows it
    assert len(files) <= MOST_FILES, sorted(Path(path).name for path in files)


def test_the_story_of_a_run_is_short(calls: list[tuple[str, str, bool]]) -> None:
    climbs = [name for _, name, by_run in calls if by_run]
    assert len(climbs) <= MOST_CLIMBS, climbs
