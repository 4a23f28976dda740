"""Joins records with tables: which finished cells give which row. Reads files only, never a model."""

import csv
import itertools
import math
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from highway.config.compose import experiment
from highway.config.datasets import DATASETS, RANDOM, SAMPLE
from highway.config.experiment import Experiment
from highway.config.metrics import METRICS, Metric
from highway.errors import Refused
from highway.ledger.cell import DONE, Cell
from highway.ledger.fingerprint import fingerprint, of_together
from highway.ledger.identity import cell_name, identified, identity, named_revisions
from highway.ledger.record import leave_out, usable
from highway.sweep.table import Row, Table

if TYPE_CHECKING:
    import numpy as np

REFERENCE = Path(__file__).parents[2] / "outputs" / "reference"


class Point(NamedTuple):
    """Of a curve; the authors' logs know the step alone."""

    step: float
    epoch: float
    value: float
    seconds: float
    tokens: float


Curves = dict[tuple[str, str], list[Point]]  # (split, metric) -> its points


@dataclass(frozen=True)
class Sample:
    """One cell's record, as one seed of one row."""

    directory: Path
    seed: int
    result: dict[str, Any]
    older_revision: bool
    other_code: bool = False  # than today's has computed it

    @property
    def finished(self) -> bool:
        return self.result["status"] == "finished"

    def tells(self, metric: str) -> bool:
        """A time means something only where nothing else was running."""
        return not (metric and METRICS[metric].is_disturbed) or self.result["cost"]["exclusive"]

    def value(self, metric: str, select: str) -> float:
        of_record = {
            "parameters": ("parameters", "total"),
            "gate_parameters": ("parameters", "gate"),
            "tokens_per_second": ("cost", "tokens_per_second"),
        }
        section, key = of_record.get(metric, ("metrics", metric))
        found = self.result[section][key]
        return found[select] if section == "metrics" else found

    @cached_property
    def curves(self) -> Curves:
        return _curves(self.directory / "curves.csv").get("", {})

    @property
    def has_curves(self) -> bool:
        """Else it is left out."""
        try:
            return bool(self.curves) or not self.finished
        except (OSError, ValueError, KeyError, IndexError, StopIteration, csv.Error) as error:
            leave_out(self.directory, f"curves.csv cannot be read ({type(error).__name__})")
            return False

    def curve(self, metric: Metric) -> list[Point]:
        """Of a metric on a split."""
        return self.curves[metric.split or "", metric.kind]

    @property
    def relative_times(self) -> list[float]:
        """Of every round of a timing: the time of a step, the first row's being 1."""
        return [point.value for point in self.curves[self.result["row"], "relative_time"]]

    def probe(self, name: str) -> "dict[str, np.ndarray]":
        """Arrays that were kept under a name, by their place in the model; none where there are none."""
        import numpy as np  # which who asks where cells stand need not wait for

        path = self.directory / "probes" / f"{name}.npz"
        try:
            return dict(np.load(path)) if path.exists() else {}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            leave_out(path, f"the arrays cannot be read ({type(error).__name__})")
            return {}

    @property
    def gate_biases(self) -> "dict[str, np.ndarray]":
        """By sublayer in the order of the model, as a1, b1, a2 ...: a for attention, b for feed-forward; of two
        stacks, encoder a1, decoder a1, decoder c1 ...: c for attention to the other."""
        found = self.probe("gate_biases")
        return {_short(name): found[name] for name in sorted(found, key=_place)}


@dataclass(frozen=True)
class Collected:
    table: Table
    budget: str
    samples: dict[str, tuple[Sample, ...]]  # by row, by seed
    experiments: dict[str, Experiment] = field(default_factory=dict)  # what a row is, whatever the seed
    only_run: bool = False  # whether rows that were not run are of no interest

    def finished(self, row_id: str) -> tuple[Sample, ...]:
        return tuple(sample for sample in self.samples[row_id] if sample.finished)

    @property
    def every(self) -> list[Sample]:
        return [sample for row in self.table.rows for sample in self.samples[row.id]]

    @property
    def full_data(self) -> bool:
        """Whether the task was the paper's own; the time of a step does not depend on which symbols it reads."""
        return self.data_source == "files" or self.table.kind == "timing"

    @property
    def caveat(self) -> str:
        """What is to be said of results on such data."""
        found = {_caveat(sample.result["data"]) for sample in self.every}
        return "; ".join(sorted(found)) or "no records"

    @property
    def data_source(self) -> str:
        sources = {sample.result["data"]["source"] for sample in self.every}
        return "/".join(sorted(sources))


