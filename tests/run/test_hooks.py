"""The hooks run in the order that the head of highway/tasks/task.py states."""

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


@pytest.fixture
def calls(tiny: Callable[..., Experiment]) -> list[str]:
    """The functions of this project that a run of four updates calls, in order; a validation follows the fourth."""
    seen: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HIGHWAY):
            seen.append(frame.f_code.co_qualname)

    described, before = tiny("gate=sdu_tanh", "trainer.max_steps=4", "trainer.validate_every=4"), sys.getprofile()
    sys.setprofile(note)
    try:
        trained(described)
    finally:
        sys.setprofile(before)
    return seen


def test_the_stated_order_of_hooks(calls: list[str]) -> None:
    head = highway.tasks.task.__doc__ or ""
    stated = re.findall(r"^ +(\w+\.(?:on_|training_|validation_|configure_)\w+)", head, re.M)
    assert len(stated) == 15
    begins = stated[0]
    names = [name for name in calls if name in stated]
    *_, last_update = (number for number, name in enumerate(names) if name == begins)
    in_order = [name for number, name in enumerate(names[last_update:]) if name != names[last_update + number - 1]]
    assert in_order[: len(stated)] == stated
    every_hook = {name for name in calls if re.fullmatch(r"(Task|Recorder|Progress|Checkpointer)\.on_\w+", name)}
    of_an_update = {name for name in every_hook if re.search(r"_batch_|_optimizer_|_validation_", name)}
    assert of_an_update <= set(stated), "a hook of an update that tasks/task.py does not list"
