"""Render tables with verdicts and figures from the records:  python scripts/report.py [TABLE...] [--budget mini]

Without a table: every one that has records, and the site, outputs/report/index.html. With --watch the site is served
on localhost, and made again while a sweep runs.
"""

from rich.console import Console

from highway.cli import Arguments, one_sentence, outputs_folder, whole
from highway.config.guard import check_words, options
from highway.errors import Refused
from highway.report.tell import tell
from highway.site.build import build_site
from highway.site.watch import watch
from highway.sweep.grid import find, grid_names
from highway.sweep.reading import table_ids


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="or grid; all that have records by default")
    parser.add_argument(
        "--budget", choices=options("budget"), help="paper, mini or smoke; all that have records by default"
    )
    parser.add_argument(
        "--with",
        nargs="+",
        default=(),
        dest="words",
        metavar="KEY=VALUE",
        help="rows of a table beside its own, as a sweep with these words has run them",
    )
    parser.add_argument("--watch", action="store_true", help="serve the site, and keep it up to date")
    parser.add_argument(
        "--every", type=whole(1, 86400), default=20, metavar="SECONDS", help="between two looks of --watch"
    )
    parser.add_argument("--port", type=whole(0, 65535), default=8000, help="of --watch; 0: any that is free")
    arguments = parser.parse_args()
    outputs = outputs_folder()
    with one_sentence():
        check_words(arguments.words)
        if arguments.watch:
            if arguments.tables or arguments.budget or arguments.words:
                raise Refused("--watch serves every table: name none, and no budget.")
            watch(lambda: build_site(outputs, refresh=arguments.every), arguments.port, arguments.every)
            return
        for name in arguments.tables or [*table_ids(), *grid_names(outputs)]:
            table = find(name, outputs)
            budgets = [arguments.budget] if arguments.budget else list(table.budgets)
            known = [budget for budget in budgets if arguments.tables or budget in table.budgets]
            if not tell([(table, budget, tuple(arguments.words)) for budget in known], outputs, Console()):
                print(f"{table.id}: no records yet; make {table.id} BUDGET={list(table.budgets)[-1]} runs it.")
        if not arguments.tables:
            print(f"The site: {build_site(outputs)}")


if __name__ == "__main__":
    main()
