"""Joins records with tables: finds the finished runs of each row. Reads files only, never a model."""

import csv
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from highway.config import home
from highway.config.datasets import DATASETS, RANDOM, SAMPLE
from highway.config.experiment import Experiment
from highway.config.metrics import METRICS, OF_A_RECORD, Metric
from highway.errors import Corrupt, Refused, counted
from highway.files.kept import Kept
from highway.files.plain import open_plain
from highway.ledger.directory import DONE, RunDirectory, seed_directories
from highway.ledger.fingerprint import joined
from highway.ledger.identity import identified
from highway.ledger.record import leave_out
from highway.report.addresses import Address, Experiments, address_of, composed, overrides_of, roots
from highway.report.checks import check_of
from highway.report.curves import Curves, Outline, Point, curves_of, read_curves
from highway.report.kept import kept_below
from highway.report.provenance import OLDER, STALE, unknown
from highway.report.reading import kept_name, results
from highway.report.trials import Decisions, with_choices
from highway.sweep.table import Row, Table

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Sample:
    """The record of a run, as one seed of one row."""

    directory: Path
    seed: int
    result: dict[str, Any]
    older_revision: bool
    other_code: bool = False  # the code has changed since the record
    outline: Outline = ()

    @property
    def finished(self) -> bool:
        return self.result["status"] == "finished"

    @property
    def changes(self) -> list[str]:
        """The marks that say why the record may not show what today's code gives, and whether that was checked."""
        check = check_of(self.directory, self.result)
        unknown_code = self.other_code or not self.result.get("fingerprint")
        marks = {OLDER: self.older_revision, STALE: self.other_code and not check}
        checked = [check.mark] if check and unknown_code else []
        return [*(mark for mark, applies in marks.items() if applies), *checked]

    @property
    def marks(self) -> list[str]:
        """Everything that a number of the record has to say about its code."""
        return [*unknown(self.result), *self.changes]

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

    @property
    def curves(self) -> Curves:
        return curves_of(self.directory / "curves.csv", self.result["files"].get("curves.csv"))

    def outlined(self) -> "Sample | None":
        """Return the record with the names of its curves.

        None if curves.csv cannot be read: a warning then names it, and the record does not count.
        """
        try:
            outline = tuple(self.curves)
        except (OSError, ValueError, KeyError, IndexError, StopIteration, csv.Error, Corrupt) as error:
            return leave_out(self.directory, f"curves.csv cannot be read ({type(error).__name__})")
        lost = [f"{split}_{kind}" for split, kind in outline if split in ("valid", "test")]
        lost = [name for name in lost if name not in self.result["metrics"]]
        if self.finished and lost:
            return leave_out(self.directory, f"metrics.{lost[0]} is missing, but curves.csv has it")
        return replace(self, outline=outline) if outline or not self.finished else None

    def curve(self, metric: Metric) -> list[Point]:
        """Return the curve of a metric on its split."""
        return self.curves[metric.split or "", metric.kind]

    @property
    def relative_times(self) -> list[float]:
        """The time of a step in each round of a timing, relative to the first row's."""
        return [point.value for point in self.curves[self.result["row"], "relative_time"]]

    @property
    def has_test_units(self) -> bool:
        """Return whether the record keeps what the bootstrap over the test set needs."""
        counts = self.result.get("notes", {}).get("bleu_counts")
        return bool(counts) or (self.directory / "probes" / "test_units_best.npz").exists()

    def probe(self, name: str) -> "dict[str, np.ndarray]":
        """Return the arrays of a probe by their location in the model; empty if the run has none."""
        import numpy as np  # `status` does without it

        path = self.directory / "probes" / f"{name}.npz"
        try:
            if not path.exists():
                return {}
            with open_plain(path) as file:
                return dict(np.load(file))
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, Corrupt) as error:
            leave_out(path, f"the arrays cannot be read ({type(error).__name__})")
            return {}