def underway(row: Experiment, outputs_dir: Path) -> dict[str, Curves]:
    """The curves of cells that have begun here and not ended, by seed and where they stand."""
    found = {}
    for path in sorted((outputs_dir / "cells" / identified(row)).glob("seed*/curves.csv")):
        cell = Cell(path.parent)
        if not cell.done:
            try:
                found[f"{path.parent.name.replace('seed', 'seed ')}, {cell.status}"] = _curves(path).get("", {})
            except (OSError, ValueError, IndexError, StopIteration):  # a row is being written
                continue
    return found


def authors_logs(table: Table) -> dict[str, Curves]:
    """The authors' own training curves by row, for a table that has any."""
    path = REFERENCE / "series" / f"{table.id}.csv"
    return _curves(path) if path.exists() else {}


def _curves(path: Path) -> dict[str, Curves]:
    """Row -> its curves; a cell's own file names no row, and the logs no epoch."""
    found: dict[str, Curves] = {}
    with open(path, newline="") as file:
        lines = csv.reader(file)
        place = {name: number for number, name in enumerate(next(lines))}
        split, metric, row = place["split"], place["metric"], place.get("row")
        numbers = [place.get(name) for name in Point._fields]
        for line in lines:
            point = Point(*[math.nan if number is None else float(line[number]) for number in numbers])
            curves = found.setdefault("" if row is None else line[row], {})
            curves.setdefault((line[split], line[metric]), []).append(point)
    return found


SUBLAYERS = {"attention": "a", "itself": "a", "feed_forward": "b", "cross": "c"}


def _place(name: str) -> tuple[bool, str, int, str]:
    """Where a probe is from: of the stacks the encoder first; its layer; its sublayer."""
    stack, layer, sublayer = name.split(".")[:3]
    return stack != "encoder", stack, int(layer), sublayer


def _short(name: str) -> str:
    """blocks.0.attention.gate -> a1; decoder.0.cross.gate -> decoder c1."""
    _, stack, layer, sublayer = _place(name)
    return f"{'' if stack == 'blocks' else f'{stack} '}{SUBLAYERS.get(sublayer, sublayer)}{layer + 1}"


def _caveat(data: dict[str, Any]) -> str:
    fixed = {"sample": SAMPLE, "random": RANDOM}.get(data["source"])
    return fixed or next((card.caveat for card in DATASETS.values() if card.extent == data["source"]), data["source"])


def described(table: Table, row: Row, budget: str) -> Experiment:
    """What a row is, whatever the seed."""
    return _composed(tuple(table.overrides(row, budget, seed=0)))


@cache  # a report asks for hundreds, most of them more than once
def _composed(words: tuple[str, ...]) -> Experiment:
    return experiment(list(words))


def beside(table: Table, budget: str, words: Sequence[str]) -> Table:
    """The table with more arms: its rows with these words added, where that makes another cell."""
    added = " ".join(words)
    more = [
        replace(row, id=f"{row.id},{added}", label=f"{row.label}, {added}", paper={}, arm=True)
        for row in (replace(row, shrunk={budget: (*row.shrunk.get(budget, ()), *words)}) for row in table.at(budget))
    ]
    whole = replace(table, rows=(*table.rows, *more))
    same = {identified(described(table, row, budget)) for row in table.at(budget)}

    def differs(row: Row) -> bool:
        try:
            return identified(described(whole, row, budget)) not in same
        except Refused:  # the words do not fit this row
            return False

    return replace(table, rows=(*table.rows, *filter(differs, more)))


def collect(table: Table, budget: str, outputs_dir: Path) -> Collected:
    """The records of a table at a budget: this machine's first, then the published ones."""
    roots = [outputs_dir / "cells", REFERENCE / "cells"]
    if table.kind == "timing":
        return _timings(table, budget, roots)
    rows = {row.id: described(table, row, budget) for row in table.at(budget)}
    found = {row_id: samples(row, roots) for row_id, row in rows.items()}
    return Collected(table, budget, {row.id: found.get(row.id, ()) for row in table.rows}, rows)


