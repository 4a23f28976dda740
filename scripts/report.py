"""Render tables with verdicts and figures from the records:  python scripts/report.py [TABLE...] [--budget mini]"""

import argparse
import os
from pathlib import Path

from rich.console import Console

from highway.cli import one_sentence
from highway.report.collect import collect
from highway.report.terminal import print_report
from highway.report.write import write_report
from highway.sweep.reading import load_table, table_ids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="all tables that have records by default")
    parser.add_argument("--budget", help="paper, mini or smoke; all that have records by default")
    arguments = parser.parse_args()
    outputs = Path(os.environ.get("HIGHWAY_OUTPUTS", "outputs"))
    budgets = [arguments.budget] if arguments.budget else []
    console = Console()
    with one_sentence():
        for table in map(load_table, arguments.tables or table_ids()):
            known = [budget for budget in budgets or table.budgets if arguments.tables or budget in table.budgets]
            found = [collect(table, budget, outputs) for budget in known]
            found = [collected for collected in found if budgets or collected.every]
            for collected in found:
                report, paths = write_report(collected, outputs / "report" / table.id / collected.budget)
                print_report(report, console)
                for path in paths:
                    print(path)
            if not found:
                print(f"{table.id}: no records yet; make {table.id} BUDGET={list(table.budgets)[-1]} runs it.")


if __name__ == "__main__":
    main()
