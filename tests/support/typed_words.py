"""Commands and keys that a user may type: the commands of README and docs, and every key of a configuration."""

import re

from highway.config.check import flat
from highway.config.fields import neutral
from highway.config.sections import ROOT as TOP
from highway.config.sections import SECTIONS, kinds_of
from tests.support.commands import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TRIED = [page for page in PAGES if page.name not in ("RECIPES.md", "LOG.md")]  # the others have own tests, or none
BLOCKS = [block for page in TRIED for block in re.findall(r"```bash\n(.*?)```", page.read_text(), flags=re.S)]


def commands_of(block: str) -> list[str]:
    """Return the commands of a block of a page, without comments."""
    return [line.split(" #")[0].strip() for line in block.strip().splitlines()]


COMMANDS = [command for block in BLOCKS for command in commands_of(block)]
KEYS = [
    *TOP,
    *(
        f"{section}.{key}"
        for section in ("model", "dataset", *SECTIONS)
        for kind in kinds_of(section)
        for key in flat(neutral(kind))
    ),
]
