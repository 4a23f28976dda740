"""Publish the records of a table, without checkpoints:  highway publish TABLE [--budget mini] [--to FOLDER]

Copies the finished and diverged runs, and every trial of a choice, to outputs/reference/ of the checkout or to
FOLDER, and writes the report there. The curves keep every validation and at most 500 rows of training a metric. A
published run is replaced only by one that ended better. FOLDER can be moved to any machine:
HIGHWAY_OUTPUTS=FOLDER highway report TABLE.
"""

from pathlib import Path

from highway.commands.arguments import Arguments, one_sentence
from highway.config import home
from highway.config.groups import options
from highway.errors import Refused, counted
from highway.report.publish import publish
from highway.sweep.grid import find


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("table", metavar="TABLE", help="table or grid")
    parser.add_argument(
        "--budget", choices=options("budget"), help="paper, mini or smoke; default: all that have records"
    )
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="default: outputs/reference/ of the checkout")
    arguments = parser.parse_args()
    outputs = home.outputs_folder()
    with one_sentence():
        if arguments.to is None and home.SHIPPED.is_dir():
            raise Refused("there is no checkout to publish in. Name a folder: --to FOLDER.")
        target = arguments.to or home.REFERENCE
        table = find(arguments.table, outputs)
        publication = publish(table, arguments.budget, outputs, target)
        what = "measurement" if table.timed else "run"
        copied, kept = (counted(len(names), what) for names in (publication.copied, publication.kept))
        print(f"{target}: {copied} published, {kept} published before")
        for run in publication.differing:
            print(f"{run} was published before with other metrics, and that record stays.")
        for path in publication.reports:
            print(path)
