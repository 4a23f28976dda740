"""Build the site: an index and a page a table, as static files that need neither a server nor a network."""

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.console import Console

from highway.cards.metrics import KINDS
from highway.cards.papers import paper_of
from highway.config.project import project
from highway.ledger.files import write_text
from highway.report.collect import Collected, authors_logs, collect, underway
from highway.report.content import Report, build_report
from highway.report.curves import Curves, Point, growing
from highway.report.forest import forest_of_claims, forest_of_tables
from highway.report.overview import of_papers, overview
from highway.report.render import html
from highway.report.sample import Sample
from highway.report.style import SPLITS, looks
from highway.report.write import write_report
from highway.tables.grid import folder_of
from highway.tables.reading import find, grid_names, left_out, load_table, table_ids
from highway.tables.rows import tables_with_overrides
from highway.tables.table import Table

STATIC = files("highway.report") / "static"
ON_A_PAGE = 240_000  # points; more only above half as many curves, which have two points each
MOST = 600  # points of a curve
DASHES = {"solid": "solid", "dashed": "dash", "dotted": "dot", "dashdot": "dashdot"}  # matplotlib's -> plotly's
AXES = ("step", "epoch", "seconds")


@dataclass(frozen=True)
class Page:
    """The page of a table: a report at each budget that has runs, in the table's order; without, one that says so."""

    table: Table
    reports: tuple[Report, ...]
    underway: dict[str, list[str]]  # by budget: the runs that have begun and not ended
    downloads: dict[str, list[str]]  # by budget: names of files
    judged: tuple[Report, ...]  # the reports with verdicts, for the plot; without, one that has not run

    def runs(self, report: Report) -> int:
        """Return the number of runs of a report; rows may share some."""
        return len({(sample.directory, sample.seed) for sample in report.collected.every})

    @property
    def name(self) -> str:
        """The folder of the page in report/."""
        return folder_of(self.table)

    @property
    def begun(self) -> bool:
        return any(report.collected.every or self.underway[report.collected.budget] for report in self.reports)


def build_site(
    outputs: Path, tables: Sequence[Table] | None = None, refresh: int = 0, draw: bool = False
) -> list[Page]:
    """Write the site to outputs/report/, and return its pages; outputs/report/index.html is the first to open.

    refresh: seconds after which an open page reloads itself; 0: never.
    draw: also draw the figures, which takes most of the time; without it, those drawn before are shown.
    """
    folder, pages = outputs / "report", []
    for table in every_table(outputs) if tables is None else tables:
        with left_out(folder_of(table)):
            pages.append(_page(table, outputs, folder, draw))
    (folder / "assets").mkdir(parents=True, exist_ok=True)
    for name in ("site.css", "curves.js"):
        shutil.copyfile(str(STATIC / name), folder / "assets" / name)
    if not (folder / "assets" / "plotly.min.js").exists():
        from plotly.offline import get_plotlyjs  # reads 5 MB

        write_text(folder / "assets" / "plotly.min.js", get_plotlyjs(), durable=False)
    for page in pages:
        _render(
            folder / page.name / "index.html",
            "table.html",
            "..",
            refresh,
            page=page,
            paper=paper_of(page.table.paper),
            effects=forest_of_claims(page.judged),
        )
    reports = [report for page in pages for report in page.reports]
    found = None if project() else overview([page.table for page in pages], reports)
    papers = [page for page in pages if of_papers(page.table)]
    own = [page for page in pages if not of_papers(page.table)]
    effects = forest_of_tables([page.judged for page in papers])
    if effects:
        write_text(folder / "effects.svg", effects, durable=False)
    content = {"overview": found, "effects": effects, "papers": papers, "own": own}
    _render(folder / "index.html", "index.html", ".", refresh, **content)
    return pages


def report_all(outputs: Path) -> None:
    """Write every report and the site; print the conclusion of each, and which numbers of the papers are reproduced."""
    console = Console()
    pages = build_site(outputs, draw=True)
    reports = [report for page in pages for report in page.reports if report.collected.every]
    reports.sort(key=lambda report: not of_papers(report.collected.table))  # one's own last, above the prompt
    for report in reports:
        name = f"{folder_of(report.collected.table)} {report.collected.budget}"
        console.print(f"{name}: {report.conclusion}\n", markup=False, highlight=False)
    if project() is None:
        found = overview([page.table for page in pages], reports)
        console.print(" ".join([*found.sentences, found.missing]), style="bold", markup=False, highlight=False)
    print(f"The report of a table: highway report TABLE. The site: {outputs / 'report' / 'index.html'}")


def every_table(outputs: Path) -> list[Table]:
    """Return the tables, the tables as they were trained with further overrides here, and the grids that ran here."""
    tables = [table for table in map(load_table, table_ids()) if _shown_here(table, outputs)]
    tables += tables_with_overrides(table_ids(), outputs)
    for name in grid_names(outputs):
        with left_out(name):
            tables.append(find(name, outputs))
    return tables


def _shown_here(table: Table, outputs: Path) -> bool:
    """Return False in a project of one's own for a table of a paper without runs there."""
    return (
        project() is None
        or not of_papers(table)
        or any((outputs / folder / table.id).is_dir() for folder in ("", "report"))
    )


