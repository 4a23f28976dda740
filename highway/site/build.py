"""Builds the site: an index, a page for each table and a page for each run, as static files."""

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from highway.config import home
from highway.config.check import flat
from highway.config.extras import need
from highway.config.yaml_file import read_yaml
from highway.errors import Refused
from highway.files.kept import signature
from highway.files.writing import write_text
from highway.ledger.identity import identity
from highway.report.across import across
from highway.report.collect import Collected, Sample, collect, underway
from highway.report.kept import kept_below
from highway.report.report import Report, build_report
from highway.report.reproduction import counted
from highway.report.sections import (
    Grid,
    GridCell,
    GridRow,
    Head,
    Number,
    Paragraph,
    Section,
)
from highway.report.status import StatusLine, row_status
from highway.report.style import PLAIN
from highway.site.pages import Pages
from highway.site.series import as_script, run_curves, table_curves
from highway.sweep.grid import find, grid_names, left_out
from highway.sweep.reading import table_ids
from highway.sweep.table import Figure, Row, Table

PACKAGE = files("highway.site")
DISTURBED = " (beside other work)"


@dataclass(frozen=True)
class BudgetReport:
    """A table at one budget, as its page shows it."""

    collected: Collected
    figures: tuple[Figure, ...]  # those already drawn
    status: dict[str, list[StatusLine]]  # of the runs of a row, by row id

    @cached_property
    def report(self) -> Report:
        return build_report(self.collected, self.figures)

    @property
    def budget(self) -> str:
        return self.collected.budget

    @property
    def sections(self) -> tuple[Section, ...]:
        return *self.report.sections, cost_section(self.report)

    @property
    def finished(self) -> int:
        """The number of the paper's rows that have a finished seed."""
        return sum(bool(self.collected.finished(row.id)) for row in self.rows)

    @property
    def rows(self) -> list[Row]:
        return [row for row in self.collected.table.at(self.budget) if not row.extra]

    @property
    def seconds(self) -> float:
        costs = {sample.directory: sample.result["cost"].get("seconds", 0) for sample in self.collected.every}
        return sum(costs.values())

    @property
    def verdicts(self) -> Counter[str]:
        return Counter(verdict.word for verdict in self.report.verdicts)


@dataclass(frozen=True)
class Shown:
    """A run as a seed of one row; a run can be a seed of several rows."""

    collected: Collected
    sample: Sample
    row: Row

    @property
    def baseline(self) -> Row:
        return self.collected.table.rows[0]

    @property
    def overrides(self) -> Sequence[str]:
        return self.collected.experiments.overrides[self.row.id]

    @property
    def baseline_overrides(self) -> Sequence[str]:
        return self.collected.experiments.overrides.get(self.baseline.id, ())


def build_site(outputs: Path, tables: Sequence[Table] | None = None, refresh: int = 0) -> Path:
    """Write the site to outputs/report/ and return its index. Pages that would not change are left as they are.

    refresh: seconds after which an open page reloads itself; 0: never.
    """
    folder = outputs / "report"
    reports: dict[str, list[BudgetReport]] = {}
    chosen = list(tables or ())
    for table in chosen:
        reports[table.id] = budget_reports(table, outputs, folder)
    for name in () if tables else (*table_ids(), *grid_names(outputs)):
        with left_out(name):
            table = find(name, outputs)
            reports[name] = budget_reports(table, outputs, folder)
            chosen.append(table)
    runs: dict[Path, list[Shown]] = {}
    for budget_report in (budget_report for of_table in reports.values() for budget_report in of_table):
        collected = budget_report.collected
        for row in collected.table.rows:
            for sample in collected.samples[row.id]:
                runs.setdefault(sample.directory, []).append(Shown(collected, sample, row))
    links = {directory: f"cells/{directory.parent.name}-{directory.name}.html" for directory in runs}
    _copy_assets(folder / "assets")
    pages = Pages(folder, kept_below(outputs), refresh)
    keys = [_write_table(pages, table, reports[table.id], outputs, links) for table in chosen]
    for directory, rows in runs.items():
        _write_run(pages, folder / links[directory], directory, rows)
    everything = [of_budget.collected for of_table in reports.values() for of_budget in of_table]
    over_all = folder / "across.html"
    pages.write(over_all, keys, lambda: pages.rendered(over_all, "across.html", sections=across(everything)))
    index = folder / "index.html"
    shown = [(table, reports[table.id]) for table in chosen]
    pages.write(index, keys, lambda: pages.rendered(index, "index.html", tables=shown, total=_total(shown)))
    pages.close()
    return index


def budget_reports(table: Table, outputs: Path, folder: Path) -> list[BudgetReport]:
    """Return the report at each budget that has records or runs underway."""
    reports = []
    for budget in table.budgets:
        collected = collect(table, budget, outputs)
        status = {row.id: row_status(table, row, budget, outputs) for row in table.rows}
        if collected.every or any(status.values()):
            drawn = (figure for figure in table.figures if (folder / table.id / budget / f"{figure.id}.svg").exists())
            reports.append(BudgetReport(collected, tuple(drawn), status))
    return reports


def cost_section(report: Report) -> Section:
    """Return the cost of each run, which the page of a table shows below the report."""
    numbers = ("seed", "hours", "tokens/s", "MiB", "parameters")
    heads = (Head("model"), *(Head(title, numeric=True) for title in numbers), Head("device"))
    rows = tuple(
        GridRow((row.row.label, *_costs(sample)), row.row) for row in report.rows for sample in row.seeds.samples
    )
    note = Paragraph.of("The cost of each run. Compare speeds only between runs that had the machine to themselves.")
    return Section("cost", "Cost", (replace(note, style="note"), Grid(heads, rows)))


