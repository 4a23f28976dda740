"""Render tables with verdicts and figures from the records:  python scripts/report.py [TABLE...] [--budget mini]"""

import argparse
import os
from pathlib import Path

from rich.console import Console

from highway.cli import one_sentence
from highway.report.tell import tell
from highway.sweep.grid import find, grid_names
from highway.sweep.reading import table_ids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="or grid; all that have records by default")
    parser.add_argument("--budget", help="paper, mini or smoke; all that have records by default")
    parser.add_argument(
        "--with",
        nargs="+",
        default=(),
        dest="words",
        metavar="KEY=VALUE",
        help="rows of a table beside its own, as a sweep with these words has run them",
    )
    arguments = parser.parse_args()
    outputs = Path(os.environ.get("HIGHWAY_OUTPUTS", "outputs"))
    with one_sentence():
        for name in arguments.tables or [*table_ids(), *grid_names(outputs)]:
            table = find(name, outputs)
            budgets = [arguments.budget] if arguments.budget else list(table.budgets)
            known = [budget for budget in budgets if arguments.tables or budget in table.budgets]
            if not tell([(table, budget, tuple(arguments.words)) for budget in known], outputs, Console()):
                print(f"{table.id}: no records yet; make {table.id} BUDGET={list(table.budgets)[-1]} runs it.")


if __name__ == "__main__":
    main()