def _page(table: Table, outputs: Path, folder: Path, draw: bool) -> Page:
    """Write the reports of a table and their curves."""
    reports, runs, downloads = [], {}, {}
    for budget in table.budgets:
        collected = collect(table, budget, outputs)
        begun = underway(collected, outputs)
        runs[budget] = [f"{table.row(row).label}, {name}" for row, name in begun]
        if not collected.every and not begun:
            continue
        of_budget = folder / folder_of(table) / budget
        report, paths = write_report(collected, of_budget, draw)
        reports.append(report)
        downloads[budget] = [path.name for path in paths if path.suffix != ".svg"]
        script = json.dumps({} if table.timed else curves_of_page(collected, begun))
        name = json.dumps(f"{folder_of(table)}/{budget}")
        write_text(of_budget / "curves.js", f"(window.highway ??= {{}})[{name}] = {script};\n", durable=False)
    judged = [report for report in reports if report.verdicts]
    if not reports or (table.paper and not judged):
        judged = [build_report(collect(table, table.usual_budget, outputs))]
    return Page(table, tuple(reports or judged), runs, downloads, tuple(judged))


def _render(path: Path, template: str, root: str, refresh: int, **content: Any) -> None:
    text = html().get_template(template).render(root=root, refresh=refresh, axes=AXES, **content)
    write_text(path, text, durable=False)


def curves_of_page(collected: Collected, begun: dict[tuple[str, str], Path]) -> dict[str, Any]:
    """Return what the chart of a page draws: by row, the curves of each seed, the authors' own, and the paper's values.

    begun: the curves.csv of runs underway, by row and label. The curves of one finished run are in memory at a time.
    """
    others = {(row_id, "authors' log"): curves for row_id, curves in authors_logs(collected.table).items()}
    others |= {key: curves for key, path in begun.items() if (curves := growing(path))}
    outlines = [*(sample.outline for sample in collected.every), *map(tuple, others.values())]
    count = sum(len({split for split, _ in outline}) for outline in outlines)
    points, row_looks = min(max(ON_A_PAGE // max(count, 1), 2), MOST), looks(collected)
    rows = []
    for row in collected.table.rows:
        runs = {
            _name(sample): by_split(sample.curves, points) for sample in collected.samples[row.id] if sample.outline
        }
        runs |= {name: by_split(curves, points) for (row_id, name), curves in others.items() if row_id == row.id}
        unlearned = bool(collected.finished(row.id)) and not collected.learned(row.id)
        about = {
            "label": row.label,
            "colour": row_looks[row.id].colour,
            "dash": DASHES[row_looks[row.id].dash],
            "paper": row.paper if collected.budget == "paper" else {},
            "hidden": unlearned or (row.extra and not row.added),
            "runs": [{"name": name, "splits": splits} for name, splits in runs.items()],
        }
        rows += [about] if runs else []
    return {"rows": rows, "metrics": _metrics(dict.fromkeys(key for outline in outlines for key in outline), collected)}


def _name(sample: Sample) -> str:
    return f"seed {sample.seed}" + ("" if sample.finished else f", {sample.result['status']}")


def _metrics(known: dict[tuple[str, str], None], collected: Collected) -> list[dict[str, str]]:
    """Return the metrics that a page offers; those of the table's first figure of curves come first."""
    first = next((figure for figure in collected.table.figures if figure.kind == "curves"), None)
    preferred = [(split, kind) for kind in first.metrics for split in reversed(first.splits)] if first else []
    keys = dict.fromkeys([*(key for key in preferred if key in known), *known])
    named = [(split, kind, KINDS[kind][0] if kind in KINDS else kind.replace("_", " ")) for split, kind in keys]
    return [
        {"split": split, "kind": kind, "title": f"{SPLITS.get(split, split)} {title}"} for split, kind, title in named
    ]


def by_split(curves: Curves, points: int) -> dict[str, dict[str, list[float | None]]]:
    """Return, by split, columns of AXES and of each metric; None where a metric was not measured."""
    columns: dict[str, dict[str, list[float | None]]] = {}
    for split in dict.fromkeys(split for split, _ in curves):
        metrics = {kind: curve for (of_split, kind), curve in curves.items() if of_split == split}
        by_step = {point.step: point for curve in metrics.values() for point in curve}
        shown = thinned([by_step[step] for step in sorted(by_step)], points)
        columns[split] = {name: [_short(getattr(point, name)) for point in shown] for name in AXES}
        for kind, curve in metrics.items():
            values = {point.step: point.value for point in curve}
            columns[split][kind] = [_short(values.get(point.step, math.nan)) for point in shown]
    return columns


def thinned(curve: list[Point], count: int) -> list[Point]:
    """Return at most `count` points, evenly spaced, with the first and the last."""
    if len(curve) <= count:
        return curve
    return [curve[round(number * (len(curve) - 1) / (count - 1))] for number in range(count)]


def _short(value: float) -> float | None:
    """Round to seven digits, which hold every step; None for what is not finite."""
    return float(f"{value:.7g}") if math.isfinite(value) else None
