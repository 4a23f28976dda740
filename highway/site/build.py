"""The site: an index, a page per table, a page per cell. Static files that need neither a server nor a network."""

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from highway.config.check import flat
from highway.ledger.files import write_text
from highway.ledger.identity import identity
from highway.report.collect import REFERENCE, Collected, Sample, collect
from highway.report.render import (
    AGAINST,
    AGAINST_WORDS,
    BOOTSTRAP,
    COMPARED,
    REACHED,
    SPREAD,
    Entry,
    Report,
    build_report,
    compared_cells,
    difference_cells,
    environments,
    has_paper,
    spreads,
)
from highway.report.statistics import tone
from highway.report.status import standing
from highway.report.style import PLAIN
from highway.site.series import of_cell, of_table, script
from highway.sweep.grid import find, grid_names
from highway.sweep.reading import table_ids
from highway.sweep.table import Table

PACKAGE = files("highway.site")


@dataclass(frozen=True)
class Section:
    """A table at one budget, as its page shows it."""

    report: Report
    figures: Sequence[str]  # which are drawn in the folder of the budget
    states: dict[str, list[str]]  # by row, where its cells stand

    @property
    def collected(self) -> Collected:
        return self.report.collected

    @property
    def name(self) -> str:
        return self.collected.budget

    @property
    def finished(self) -> int:
        """Rows of the paper that have a finished seed."""
        return sum(bool(self.collected.finished(row.id)) for row in self.rows)

    @property
    def rows(self) -> list[Any]:
        return [row for row in self.collected.table.at(self.name) if not row.arm]

    @property
    def seconds(self) -> float:
        return sum(
            {sample.directory: sample.result["cost"].get("seconds", 0) for sample in self.collected.every}.values()
        )

    @property
    def verdicts(self) -> Counter[str]:
        return Counter(verdict.word for verdict in self.report.verdicts)


def build_site(outputs: Path, tables: Sequence[Table] | None = None, refresh: int = 0) -> Path:
    """Writes outputs/report/; the index. `refresh`: seconds after which an open page reads itself again."""
    folder = outputs / "report"
    chosen = tables or [find(name, outputs) for name in (*table_ids(), *grid_names(outputs))]
    found = {table.id: sections(table, outputs, folder) for table in chosen}
    where: dict[Path, list[tuple[Collected, Sample, str]]] = {}  # a cell -> the rows that it is of
    for told in found.values():
        for section in told:
            for row in section.collected.table.rows:
                for sample in section.collected.samples[row.id]:
                    where.setdefault(sample.directory, []).append((section.collected, sample, row.id))
    links = {directory: f"cells/{directory.parent.name}-{directory.name}.html" for directory in where}
    _copy_assets(folder / "assets")
    for table in chosen:
        _write_table(table, found[table.id], outputs, links, refresh)
    for directory, rows in where.items():
        _write_cell(folder / links[directory], directory, rows, refresh)
    index = folder / "index.html"
    _write(
        index, "index.html", folder, refresh, told=[(table, found[table.id]) for table in chosen], total=_total(found)
    )
    return index


def sections(table: Table, outputs: Path, folder: Path) -> list[Section]:
    told = []
    for budget in table.budgets:
        collected = collect(table, budget, outputs)
        report = build_report(collected)
        drawn = [figure.id for figure in table.figures if (folder / table.id / budget / f"{figure.id}.svg").exists()]
        rows = {row.id: standing(table, row, budget, outputs) for row in table.rows}
        if collected.every or any(rows.values()):
            told.append(Section(report, drawn, rows))
    return told


def _write_table(table: Table, told: list[Section], outputs: Path, links: dict[Path, str], refresh: int) -> None:
    folder = outputs / "report"
    for section in told:
        is_training = table.kind == "training"
        data = of_table(section.collected, outputs, links) if is_training else {"rows": [], "metrics": []}
        name = f"{table.id}/{section.name}"
        write_text(folder / table.id / section.name / "curves.js", script(name, data))
    _write(folder / table.id / "index.html", "table.html", folder, refresh, table=table, sections=told, links=links)


def _write_cell(path: Path, directory: Path, rows: list[tuple[Collected, Sample, str]], refresh: int) -> None:
    collected, sample, row_id = rows[0]
    baseline = collected.table.rows[0]
    described = collected.experiments[row_id]
    first = collected.experiments.get(baseline.id, described)  # which a budget may lack
    own, base = (flat(identity(one)["keys"]) for one in (described, first))
    differing = {
        key: (own.get(key, "the default"), base.get(key, "the default"))
        for key in sorted(own | base)
        if own.get(key) != base.get(key)
    }
    config = directory / "config.yaml"
    result = sample.result
    machine = {**flat(result["environment"]), "device": result["cost"]["device"]}
    name = path.stem
    if result.get("row") is None:
        write_text(path.with_suffix(".js"), script(name, of_cell(sample.curves, PLAIN)))
    _write(
        path, "cell.html", path.parents[1], refresh,
        sample=sample, result=result, name=name, machine=machine,
        rows=[(one.table, one.budget, one.table.row(row), shown.result["metrics"]) for one, shown, row in rows],
        timing=collected.table.kind == "timing",
        label=collected.table.row(row_id).label, baseline=baseline.label, differing=differing,
        settings=flat(_settings(config)) if config.exists() else {},
        published=directory.is_relative_to(REFERENCE),
    )  # fmt: skip


def _settings(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return {"config.yaml": "cannot be read"}
    return content if isinstance(content, dict) else {}


def _total(found: dict[str, list[Section]]) -> dict[str, Any]:
    """Over all tables: how many of the paper's numbers come back, and what it has cost."""
    entries = [entry for told in found.values() for section in told for entry in section.report.asked]
    cells = {
        sample.directory: sample for told in found.values() for section in told for sample in section.collected.every
    }
    hours: Counter[str] = Counter()
    for sample in cells.values():
        hours[sample.result["cost"]["device"]] += sample.result["cost"].get("seconds", 0)
    return {
        "numbers": len(entries),
        "told": sum(entry.answer is not None for entry in entries),
        "back": sum(bool(entry.answer and entry.answer.comes_back) for entry in entries),
        "cells": len(cells),
        "hours": hours,
    }


def _copy_assets(folder: Path) -> None:
    from plotly.offline import get_plotlyjs  # its script comes with the package

    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "plotly.min.js"
    if not script.exists():
        write_text(script, get_plotlyjs())
    for name in ("site.css", "site.js"):
        shutil.copyfile(str(PACKAGE / "static" / name), folder / name)


def _write(path: Path, template: str, folder: Path, refresh: int, **content: Any) -> None:
    root = Path(os.path.relpath(folder, path.parent)).as_posix()
    write_text(path, environment().get_template(template).render(root=root, refresh=refresh, **content))


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("highway.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"tone": tone, "mark": mark, "compared_row": compared_cells}
    made.globals |= {
        "against": AGAINST, "against_words": AGAINST_WORDS, "bootstrap": BOOTSTRAP, "compared": COMPARED,
        "reached": REACHED, "spread": SPREAD, "spreads": spreads, "has_paper": has_paper, "environments": environments,
        "difference_cells": difference_cells, "value": _value,
    }  # fmt: skip
    return made


def mark(word: str) -> str:
    """The same as a sign, for who sees no colours."""
    return {"for": "✓", "against": "✗", "open": "·"}[tone(word)]


def _value(entry: Entry) -> str:
    """What a column is sorted by."""
    return "" if entry.ours is None else f"{entry.ours.mean:.10g}"
