"""Rows that are timed together: a table of `kind: timing` is one cell, with the name of the device in its identity."""

from dataclasses import dataclass
from typing import Any

from highway.config.experiment import Experiment
from highway.errors import Refused
from highway.ledger.cell import Cell
from highway.ledger.device import cores, device_name
from highway.ledger.identity import of_timing


@dataclass(frozen=True)
class Timing:
    rounds: int
    budget: str
    rows: dict[str, Experiment]

    @classmethod
    def of(cls, rounds: int, budget: str, rows: dict[str, Experiment]) -> "Timing":
        for row in rows.values():
            row.trainer.threads = row.trainer.threads or cores()
        if next(iter(rows.values())).trainer.precision == "64":
            raise Refused("trainer.precision=64 is for checking, not for timing; 32 and bf16 are timed.")
        return cls(rounds, budget, rows)

    @property
    def first(self) -> Experiment:
        """The row that the others are compared with; what it says of device, threads and precision holds for all."""
        return next(iter(self.rows.values()))

    @property
    def threads(self) -> int:
        assert self.first.trainer.threads is not None
        return self.first.trainer.threads

    @property
    def device(self) -> str:
        import torch  # only now that the rows are known to be right

        return "cuda" if self.first.trainer.accelerator != "cpu" and torch.cuda.is_available() else "cpu"

    @property
    def cell(self) -> Cell:
        surroundings: dict[str, Any] = {"device": device_name(self.device), "threads": self.threads}
        mode = self.first.trainer.compile
        surroundings["compile"] = {None: False, "default": True}.get(mode, mode)  # as before there were modes
        name = of_timing(list(self.rows.values()), surroundings)
        return Cell(self.first.outputs_dir / "cells" / name / f"seed{self.first.seed}")
