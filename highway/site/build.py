"""Builds the site: an index, a page for each table and each run, and a page to compare runs, as static files."""

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from highway.report.collect import Collected, logs_of, underway, with_overrides
from highway.report.formats import TEXTS
from highway.report.overview import overview
from highway.site.budgets import BudgetReport, budget_reports, paper_section
from highway.site.notes import findings, log_entries
from highway.site.pages import Pages
from highway.site.runs import Shown, write_run
from highway.site.series import as_script, seed_name, table_curves
from highway.sweep.grid import find, folder_name, grid_names, left_out, swept_with_overrides
from highway.sweep.reading import load_table, table_ids
from highway.sweep.table import Table

PACKAGE = files("highway.site")


def build_site(outputs: Path, tables: Sequence[Table] | None = None, refresh: int = 0) -> Path:
    """Write the site to outputs/report/ and return its index.

    refresh: seconds after which an open page reloads itself; 0: never.
    """
    folder = outputs / "report"
    chosen = list(tables or ()) if tables else every_table(outputs)
    reports: dict[str, list[BudgetReport]] = {}
    for table in [*chosen]:
        with left_out(table.id):
            reports[table.id] = budget_reports(table, outputs, folder)
    chosen = [table for table in chosen if table.id in reports]
    runs: dict[Path, list[Shown]] = {}
    for budget_report in (budget_report for of_table in reports.values() for budget_report in of_table):
        collected = budget_report.collected
        for row in () if collected.table.timed else collected.table.rows:
            for sample in collected.samples[row.id]:
                runs.setdefault(sample.directory, []).append(Shown(collected, sample, row))
    links = {directory: f"cells/{rows[0].sample.name}.html" for directory, rows in runs.items()}
    _copy_assets(folder / "assets")
    pages = Pages(folder, refresh)
    for table in chosen:
        _write_table(pages, table, reports[table.id], outputs, links)
    for directory, rows in runs.items():
        write_run(pages, folder / links[directory], directory, rows)
    shown = [(table, reports[table.id]) for table in chosen]
    everything = [of_budget.collected for of_table in reports.values() for of_budget in of_table]
    pages.render(folder / "compare.html", "compare.html")
    pages.write(folder / "runs.js", as_script("runs", _rows_to_compare(everything, links)))
    pages.render(folder / "index.html", "index.html", **_index(shown))
    pages.close()
    return folder / "index.html"


def every_table(outputs: Path) -> list[Table]:
    """Return the tables, the tables as they were trained with further overrides here, and the grids that ran here."""
    tables = [load_table(name) for name in table_ids()]
    for name, overrides, budgets in swept_with_overrides(outputs):
        table = load_table(name)
        with left_out(f"{name} with {' '.join(overrides)}"):
            changed = with_overrides(table, budgets, overrides)
            shown = {budget: changed.budgets[budget] for budget in budgets}
            tables.append(replace(changed, id=folder_name(",".join((name, *overrides))), budgets=shown, claims=()))
    for name in grid_names(outputs):
        with left_out(name):
            tables.append(find(name, outputs))
    return tables


def _write_table(
    pages: Pages, table: Table, reports: list[BudgetReport], outputs: Path, links: dict[Path, str]
) -> None:
    """Write the page of a table, its curves and its downloads."""
    folder, logs = pages.folder / table.id, logs_of(table)
    for budget_report in reports:
        collected = budget_report.collected
        path = folder / budget_report.budget / "curves.js"
        pages.write(path, _curves_script(collected, underway(collected, outputs), links))
        for name, text in TEXTS.items():
            pages.write(path.with_name(name), text(budget_report.report))
    if logs.exists():
        pages.write(folder / "authors-logs.csv", logs.read_text(encoding="utf-8"))
    pages.render(
        folder / "index.html",
        "table.html",
        table=table,
        reports=reports,
        links=links,
        numbers=paper_section(table),
        texts=[*TEXTS],
        logs=logs.exists(),
        findings=findings(table.id),
        entries=log_entries(table.id) if table.paper else [],  # the name of a grid may be a word of the log
    )


def _rows_to_compare(everything: Sequence[Collected], links: dict[Path, str]) -> list[dict[str, Any]]:
    """Return each row that has runs with curves, for the page that compares them."""
    return [
        {
            "name": f"{collected.table.id} {collected.budget}: {row.label}",
            "runs": [[Path(links[sample.directory]).stem, seed_name(sample)] for sample in samples],
        }
        for collected in everything
        for row in collected.table.rows
        if (samples := [sample for sample in collected.samples[row.id] if sample.outline])
    ]


def _curves_script(collected: Collected, begun: dict[tuple[str, str], Path], links: dict[Path, str]) -> str:
    empty: dict[str, Any] = {"rows": [], "metrics": []}
    curves = empty if collected.table.timed else table_curves(collected, begun, links)
    return as_script(f"{collected.table.id}/{collected.budget}", curves)


def _index(shown: list[tuple[Table, list[BudgetReport]]]) -> dict[str, Any]:
    """Return what the index shows: the tables, the overview, and the number of runs and their hours by device."""
    papers = [table for table, of_table in shown if not any(report.extended for report in of_table)]
    reports = [budget_report for _, of_table in shown for budget_report in of_table]
    trained = [report.collected for report in reports if not report.collected.table.timed]
    runs = {sample.directory: sample for collected in trained for sample in collected.every}
    seconds: Counter[str] = Counter()
    for sample in runs.values():
        seconds[sample.result["cost"]["device"]] += sample.result["cost"].get("seconds", 0)
    of_papers = overview(papers, [budget_report.report for budget_report in reports if not budget_report.extended])
    return {
        "tables": shown,
        "overview": of_papers,
        "total": {"runs": len(runs), "seconds": seconds},
    }


def _copy_assets(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("site.css", "site.js", "chart.js", "curves.js", "compare.js"):
        shutil.copyfile(str(PACKAGE / "static" / name), folder / name)
    (folder / "plotly.min.js").unlink(missing_ok=True)  # of older versions
