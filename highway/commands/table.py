"""Explain a table, show its progress, or render it:  highway table status|explain|render TABLE [ROW]

TABLE may be a grid that was run here. --with gate.reads=normalised also shows each row with this override; with
`explain TABLE ROW`, that row alone.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from highway.commands.arguments import WITH, Arguments, one_sentence
from highway.config.groups import check_words, options
from highway.config.home import outputs_folder
from highway.errors import Refused
from highway.report.collect import with_overrides
from highway.report.status import print_status
from highway.sweep.grid import find
from highway.sweep.table import Table


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("action", choices=["status", "explain", "render"], help="what to do with the table")
    parser.add_argument("table", metavar="TABLE", help="a table, or a grid that was run here")
    parser.add_argument("row", metavar="ROW", nargs="?", help="with explain or status: a row; default: the whole table")
    parser.add_argument(
        "--budget", choices=options("budget"), help="paper (default), mini or smoke; of a grid, its first by default"
    )
    parser.add_argument(
        "--format",
        default="terminal",
        choices=["terminal", "markdown", "csv", "latex"],
        help="with render; default: terminal",
    )
    parser.add_argument("--with", **WITH)
    arguments = parser.parse_args()
    outputs = outputs_folder()
    console = Console()
    with one_sentence():
        check_words(arguments.added)
        table = find(arguments.table, outputs)
        if arguments.row and arguments.action == "render":
            raise Refused(f"render takes a whole table: leave out '{arguments.row}'.")
        budget = arguments.budget or table.usual_budget
        if arguments.action == "explain":
            explain(table, arguments.row, budget, arguments.added, console)
        elif arguments.action == "status":
            rows = (table.row(arguments.row),) if arguments.row else table.rows
            print_status(with_overrides(replace(table, rows=rows), [*table.budgets], arguments.added), outputs, console)
        else:
            table = with_overrides(table, [budget], arguments.added)
            sys.stdout.write(rendered(table, budget, outputs, arguments.format, console))


def explain(table: Table, row: str | None, budget: str, added: Sequence[str], console: Console) -> None:
    """Print how a row, or each row of a table, is configured."""
    from highway.preview.explain import explain_row, explain_table

    if row:
        chosen = table.row(row).with_added(added) if added else table.row(row)
        explain_row(replace(table, rows=(*table.rows, chosen)), chosen, budget, console)
    else:
        explain_table(with_overrides(table, [budget], added), budget, console)


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
