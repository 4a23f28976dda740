"""Write the report of a table with its figures, from the records:  highway report [TABLE...] [--budget mini]

Without TABLE, write those of every table that has records and the web site outputs/report/index.html, and print what
each has found. With --watch, serve the site on localhost and rebuild it while a sweep runs.
"""

from pathlib import Path

from rich.console import Console

from highway.commands.arguments import WITH, Arguments, one_sentence, whole
from highway.config.groups import check_words, options
from highway.config.home import outputs_folder
from highway.errors import Refused, counted
from highway.files.writing import written_atomically
from highway.report.details import no_formula
from highway.report.overview import overview
from highway.report.render import show_reports
from highway.report.site import build_site
from highway.report.watch import watch
from highway.sweep.grid import command, find, grid_names
from highway.sweep.reading import table_ids


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="table or grid; default: all that have records")
    parser.add_argument(
        "--budget", choices=options("budget"), help="paper, mini or smoke; default: all that have records"
    )
    parser.add_argument("--with", **WITH)
    parser.add_argument(
        "--data", metavar="FILE", help="write the numbers of all runs to FILE.parquet or FILE.csv, and no report"
    )
    site = parser.add_argument_group("web site")
    site.add_argument("--watch", action="store_true", help="serve the site and keep it up to date")
    site.add_argument(
        "--every",
        type=whole(1, 86400),
        default=20,
        metavar="SECONDS",
        help="time between two updates with --watch; default: 20",
    )
    site.add_argument(
        "--port", type=whole(0, 65535), default=8000, help="port for --watch; 0: any free port; default: 8000"
    )
    arguments = parser.parse_args()
    outputs = outputs_folder()
    with one_sentence():
        check_words(arguments.added)
        if arguments.watch:
            if arguments.tables or arguments.budget or arguments.added or arguments.data:
                raise Refused("--watch serves every table: leave out tables, --budget, --with and --data.")
            watch(
                lambda: build_site(outputs, refresh=arguments.every),
                outputs / "report",
                arguments.port,
                arguments.every,
            )
            return
        if arguments.data:
            if len(arguments.tables) > 1 or arguments.added:
                raise Refused("--data writes the runs of one table, or of all: leave out --with.")
            write_runs(arguments.data, next(iter(arguments.tables), None), arguments.budget)
            return
        console = Console()
        if not (arguments.tables or arguments.budget or arguments.added):
            report_all(outputs, console)
            return
        for name in arguments.tables or [*table_ids(), *grid_names(outputs)]:
            table = find(name, outputs)
            budgets = [arguments.budget] if arguments.budget else list(table.budgets)
            known = [budget for budget in budgets if arguments.tables or budget in table.budgets]
            requests = [(table, budget, tuple(arguments.added)) for budget in known]
            if not show_reports(requests, outputs, console):
                print(f"{table.id}: no records yet. Type {command(table, list(table.budgets)[-1])} first.")


def report_all(outputs: Path, console: Console) -> None:
    """Write every report and the site; print the conclusion of each, and which numbers of the papers are reproduced."""
    pages = build_site(outputs, draw=True)
    reports = [report for page in pages for report in page.reports if report.collected.every]
    for report in reports:
        name = f"{report.collected.table.id} {report.collected.budget}"
        console.print(f"{name}: {report.conclusion}\n", markup=False, highlight=False)
    found = overview([page.table for page in pages], reports)
    console.print(" ".join([*found.sentences, found.missing]), style="bold", markup=False, highlight=False)
    print(f"The report of a table: highway report TABLE. The site: {outputs / 'report' / 'index.html'}")


def write_runs(file: str, table: str | None, budget: str | None) -> None:
    """Write what `highway.runs` returns to a Parquet or CSV file."""
    if not file.endswith((".parquet", ".csv")):
        raise Refused(f"--data {file}: the name of the file ends in .parquet or .csv.")
    from highway.api.frames import runs  # importing pandas takes a second

    frame = runs(table, budget, outputs_folder())
    with written_atomically(Path(file)) as binary:
        frame.to_parquet(binary) if file.endswith(".parquet") else frame.map(no_formula).to_csv(binary, index=False)
    print(f"{file}: {counted(len(frame), 'line')}")
