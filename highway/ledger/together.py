"""Rows that are timed together. A table of `kind: timing` is one run, with the device's name in its identity."""

import itertools
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.files.device import cores, device_name
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import of_timing

# Equal in all rows: the batch, device, precision, compilation and threads of the first row are those of the timing.
SHARED = ("dataset", "trainer.accelerator", "trainer.precision", "trainer.compile", "trainer.threads")


@dataclass(frozen=True)
class Timing:
    """The rows of a timing table, measured in `rounds` interleaved rounds."""

    rounds: int
    budget: str
    rows: dict[str, Experiment]

    @classmethod
    def of(cls, rounds: int, budget: str, rows: dict[str, Experiment]) -> "Timing":
        """Return a timing with a fixed number of threads for each row."""
        for row in rows.values():
            row.trainer.threads = row.trainer.threads or cores()
        check_shared(rows)
        if next(iter(rows.values())).trainer.precision == "64":
            raise Refused("trainer.precision=64 cannot be timed. Use trainer.precision=32 or bf16.")
        return cls(rounds, budget, rows)

    @property
    def first(self) -> Experiment:
        """The row that the others are compared with."""
        return next(iter(self.rows.values()))

    @property
    def threads(self) -> int:
        assert self.first.trainer.threads is not None
        return self.first.trainer.threads

    @property
    def device(self) -> str:
        import torch  # slow to import, so only after the rows are checked

        return "cuda" if self.first.trainer.accelerator != "cpu" and torch.cuda.is_available() else "cpu"

    @property
    def directory(self) -> RunDirectory:
        surroundings: dict[str, Any] = {"device": device_name(self.device), "threads": self.threads}
        mode = self.first.trainer.compile
        surroundings["compile"] = {None: False, "default": True}.get(mode, mode)  # the first records have true or false
        name = of_timing(list(self.rows.values()), surroundings)
        return RunDirectory(self.first.outputs_dir / "cells" / name / f"seed{self.first.seed}")


def check_shared(rows: dict[str, Experiment]) -> None:
    """Refuse rows that differ in a key of `SHARED`, since their times would not compare."""
    first, *others = rows
    for other, key in itertools.product(others, SHARED):
        one, another = (attrgetter(key)(rows[name]) for name in (first, other))
        if one != another:
            values = f" ({one} and {another})" if key != "dataset" else ""
            raise Refused(
                f"rows '{first}' and '{other}' of a timing differ in {key}{values}, so their times do not compare: "
                "write it once, in the table's `recipe`."
            )
