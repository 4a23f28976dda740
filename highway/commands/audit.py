"""Check statements of the papers against their numbers and models, without data:  highway audit [TABLE...]"""

from pathlib import Path

from rich.console import Console

from highway.audit.audit import audit, show, to_markdown
from highway.commands.arguments import Arguments, one_sentence
from highway.errors import Refused
from highway.files.writing import write_text
from highway.sweep.reading import table_ids


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="default: every table")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the differences to this Markdown file")
    arguments = parser.parse_args()
    with one_sentence():
        if arguments.write and arguments.write.is_dir():
            raise Refused(f"{arguments.write} is a folder; --write takes a file, as in --write audit.md.")
        findings = audit(arguments.tables or table_ids())
        show(findings, Console())
        if arguments.write:
            write_text(arguments.write, to_markdown(findings))