@dataclass(frozen=True)
class Collected:
    """The records of a table at a budget."""

    table: Table
    budget: str
    samples: dict[str, tuple[Sample, ...]]  # by row, by seed
    experiments: Experiments = field(default_factory=lambda: Experiments({}))  # by row; the seed is arbitrary
    folders: dict[str, str] = field(default_factory=dict)  # by row; the name of its runs' folder
    only_run: bool = False  # leave out rows that have not run
    decisions: Decisions = field(default_factory=dict)  # what validation chose in each row

    def finished(self, row_id: str) -> tuple[Sample, ...]:
        return tuple(sample for sample in self.samples[row_id] if sample.finished)

    @property
    def every(self) -> list[Sample]:
        return [sample for row in self.table.rows for sample in self.samples[row.id]]

    @property
    def trials(self) -> list[Path]:
        """The directories of the trials that have ended, by their own end or by the choice."""
        decisions = [found for by_seed in self.decisions.values() for found in by_seed.values()]
        ended = ("finished", "diverged", "dropped")
        return [trial.directory for found in decisions for trial in found.trials if trial.status in ended]

    def trace(self, row_ids: Iterable[str]) -> list[object]:
        """Return what tells these records, and what is said of them, from any others."""
        samples = ((row_id, sample) for row_id in row_ids for sample in self.samples[row_id])
        return [(row_id, str(each.directory), each.result["sha256"], each.marks) for row_id, each in samples]

    @property
    def full_data(self) -> bool:
        """True if the data are the paper's; the time of a step does not depend on the data."""
        return (self.data_source == "files" and not self._texts_differ) or self.table.kind == "timing"

    @property
    def _texts_differ(self) -> bool:
        """True if records with the same data set and form were trained on different texts."""
        data = [sample.result["data"] for sample in self.every]
        whole = [about for about in data if about["source"] == "files"]
        texts = {(about.get("name"), about.get("form"), str(about["sha256"])) for about in whole if "sha256" in about}
        return len(texts) > len({text[:2] for text in texts})

    @property
    def caveat(self) -> str:
        """A phrase on the data of all records, such as `full data`."""
        caveats = {_caveat(sample.result["data"]) for sample in self.every}
        if self._texts_differ:
            caveats.add("rows on different texts under one name, so they do not compare")
        return "; ".join(sorted(caveats)) or "no records"

    @property
    def data_source(self) -> str:
        sources = {sample.result["data"]["source"] for sample in self.every}
        return "/".join(sorted(sources))


def underway(collected: Collected, outputs_dir: Path) -> dict[tuple[str, str], Path]:
    """Return the curves.csv of runs that have begun here and not ended, by row and label (`seed 2, running`)."""
    paths = {}
    for row_id, name in collected.folders.items():
        ended = {sample.directory for sample in collected.samples[row_id]}
        for folder in seed_directories(outputs_dir / "cells" / name):
            directory = RunDirectory(folder)
            if folder not in ended and directory.curves.exists() and not directory.done:
                paths[row_id, f"{folder.name.replace('seed', 'seed ')}, {directory.status}"] = directory.curves
    return paths


def authors_logs(table: Table) -> dict[str, Curves]:
    """Return the authors' own training curves by row; empty for a table without any."""
    path = logs_of(table)
    return read_curves(path) if path.exists() else {}


def logs_of(table: Table) -> Path:
    """Return the file of the authors' own training curves, which most tables lack."""
    return home.REFERENCE / "series" / f"{table.id}.csv"


def _caveat(data: dict[str, Any]) -> str:
    fixed = {"sample": SAMPLE, "random": RANDOM}.get(data["source"])
    return fixed or next((card.caveat for card in DATASETS.values() if card.extent == data["source"]), data["source"])


def described(table: Table, row: Row, budget: str) -> Experiment:
    """Return the experiment of a row at a budget; its seed is arbitrary."""
    return composed(overrides_of(table, row, budget))


def with_overrides(table: Table, budgets: Sequence[str], overrides: Sequence[str]) -> Table:
    """Return the table with an extra row for each row that becomes another run with these overrides."""
    if not overrides:
        return table
    changed = [row.with_added(overrides) for row in table.rows]
    against = table.against or {table.rows[0].id: tuple(row.id for row in table.rows[1:])}
    own = {row.id: (*against.get(row.id, ()), new.id) for row, new in zip(table.rows, changed, strict=True)}
    whole = replace(table, rows=(*table.rows, *changed), against=against | own)
    known = {identified(described(table, row, budget)) for budget in budgets for row in table.at(budget)}

    refusals: list[Refused] = []

    def differs(row: Row, budget: str) -> bool:
        try:
            return identified(described(whole, row, budget)) not in known
        except Refused as refused:  # the overrides do not fit this row
            refusals.append(refused)
            return False

    new = [row for row in changed if any(differs(row, budget) for budget in budgets)]
    if len(refusals) == len(changed) * len(budgets):
        raise refusals[0]
    return replace(whole, rows=(*table.rows, *new))


