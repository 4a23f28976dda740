"""The record of a run as one seed of a row, and all records of a row. Reads records, and no weights."""

import csv
import math
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from highway.cards.datasets import DATASETS, RANDOM, SAMPLE
from highway.cards.metrics import METRICS, OF_A_RECORD, Metric
from highway.config import home
from highway.errors import Refused
from highway.keys.yaml_file import read_yaml
from highway.ledger.directory import DONE, RunDirectory, roots, seed_directories
from highway.ledger.record import leave_out, read_record, worse_than_counting
from highway.report.curves import Curves, Outline, Point, curves_of

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Sample:
    """The record of a run, as one seed of one row."""

    directory: Path
    seed: int
    result: dict[str, Any]
    outline: Outline = ()
    relative_times: tuple[float, ...] = ()  # of a timed row, which has no curves: by round, relative to the first row

    @property
    def name(self) -> str:
        """The name of the run among those of all tables, which its mirror on W&B has."""
        return f"{self.directory.parent.name}-{self.directory.name}"

    @property
    def finished(self) -> bool:
        return self.result["status"] == "finished"

    def counts_for(self, metric: str) -> bool:
        """Return whether the run has the metric and its value can be used: a time only if nothing else was running."""
        has_it = metric in OF_A_RECORD or metric in self.result["metrics"]
        return has_it and (not METRICS[metric].is_disturbed or self.result["cost"]["exclusive"])

    def value(self, metric: str, select: str) -> float:
        """Return a metric of the best or the last checkpoint (`select`), or a number of the whole run."""
        whole_run = {
            "parameters": ("parameters", "total"),
            "gate_parameters": ("parameters", "gate"),
            "tokens_per_second": ("cost", "tokens_per_second"),
        }
        if metric in whole_run:
            section, key = whole_run[metric]
            return self.result[section][key]
        return self.result["metrics"][metric][select]

    def is_sound(self, select: str) -> bool:
        """Return whether the run finished, and has learned more than counting; select: the checkpoint that counts."""
        return self.finished and not self.unlearned(select)

    def unlearned(self, select: str) -> str:
        """Return in words that the run has not learned, with both numbers; empty if it has."""
        return worse_than_counting(self.result, self._counting_loss, select)

    @property
    def is_unchecked(self) -> bool:
        """True if it finished and measured quality, but cannot be compared with counting: it then counts as sound."""
        metrics = self.result["metrics"]
        if not self.finished or not any(METRICS[name].measures_quality for name in metrics if name in METRICS):
            return False
        return self._counting_loss is None or "test_loss" not in metrics

    @property
    def _counting_loss(self) -> float | None:
        """The test loss of counting; outputs/reference/counting.yaml has it for records that lack it."""
        data = self.result["data"]
        key = (data.get("form", ""), data["sha256"].get("test", ""), data.get("vocabulary_sha256", ""))
        return data.get("counting_loss") or _counting_losses(home.REFERENCE / "counting.yaml").get(key)

    def examples(self, split: str | None) -> int | None:
        """Return the number of examples of a split, or None if the record does not say."""
        data = self.result["data"]
        return next((data[unit].get(split) for unit in ("images", "pieces", "symbols") if unit in data), None)

    @property
    def data_identity(self) -> tuple[str, str]:
        """The vocabulary and the data, which two runs must share to be compared."""
        data = self.result["data"]
        return data.get("vocabulary_sha256", ""), str(sorted(data["sha256"].items()))

    @property
    def curves(self) -> Curves:
        if self.relative_times:
            return {}
        return curves_of(self.directory / "curves.csv")

    def outlined(self) -> "Sample | None":
        """Return the record with the names of its curves.

        None if curves.csv cannot be read: a warning then names it, and the record does not count.
        """
        try:
            outline = tuple(self.curves)
        except (OSError, ValueError, KeyError, IndexError, StopIteration, csv.Error) as error:
            return leave_out(self.directory, f"curves.csv cannot be read ({type(error).__name__})")
        lost = [f"{split}_{kind}" for split, kind in outline if split in ("valid", "test")]
        lost = [name for name in lost if name not in self.result["metrics"]]
        if self.finished and lost:
            return leave_out(self.directory, f"metrics.{lost[0]} is missing, but curves.csv has it")
        return replace(self, outline=outline) if outline or not self.finished else None

    def curve(self, metric: Metric) -> list[Point]:
        """Return the curve of a metric on its split; empty if the run has none."""
        return self.curves.get((metric.split or "", metric.kind), [])

    @cached_property
    def divisions(self) -> tuple[int | None, int] | None:
        """The epoch after which validation first divided the learning rate (None: never), and how often it did.

        None if the schedule is another one, or if the configuration or the curve cannot be read.
        """
        with suppress(OSError, LookupError, TypeError, ValueError, ArithmeticError, csv.Error, Refused):
            optimizer = read_yaml(RunDirectory(self.directory).config)["optimizer"]
            if optimizer["schedule"] != "plateau":
                return None
            rates = self.curves["train", "learning_rate"]
            lower = next((point.epoch for point in rates if point.value < optimizer["lr"]), None)
            times = round(math.log(optimizer["lr"] / rates[-1].value, optimizer["plateau"]["divide_by"]))
            return None if lower is None else math.floor(lower), times
        return None

    def probe(self, name: str) -> "dict[str, np.ndarray]":
        """Return the arrays of a probe by their location in the model; empty if the run has none."""
        import numpy as np  # `status` does without it

        path = self.directory / "probes" / f"{name}.npz"
        try:
            if not path.exists():
                return {}
            with np.load(path) as arrays:
                return dict(arrays)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            leave_out(path, f"the arrays cannot be read ({type(error).__name__})")
            return {}


def samples(name: str, outputs_dir: Path) -> tuple[Sample, ...]:
    """Return a record for each seed of a row, of the first root that has one; `name` is that of its runs."""
    by_seed: dict[int, Sample] = {}
    for sample in records(name, outputs_dir):
        if sample.seed not in by_seed and (outlined := sample.outlined()):
            by_seed[sample.seed] = outlined
    return tuple(by_seed[seed] for seed in sorted(by_seed))


def records(name: str, outputs_dir: Path) -> Iterator[Sample]:
    """Yield all records of a row, first root first, without reading their curves."""
    for root in roots(outputs_dir):
        for folder, result in results(root / name):
            if result["status"] in DONE:
                yield Sample(folder, result["seed"], result)


def results(directory: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return the valid records of a configuration's seeds, each with its directory."""
    read = ((folder, read_record(folder / "result.json")) for folder in seed_directories(directory))
    return [(folder, result) for folder, result in read if result]


@cache
def _counting_losses(path: Path) -> dict[tuple[str, str, str], float]:
    try:
        entries = read_yaml(path)
    except FileNotFoundError:
        return {}
    return {(entry["form"], entry["test"], entry["vocabulary"]): entry["test_loss"] for entry in entries}


def caveat_of(data: dict[str, Any]) -> str:
    """Return the words on a record's data that a reader needs before its numbers."""
    fixed = {"sample": SAMPLE, "random": RANDOM}.get(data["source"])
    return fixed or next((card.caveat for card in DATASETS.values() if card.extent == data["source"]), data["source"])
