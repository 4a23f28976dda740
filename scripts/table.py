"""Explain a table, show its progress, or render it:  python scripts/table.py status|explain|render TABLE [ROW]"""

import sys
from pathlib import Path

from rich.console import Console

from highway.cli import Arguments, one_sentence, outputs_folder
from highway.config.guard import options
from highway.errors import Refused
from highway.report.status import print_status
from highway.sweep.reading import load_table
from highway.sweep.table import Table


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("action", choices=["status", "explain", "render"])
    parser.add_argument("table", metavar="TABLE")
    parser.add_argument("row", metavar="ROW", nargs="?", help="with explain: a row; default: the whole table")
    parser.add_argument("--budget", default="paper", choices=options("budget"), help="paper (default), mini or smoke")
    parser.add_argument("--format", default="terminal", choices=["terminal", "markdown", "csv", "latex"])
    arguments = parser.parse_args()
    outputs = outputs_folder()
    console = Console()
    with one_sentence():
        table = load_table(arguments.table)
        if arguments.row and arguments.action != "explain":
            raise Refused(f"{arguments.action} takes a whole table: leave out '{arguments.row}'.")
        if arguments.action == "explain":
            explain(table, arguments.row, arguments.budget, console)
        elif arguments.action == "status":
            print_status(table, outputs, console)
        else:
            sys.stdout.write(rendered(table, arguments.budget, outputs, arguments.format, console))


def explain(table: Table, row: str | None, budget: str, console: Console) -> None:
    """Print how a row, or each row of a table, is configured."""
    from highway.preview.explain import explain_row, explain_table

    if row:
        explain_row(table, table.row(row), budget, console)
    else:
        explain_table(table, budget, console)


def rendered(table: Table, budget: str, outputs: Path, form: str, console: Console) -> str:
    """Return a table's report in a text format; "" for the terminal, where it is printed."""
    from highway.report import formats
    from highway.report.collect import collect
    from highway.report.report import build_report
    from highway.report.terminal import print_report

    report = build_report(collect(table, budget, outputs))
    if form == "terminal":
        print_report(report, console)
        return ""
    if form == "markdown":
        return formats.to_markdown(report)
    return formats.to_csv(report) if form == "csv" else formats.to_latex(report)


if __name__ == "__main__":
    main()
