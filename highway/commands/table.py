"""Explain a table, show its progress, or time it:  highway table status|explain|time TABLE [ROW]

TABLE may be a grid that was run here. --with gate.reads=normalised also shows each row with this override; with
`explain TABLE ROW`, that row alone. `time` measures the rows of a table that has `rounds` and adds the measurement to
outputs/TABLE/BUDGET/times.csv. The first row is always timed: the others are relative to it. Overrides may follow, as
trainer.compile=reduce-overhead, trainer.threads=1 or trainer.accelerator=cpu.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from highway.commands.arguments import WITH, Arguments, one_sentence, whole
from highway.config.groups import check_words, options
from highway.config.home import outputs_folder
from highway.errors import Refused
from highway.report.collect import with_overrides
from highway.report.status import print_status
from highway.sweep.grid import command, find
from highway.sweep.table import Table


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("action", choices=["status", "explain", "time"], help="what to do with the table")
    parser.add_argument("table", metavar="TABLE", help="a table, or a grid that was run here")
    parser.add_argument(
        "words",
        metavar="ROW",
        nargs="*",
        help="rows; default: the whole table. With time also overrides",
    )
    parser.add_argument(
        "--budget", choices=options("budget"), help="paper (default), mini or smoke; of a grid, its first by default"
    )
    parser.add_argument("--rounds", type=whole(2, 10_000), help="with time; default: those of the table")
    parser.add_argument("--with", **WITH)
    arguments = parser.parse_intermixed_args()
    outputs = outputs_folder()
    console = Console()
    with one_sentence():
        check_words(arguments.added)
        table = find(arguments.table, outputs)
        if arguments.added and arguments.action == "time":
            raise Refused("time takes overrides without --with, as in trainer.threads=1.")
        budget = arguments.budget or table.usual_budget
        if arguments.action == "explain":
            for row in arguments.words or [None]:
                explain(table, row, budget, arguments.added, console)
        elif arguments.action == "time":
            time(table, arguments.words, budget, arguments.rounds, outputs)
        else:
            shown = table.model_copy(update={"rows": [*map(table.row, arguments.words)] or table.rows})
            print_status(with_overrides(shown, [*table.budgets], arguments.added), outputs, console)


def explain(table: Table, row: str | None, budget: str, added: Sequence[str], console: Console) -> None:
    """Print how a row, or each row of a table, is configured."""
    from highway.sweep.explain import explain_row, explain_table

    if row:
        chosen = table.row(row).with_added(added) if added else table.row(row)
        explain_row(table.model_copy(update={"rows": [*table.rows, chosen]}), chosen, budget, console)
    else:
        explain_table(with_overrides(table, [budget], added), budget, console)


def time(table: Table, words: Sequence[str], budget: str, rounds: int | None, outputs: Path) -> None:
    """Time the rows among `words` (none: all) with the overrides among them."""
    if not table.timed:
        raise Refused(f"{table.id} is trained, not timed: its file has no `rounds`. Type {command(table, budget)}.")
    known = [row.id for row in table.rows]
    rows = [word for word in words if word in known or "=" not in word]
    overrides = [word for word in words if word not in rows]
    from highway.timing import time_table  # imports torch

    try:
        path = time_table(table, rows, budget, rounds or table.rounds, overrides, outputs)
    except KeyboardInterrupt:
        raise Refused("the measurement was stopped, so nothing was written. The same command starts it anew.") from None
    print(f"{path}\nIts report: highway report {table.id} --budget {budget}")