def collect(table: Table, budget: str, outputs_dir: Path) -> Collected:
    """Return the records of a table at a budget; those of this machine come before published ones."""
    if table.kind == "timing":
        return _timings(table, budget, outputs_dir)
    kept = kept_below(outputs_dir)
    table, decisions = with_choices(table, budget, outputs_dir)
    overrides = {row.id: overrides_of(table, row, budget) for row in table.at(budget)}
    addresses = {row_id: address_of(words, kept) for row_id, words in overrides.items()}
    by_row = {row_id: samples(address, outputs_dir, kept) for row_id, address in addresses.items()}
    by_row |= {
        row.id: _chosen_by_seed(table, row, budget, outputs_dir, kept)
        for row in table.at(budget)
        if row.id in decisions and row.choose and row.choose.seeds == "each"
    }
    every_row = {row.id: by_row.get(row.id, ()) for row in table.rows}
    folders = {row_id: address.name for row_id, address in addresses.items()}
    return Collected(table, budget, every_row, Experiments(overrides), folders, decisions=decisions)


def _chosen_by_seed(table: Table, row: Row, budget: str, outputs_dir: Path, kept: Kept) -> tuple[Sample, ...]:
    """Return the record of each seed with the settings that this seed has chosen."""
    chosen = []
    for seed in row.chosen:
        address = address_of(overrides_of(table, row, budget, seed), kept)
        chosen += [sample for sample in samples(address, outputs_dir, kept) if sample.seed == seed]
    return tuple(chosen)


def _timings(table: Table, budget: str, outputs_dir: Path) -> Collected:
    """Return every timing of these rows; with several devices, each device has its own rows and claims."""
    kept = kept_below(outputs_dir)
    overrides = {row.id: overrides_of(table, row, budget) for row in table.rows}
    addresses = {row_id: address_of(words, kept) for row_id, words in overrides.items()}
    names = {row_id: address.name for row_id, address in addresses.items()}
    timings: dict[tuple[str, int], tuple[Path, dict[str, Any]]] = {}
    for directory in (path for root in roots(outputs_dir) for path in sorted(root.glob("timing-*"))):
        for folder, result in results(directory, kept):
            if result["status"] == "finished" and set(result.get("rows", ())) == set(names.values()):
                timings.setdefault((_setting(result), result["seed"]), (folder, result))
    code = joined(address.code for address in addresses.values())
    settings = sorted({setting for setting, _ in timings})
    by_row = {
        _on(row_id, setting, settings): tuple(
            Sample(folder, seed, {**result, **result["rows"][name], "row": name}, False, _other(result, code))
            for (timing_setting, seed), (folder, result) in sorted(timings.items())
            if timing_setting == setting
        )
        for row_id, name in names.items()
        for setting in settings or [""]
    }
    experiments = {
        _on(row_id, setting, settings): words for row_id, words in overrides.items() for setting in settings or [""]
    }
    return Collected(_by_setting(table, settings), budget, by_row, Experiments(experiments))


def _setting(result: dict[str, Any]) -> str:
    """Return device, threads and compilation, which two timings must share to be seeds of the same row."""
    environment = result["environment"]
    mode = environment["compile"]  # older records have true or false
    compiled = f", compiled{'' if mode in (True, 'default') else f' ({mode})'}" if mode else ""
    return f"{result['cost']['device']}, {counted(environment['threads'], 'thread')}{compiled}"


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
    against = {
        _on(table.rows[0].id, setting, settings): tuple(_on(row.id, setting, settings) for row in table.rows[1:])
        for setting in settings
    }
    return replace(table, rows=tuple(rows), claims=tuple(claims), against=against)


def samples(address: Address, outputs_dir: Path, kept: Kept) -> tuple[Sample, ...]:
    """Return a record for each seed of a row: the newest revision, and among equal ones the first root."""
    name = kept_name("curves", outputs_dir / "cells" / address.name)
    before = kept.read(name, None) or {}  # by the checksum of curves.csv
    outlines: dict[str, list[list[str]]] = {}
    by_seed: dict[int, Sample] = {}
    for sample in records(address, outputs_dir, kept):
        if sample.seed in by_seed:
            continue
        checksum = sample.result["files"].get("curves.csv")
        outline = tuple((split, metric) for split, metric in before.get(checksum, ()))
        if outlined := replace(sample, outline=outline) if outline else sample.outlined():
            by_seed[sample.seed] = outlined
            outlines[checksum] = [list(name) for name in outlined.outline]
    if outlines != before:
        kept.write(name, None, outlines)
    return tuple(by_seed[seed] for seed in sorted(by_seed))


def records(address: Address, outputs_dir: Path, kept: Kept) -> Iterator[Sample]:
    """Yield all records of a row, newest revision and first root first, without reading their curves."""
    for name, older in address.names:
        for root in roots(outputs_dir):
            for folder, result in results(root / name, kept):
                if result["status"] in DONE:
                    yield Sample(folder, result["seed"], result, older, _other(result, address.code))


def _other(result: dict[str, Any], code: str | None) -> bool:
    """Return whether the code has changed since the record; False if the record does not name its code."""
    return result.get("fingerprint") not in (None, code)
