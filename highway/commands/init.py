"""Begin a project of your own: a gate, a data set and a table, with their code, tests and README:  highway init NAME

The folder NAME then holds a small project that runs at once. `highway`, in this folder or below it, knows its gates,
data sets and tables beside ours.
"""

import re
from pathlib import Path

from highway.commands.arguments import Arguments, one_sentence
from highway.config.home import HOME
from highway.errors import Refused
from highway.files.writing import write_text

TEMPLATE, NAME = HOME / "example", "myproject"


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("name", metavar="NAME", help="the new folder, and the package in it")
    arguments = parser.parse_args()
    with one_sentence():
        folder = begin(Path(arguments.name))
        print(f"{folder}/README.md says how to go on. Begin with:")
        print(f"cd {folder} && highway train -m table=first budget=smoke seeds=1,2")


def begin(folder: Path) -> Path:
    """Write the project; a file that exists is never replaced."""
    name = folder.name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in ("highway", "tests", "conf"):
        raise Refused(f"'{name}' cannot name a package: use small letters, digits and _, as in highway init my_gates.")
    if folder.exists():
        raise Refused(f"{folder} exists already. Choose another name.")
    for path in sorted(TEMPLATE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            target = folder / Path(*(name if part == NAME else part for part in path.relative_to(TEMPLATE).parts))
            target.parent.mkdir(parents=True, exist_ok=True)
            write_text(target, path.read_text().replace(NAME, name))
    return folder
