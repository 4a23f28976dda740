"""The scenes of faults: runs of a few steps that nothing has disturbed, stopped and finished ones.

A scene is a folder of outputs. Each case gets a copy of it, damages the copy, and gives a command that reads it.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from highway.ledger.fingerprint import fingerprint

from highway.commands import cli
from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.config.models import MODELS
from highway.data import sample
from highway.errors import Refused
from highway.files.writing import read_json
from highway.ledger.directory import RunDirectory
from highway.run import memory
from highway.sweep.grid import find
from highway.testing.runs import StopAt, curve, numbers, same_weights
from highway.train import run
from highway.use.load import load
from tests.faults.trials import Verdict, forked, script
from tests.support.overrides import TINY

RUN = (  # six steps; a validation every two, a checkpoint after each
    *TINY,
    "gate=sdu_tanh",
    "dataset.train={lanes:370,window:24,stride:20,scored:20}",
    "trainer.max_steps=6",
    "trainer.validate_every=2",
    "trainer.log_every=1",
    "trainer.checkpoint_seconds=0",
    "model.dropout=0.3",
    "seed=1",
)
OTHERS = {  # runs that differ in one thing; their files are exchanged for those of the run
    "seed": ("seed=2",),
    "gate": ("gate=none",),
    "data": ("dataset=ptb_char_joined",),
    "revision": (),
    "step": (),
}
DIVERGED = cli.EXIT_CODES["diverged"]
STOP = 4  # the step at which the run was stopped
GRID = "sorts"
VARIED = ("gate=none,sdu_tanh", "seed=1,2")


@contextmanager
def small_data(folder: Path) -> Iterator[None]:
    """Make the generated corpora small, and use folders of our own."""
    before = dict(os.environ), dict(sample.SENTENCES), memory.check
    memory.check = lambda _: True  # it reads no file, and takes a third of the time
    os.environ |= {"HIGHWAY_DATA": str(folder / "data"), "HIGHWAY_CAUTIONS": "off", "COLUMNS": "200"}
    sample.SENTENCES.update(train=300, valid=40, test=40)
    sample.penn_treebank.cache_clear()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before[0])
        sample.SENTENCES.update(before[1])
        memory.check = before[2]
        sample.penn_treebank.cache_clear()


def trains(described: Experiment, *callbacks: pl.Callback) -> Callable[[], int]:
    """Return the command that trains a run: the end of `highway train`, once the settings are checked."""
    return lambda: cli.EXIT_CODES[run(described, RunDirectory.of(described), "train.py", callbacks)]


@dataclass
class Scenes:
    """Runs to inflict faults on, below `folder`."""

    folder: Path
    described: Experiment  # the run
    others: dict[str, Experiment]

    @classmethod
    def made(cls, folder: Path) -> "Scenes":
        described = experiment(list(RUN))
        others = {name: experiment([*RUN, *overrides]) for name, overrides in OTHERS.items()}
        scenes = cls(folder, described, others)
        scenes._train()
        return scenes

    def at(self, outputs: Path) -> Experiment:
        """Return the experiment of the run with this folder of outputs."""
        return with_outputs(self.described, outputs)

    def directory(self, outputs: Path) -> RunDirectory:
        return RunDirectory.of(self.at(outputs))

    def _train(self) -> None:
        for described in (self.described, *self.others.values()):  # what this process keeps, no fork computes again
            fingerprint(described)
            sample.penn_treebank(characters=described.dataset.form == "characters")
        self._must(trains(self.at(self.folder / "finished")))
        self._must(trains(self.at(self.folder / "stopped"), StopAt(STOP)), 130)
        for name in self.others:
            steps = (2, 3) if name == "step" else (STOP, None)
            for state, step in zip(("stopped", "finished"), steps, strict=True):
                outputs = self.folder / name / state
                stop = () if step is None else (StopAt(step),)
                with revised(name == "revision"):
                    self._must(trains(with_outputs(self.others[name], outputs), *stop), 0 if step is None else 130)
        words = [word for word in RUN if word.split("=")[0] not in ("gate", "seed")]
        sweep = ("-m", f"name={GRID}", "hydra/launcher=inline", *words, *VARIED)
        self.grid = self.folder / "grid" / "outputs"
        self.grid.parent.mkdir(parents=True)
        made = script("train.py", *sweep, outputs=self.grid, seconds=300)
        assert made.code == 0, made.errors
        find(GRID, self.grid)  # so that no fork reads conf/ again

    def _must(self, command: Callable[[], int], code: int = 0) -> None:
        ended = forked(command, seconds=300)
        assert ended.code == code, ended

    def copy(self, state: str, folder: Path) -> Path:
        """Copy a scene into a case's folder, and return its outputs."""
        return Path(shutil.copytree(self.folder / state, folder / "outputs", symlinks=True))

    @property
    def runs(self) -> list[Path]:
        """The directories of the grid's runs, relative to its outputs."""
        return sorted(path.relative_to(self.grid) for path in self.grid.glob("cells/*/seed*"))

    # How a run ended

    def difference(self, outputs: Path) -> str | None:
        """Return what differs from the undisturbed run, or None; weights that name another run differ in nothing."""
        whole, ours = self.directory(self.folder / "finished"), self.directory(outputs)
        if numbers(read_json(ours.path / "result.json")) != numbers(read_json(whole.path / "result.json")):
            return "metrics"
        if curve(whole) != curve(ours):
            return "curves"
        if whole.config.read_text() != ours.config.read_text():
            return "config"
        return next((name for name in ("best", "last") if self._other_weights(whole, ours, name)), None)

    def _other_weights(self, whole: RunDirectory, ours: RunDirectory, name: str) -> bool:
        """Return True if weights that differ would be used."""
        first, second = getattr(whole, name), getattr(ours, name)
        if second.is_file() and first.read_bytes() == second.read_bytes():
            return False
        try:
            load(ours.path, last=name == "last")
        except Refused:
            return False
        return not same_weights(first, second)

    def judged(self, outputs: Path, fault: Callable[[], Any] | None = None) -> Verdict:
        """Give the command until it ends well, at most four times; judge what it said and what it left.

        fault: called by the process of the first command, which it disturbs.
        """

        def command() -> int:
            code = trains(self.at(outputs))()
            return self._checked(outputs, code)

        def disturbed() -> int:
            assert fault is not None
            fault()
            return trains(self.at(outputs))()

        ended, said = forked(command if fault is None else disturbed), False
        for _ in range(4):
            said = said or ended.said
            if verdict := ended.forbidden():
                return verdict
            if ended.refused:
                return Verdict("refused", ended.errors)
            if ended.output == "same\n":
                return Verdict("mended" if said else "right", ended.errors)
            if ended.output or ended.code == DIVERGED:
                return Verdict("WRONG", f"{ended.output.strip() or 'diverged'}: {ended.errors[-300:]}")
            ended = forked(command)  # it was interrupted, or a file was damaged after its end
        return Verdict("WRONG", f"never finished: exit {ended.code}: {ended.errors[-300:]}")

    def _checked(self, outputs: Path, code: int) -> int:
        """Print how a run that has ended well compares with the undisturbed one; nothing if it has not."""
        if code == 0 and self.directory(outputs).status == "finished":
            print(f"other {different}" if (different := self.difference(outputs)) else "same")
        return code


def with_outputs(described: Experiment, outputs: Path) -> Experiment:
    changed = deepcopy(described)
    changed.outputs_dir = outputs
    return changed


@contextmanager
def revised(wanted: bool) -> Iterator[None]:
    """Raise the revision of the model, as a mend that changes numbers does."""
    if not wanted:
        yield
        return
    before = MODELS["transformer"]
    MODELS["transformer"] = replace(before, revision=before.revision + 1)
    try:
        yield
    finally:
        MODELS["transformer"] = before