def _timings(table: Table, budget: str, roots: list[Path]) -> Collected:
    """Every timing of these rows; where there are several devices, each has rows and claims of its own."""
    rows = {row.id: described(table, row, budget) for row in table.rows}
    names = {row_id: identified(row) for row_id, row in rows.items()}
    found: dict[tuple[str, int], tuple[Path, dict[str, Any]]] = {}
    for path in (path for root in roots for path in sorted(root.glob("timing-*/seed*/result.json"))):
        result = usable(path)
        if result and result["status"] == "finished" and set(result.get("rows", ())) == set(names.values()):
            found.setdefault((_setting(result), result["seed"]), (path.parent, result))
    code = of_together(rows.values())
    settings = sorted({setting for setting, _ in found})
    by_row = {
        _on(row_id, setting, settings): tuple(
            Sample(folder, seed, {**result, **result["rows"][name], "row": name}, False, _other(result, code))
            for (where, seed), (folder, result) in sorted(found.items())
            if where == setting
        )
        for row_id, name in names.items()
        for setting in settings or [""]
    }
    told = {_on(row_id, setting, settings): rows[row_id] for row_id in rows for setting in settings or [""]}
    return Collected(_by_setting(table, settings), budget, by_row, told)


def _setting(result: dict[str, Any]) -> str:
    """What two timings must share to be seeds of one row."""
    environment = result["environment"]
    mode = environment["compile"]  # older records have true or false
    compiled = f", compiled{'' if mode in (True, 'default') else f' ({mode})'}" if mode else ""
    return f"{result['cost']['device']}, {environment['threads']} threads{compiled}"


def _on(row_id: str, setting: str, settings: list[str]) -> str:
    return f"{row_id} on {setting}" if len(settings) > 1 else row_id


def _by_setting(table: Table, settings: list[str]) -> Table:
    if len(settings) < 2:
        return table
    rows = [
        replace(row, id=_on(row.id, setting, settings), label=f"{row.label} ({setting})")
        for setting in settings
        for row in table.rows
    ]
    claims = [
        replace(
            claim,
            text=f"{claim.text} ({setting})",
            rows=tuple(_on(name, setting, settings) for name in claim.rows),
            than=tuple(_on(name, setting, settings) for name in claim.than),
        )
        for setting in settings
        for claim in table.claims
    ]
    return replace(table, rows=tuple(rows), claims=tuple(claims))


def samples(row: Experiment, roots: list[Path]) -> tuple[Sample, ...]:
    """The records of a row, one a seed: of the newest revision that has one, of the first root that does."""
    found: dict[int, Sample] = {}
    for sample in records(row, roots):
        if sample.seed not in found and sample.has_curves:
            found[sample.seed] = sample
    return tuple(found[seed] for seed in sorted(found))


def records(row: Experiment, roots: list[Path]) -> Iterator[Sample]:
    """Every one of a row, of the newest revision and the first root first; nobody has looked at its curves."""
    code = fingerprint(row)
    for name, older in cell_names(row):
        for root in roots:
            for folder in seeds(root / name):
                result = usable(folder / "result.json")
                if result and result["status"] in DONE:
                    yield Sample(folder, result["seed"], result, older, _other(result, code))


def seeds(cell: Path) -> list[Path]:
    """The directories of a cell's seeds."""
    names = os.listdir(cell) if cell.exists() else []
    return [cell / name for name in sorted(names) if name.startswith("seed")]


def _other(result: dict[str, Any], code: str | None) -> bool:
    """A record that does not say which code computed it is taken at its word."""
    return result.get("fingerprint") not in (None, code)


def cell_names(row: Experiment) -> list[tuple[str, bool]]:
    """The cell's name, and the names that it had at older revisions, newest first."""
    about = identity(row)
    now = about["revision"]
    ranges = [range(number, 0, -1) for number in now.values()]
    names = []
    for numbers in itertools.product(*ranges):
        revision = named_revisions(dict(zip(now, numbers, strict=True)))
        names.append((cell_name(row.model.name, {**about, "revision": revision}), revision != now))
    return names