def _costs(sample: Sample) -> tuple[GridCell, ...]:
    cost, parameters = sample.result["cost"], sample.result.get("parameters") or {}
    disturbed = "" if cost.get("exclusive", True) else DISTURBED

    def number(value: float | None, form: str, unit: float = 1, mark: str = "") -> Number | None:
        return None if value is None else Number(value / unit, form, mark=mark)

    return (
        Number(sample.seed, "d"),
        number(cost.get("seconds"), ".2f", 3600),
        number(cost.get("tokens_per_second"), ",.0f", mark=disturbed),
        number(cost.get("peak_memory_bytes"), ",.0f", 1 << 20),
        number(parameters.get("total"), ",.0f"),
        cost["device"],
    )


def _write_table(
    pages: Pages, table: Table, reports: list[BudgetReport], outputs: Path, links: dict[Path, str]
) -> object:
    """Write the page of a table and its curves; return what tells the page from any other."""
    key: list[object] = [table, _reference()]
    for budget_report in reports:
        collected = budget_report.collected
        begun = underway(collected, outputs)
        records = collected.trace(collected.samples)
        curves = [table, collected.budget, records, {label: signature(path) for label, path in begun.items()}]
        path = pages.folder / table.id / budget_report.budget / "curves.js"
        pages.write(path, [curves, _reference()], partial(_curves_script, collected, begun, links))
        key.append([budget_report.budget, records, budget_report.figures, budget_report.status])
    page = pages.folder / table.id / "index.html"
    pages.write(page, key, lambda: pages.rendered(page, "table.html", table=table, reports=reports, links=links))
    return key


def _reference() -> list[object]:
    """Return the signatures of the published files, beside the records, that reports read."""
    paths = (path for pattern in ("*.yaml", "series/*") for path in home.REFERENCE.glob(pattern))
    return [(str(path), signature(path)) for path in sorted(paths)]


def _curves_script(collected: Collected, begun: dict[tuple[str, str], Path], links: dict[Path, str]) -> str:
    empty: dict[str, Any] = {"rows": [], "metrics": []}
    curves = table_curves(collected, begun, links) if collected.table.kind == "training" else empty
    return as_script(f"{collected.table.id}/{collected.budget}", curves)


def _write_run(pages: Pages, path: Path, directory: Path, rows: list[Shown]) -> None:
    sample = rows[0].sample
    shown = [
        (each.collected.table.id, each.collected.table.kind, each.collected.budget, each.row.id, each.row.label,
         each.overrides, each.baseline.label, each.baseline_overrides)
        for each in rows
    ]  # fmt: skip
    key = [str(directory), sample.result["sha256"], sample.marks, shown]
    pages.write(path, key, lambda: pages.rendered(path, "run.html", **_run(path, directory, rows)))
    if sample.result.get("row") is None:
        pages.write(path.with_suffix(".js"), key, lambda: as_script(path.stem, run_curves(sample.curves, PLAIN)))


def _run(path: Path, directory: Path, rows: list[Shown]) -> dict[str, Any]:
    """Return what the page of a run shows."""
    shown = rows[0]
    collected, sample, baseline = shown.collected, shown.sample, shown.baseline
    experiment = collected.experiments[shown.row.id]
    baseline_experiment = collected.experiments.get(baseline.id, experiment)  # a budget may lack the baseline
    keys, baseline_keys = (flat(identity(each)["keys"]) for each in (experiment, baseline_experiment))
    differing = {
        key: (keys.get(key, "the default"), baseline_keys.get(key, "the default"))
        for key in sorted(keys | baseline_keys)
        if keys.get(key) != baseline_keys.get(key)
    }
    config = directory / "config.yaml"
    result = sample.result
    return {
        "sample": sample,
        "result": result,
        "name": path.stem,
        "rows": rows,
        "machine": {**flat(result["environment"]), "device": result["cost"]["device"]},
        "timing": collected.table.kind == "timing",
        "label": shown.row.label,
        "baseline": baseline.label,
        "differing": differing,
        "settings": flat(_settings(config)) if config.exists() else {},
        "published": directory.is_relative_to(home.REFERENCE),
    }


def _settings(path: Path) -> dict[str, Any]:
    try:
        content = read_yaml(path)
    except (OSError, Refused):
        return {"config.yaml": "cannot be read"}
    return content if isinstance(content, dict) else {}


def _total(tables: list[tuple[Table, list[BudgetReport]]]) -> dict[str, Any]:
    """Return the number of runs, their hours by device, and how many of the paper's numbers are reproduced."""
    reports = [budget_report for _, of_table in tables for budget_report in of_table]
    whole = [budget_report.report for budget_report in reports if budget_report.report.comparison == "paper"]
    answers = [answer for report in whole for answer in report.answers.values()]
    runs = {sample.directory: sample for budget_report in reports for sample in budget_report.collected.every}
    seconds: Counter[str] = Counter()
    for sample in runs.values():
        seconds[sample.result["cost"]["device"]] += sample.result["cost"].get("seconds", 0)
    return {
        "numbers": sum(len(counted(report.collected.table)) for report in whole),
        "answered": len(answers),
        "words": Counter(answer.word for answer in answers),
        "runs": len(runs),
        "seconds": seconds,
    }


def _copy_assets(folder: Path) -> None:
    need("plotly", "site", "the web site")
    from plotly.offline import get_plotlyjs  # the package contains plotly's script

    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "plotly.min.js"
    if not script.exists():
        write_text(script, get_plotlyjs())
    for name in ("site.css", "site.js"):
        shutil.copyfile(str(PACKAGE / "static" / name), folder / name)
