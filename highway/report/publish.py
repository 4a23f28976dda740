"""Publish a table or a grid: copy its records, without checkpoints and with thinned curves, and write its reports.

The target has the layout of an outputs folder, so that reports read it wherever it is moved to:

    cells/<run>/seed<k>/{config.yaml, curves.csv, result.json, probes/}
    grids/<name>/               what names a grid, and the overrides with which a table was trained
    <table>/<budget>/times.csv  the measurements of a timed table
    report/<table>/<budget>/    the report
"""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.files import made_folder, write_text, writing
from highway.report.collect import Collected, collect
from highway.report.curves import thin_curves
from highway.report.times import measurements, read_lines, times_file, write_lines
from highway.report.write import write_report
from highway.tables.grid import files_of
from highway.tables.reading import command
from highway.tables.rows import tables_with_overrides
from highway.tables.table import Table


@dataclass(frozen=True)
class Publication:
    """The names of a table's runs at the target, and the files of its reports."""

    copied: list[str] = field(default_factory=list)  # runs, or measurements of a timed table
    published_before: list[str] = field(default_factory=list)  # published before, and ended as well or better
    differing: list[str] = field(default_factory=list)  # those of them whose published record has other metrics
    reports: list[Path] = field(default_factory=list)


def publish(table: Table, budget: str | None, outputs: Path, target: Path) -> Publication:
    """Copy the records of a table at a budget, or at all, to the target, and write the reports there."""
    budgets = [budget] if budget else list(table.budgets)
    publication = Publication()
    for name in budgets if table.timed else ():
        _publish_times(table, name, outputs, target, publication)
    collections = [] if table.timed else _collections(table, budgets, outputs)
    folders = {path.parts[-2:]: path for collected in collections for path in _folders(collected)}
    if not folders and not (publication.copied or publication.published_before):
        at = f" at {budget}" if budget else ""
        what = "measurement" if table.timed else "finished or diverged run"
        mend = f"Type {command(table, budgets[-1])} first."
        raise Refused(f"{table.id} has no {what}{at}, so there is nothing to publish. {mend}")
    for (run, seed), folder in sorted(folders.items()):
        _publish_run(RunDirectory(folder), RunDirectory(target / "cells" / run / seed), publication)
    for path in files_of(table.id, outputs):
        write_text(target / "grids" / path.parent.name / path.name, path.read_text(encoding="utf-8"))
    for name in budgets:
        published = collect(table, name, target)
        if published.every:
            _, paths = write_report(published, target / "report" / table.id / name)
            publication.reports.extend(paths)
    return publication


def _collections(table: Table, budgets: list[str], outputs: Path) -> list[Collected]:
    """Return the records of a table, and those of its rows as they were trained with further overrides."""
    collections = [collect(table, budget, outputs) for budget in budgets]
    for changed in tables_with_overrides([table.id], outputs):
        collections += [collect(changed, budget, outputs) for budget in budgets if budget in changed.budgets]
    return collections


def _folders(collected: Collected) -> list[Path]:
    """Return the directories of the runs and trials that are published."""
    return [*(sample.directory for sample in collected.every), *collected.trials]


def _publish_run(local: RunDirectory, published: RunDirectory, publication: Publication) -> None:
    """Copy a run, unless the target has it already and it ended as well there."""
    record, published_record = local.result(), published.result()
    if record is None:
        return
    if published_record and _rank(published_record["status"]) >= _rank(record["status"]):
        publication.published_before.append(local.id)
        if published_record["metrics"] != record["metrics"]:
            publication.differing.append(local.id)
        return
    if published.status == "running":
        raise Refused(f"{published.path} is being trained. Type this again when it has ended.")
    parent = made_folder(published.path.parent)
    with writing(published.path), tempfile.TemporaryDirectory(dir=parent, prefix=f".{published.path.name}.") as made:
        copy = Path(made) / "copy"
        copy.mkdir()
        for name in ("config.yaml", "result.json"):
            shutil.copyfile(local.path / name, copy / name)
        if local.curves.exists():  # a trial may have failed before its first step
            write_text(copy / "curves.csv", thin_curves(local.curves.read_text(encoding="utf-8")))
        if (local.path / "probes").exists():
            shutil.copytree(local.path / "probes", copy / "probes")
        replaced = Path(made) / "replaced"
        if published.path.exists():
            published.path.rename(replaced)
        if (replaced / "earlier").exists():  # finished records, which a second training has set aside
            (replaced / "earlier").rename(copy / "earlier")
        copy.rename(published.path)
    publication.copied.append(local.id)


def _publish_times(table: Table, budget: str, outputs: Path, target: Path, publication: Publication) -> None:
    """Add the measurements of a timed table to those at the target."""
    path = times_file(table.id, budget, target)
    before, found = read_lines(path), measurements(table, budget, outputs)
    names = {line["measured"] for line in before}
    new = [measurement for measurement in found if measurement.name not in names]
    if new:
        write_lines(path, [*before, *(line for measurement in new for line in measurement.lines)])
    publication.copied.extend(measurement.name for measurement in new)
    publication.published_before.extend(measurement.name for measurement in found if measurement.name in names)


def _rank(status: str) -> int:
    """Return a number by which a finished run replaces a diverged one, and a diverged one any other."""
    return {"finished": 2, "diverged": 1}.get(status, 0)
