"""Move records:  highway records export FILE [TABLE...] | import FILE | card RUN

export FILE [TABLE...] [--budget mini]     write the records of these tables and grids (default: all), no checkpoints
export FILE TABLE --rows tanh --with K=V   write these rows alone, and as trained with these overrides
import FILE [--into outputs/reference]     merge a file into the records here; a run that ended here keeps its record
card RUN [--into FOLDER]                   write a model card, weights and configuration in the Hugging Face layout
"""

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from highway.commands.arguments import WITH, Arguments, one_sentence
from highway.config.groups import check_words, options
from highway.config.home import outputs_folder
from highway.errors import Refused, counted
from highway.exchange.card import write_card
from highway.exchange.records import export_records, import_records
from highway.ledger.directory import RunDirectory
from highway.report.collect import with_overrides
from highway.sweep.grid import find, grid_names, left_out
from highway.sweep.reading import table_ids


def main() -> None:
    parser = Arguments(__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    export = actions.add_parser("export", help="write the records of tables to a file")
    export.add_argument("file", type=Path, metavar="FILE", help="its name ends in .tar.gz")
    export.add_argument("tables", nargs="*", metavar="TABLE", help="table or grid; default: every one")
    export.add_argument("--budget", choices=options("budget"), help="paper, mini or smoke; default: all")
    export.add_argument("--rows", nargs="+", metavar="ROW", help="of each TABLE; default: all rows")
    export.add_argument("--with", **WITH)
    merge = actions.add_parser("import", help="merge an exported file into the records here")
    merge.add_argument("file", type=Path, metavar="FILE", help="its name ends in .tar.gz")
    merge.add_argument("--into", type=Path, metavar="FOLDER", help="default: $HIGHWAY_OUTPUTS, or outputs/")
    card = actions.add_parser("card", help="write a model card with weights and configuration; nothing is uploaded")
    card.add_argument("run", type=Path, metavar="RUN", help="directory of a finished run")
    card.add_argument("--into", type=Path, metavar="FOLDER", help="default: card/ in the directory of the run")
    arguments = parser.parse_args()
    outputs = outputs_folder()
    with one_sentence():
        if arguments.action == "export":
            check_words(arguments.added)
            if arguments.rows and not arguments.tables:
                raise Refused("--rows chooses among the rows of a table: name the table before it.")
            tables = []
            for name in arguments.tables or [*table_ids(), *grid_names(outputs)]:
                with nullcontext() if arguments.tables else left_out(name):
                    tables.append(find(name, outputs))
            if arguments.rows:
                tables = [replace(table, rows=tuple(map(table.row, arguments.rows))) for table in tables]
            tables = [with_overrides(table, [*table.budgets], arguments.added) for table in tables]
            samples = export_records(tables, arguments.budget, outputs, arguments.file)
            size = f"{arguments.file.stat().st_size / 1024:,.0f} KiB"
            print(f"{arguments.file}: {counted(len(samples), 'record')}, {size}")
        elif arguments.action == "card":
            _refuse_other_weights(RunDirectory(Path(os.path.realpath(arguments.run))))
            for path in write_card(arguments.run, arguments.into or arguments.run / "card"):
                print(path)
        else:
            folder = arguments.into or outputs
            imported = import_records(arguments.file, folder)
            print(f"{folder}: {counted(len(imported.new), 'record')} imported, {len(imported.kept)} kept as before")
            for name in imported.other:
                print(f"{name} has another record here, which stays.")


def _refuse_other_weights(directory: RunDirectory) -> None:
    """Refuse a run whose weights are not its record's: an import leaves what an interrupted run had saved."""
    if directory.best.exists():
        from highway.run.checkpoint import read_weights  # imports torch
        from highway.use.load import check_owner

        check_owner(directory.best, read_weights(directory.best)[1], directory, "best_step")
