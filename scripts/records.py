"""Move records between machines:  python scripts/records.py export FILE [TABLE...] | import FILE

export FILE [TABLE...] [--budget mini]     write the records of these tables (default: all), without checkpoints
import FILE [--into outputs/reference]     merge a file into the records here; a record that ended better is kept
"""

from pathlib import Path

from highway.cli import Arguments, one_sentence, outputs_folder
from highway.config.guard import options
from highway.exchange.records import export_records, import_records
from highway.sweep.reading import load_table, table_ids


def main() -> None:
    parser = Arguments(__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    export = actions.add_parser("export", help="write the records of tables to a file")
    export.add_argument("file", type=Path, metavar="FILE")
    export.add_argument("tables", nargs="*", metavar="TABLE", help="default: every table")
    export.add_argument("--budget", choices=options("budget"), help="paper, mini or smoke; default: all")
    merge = actions.add_parser("import", help="merge an exported file into the records here")
    merge.add_argument("file", type=Path, metavar="FILE")
    merge.add_argument("--into", type=Path, metavar="FOLDER", help="default: $HIGHWAY_OUTPUTS, or outputs/")
    arguments = parser.parse_args()
    outputs = outputs_folder()
    with one_sentence():
        if arguments.action == "export":
            tables = [load_table(name) for name in arguments.tables or table_ids()]
            samples = export_records(tables, arguments.budget, outputs, arguments.file)
            print(f"{arguments.file}: {len(samples)} records, {arguments.file.stat().st_size / 1024:,.0f} KiB")
        else:
            folder = arguments.into or outputs
            imported = import_records(arguments.file, folder)
            print(f"{folder}: {len(imported.new)} records imported, {len(imported.kept)} kept as they were here")


if __name__ == "__main__":
    main()
