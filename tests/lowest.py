"""Print the lowest version of each dependency that pyproject.toml allows, as requirements for pip."""

import re
import tomllib
from pathlib import Path

EXTRAS = ("music", "dashboards", "slurm", "bench")  # what the fast tests need; Ray has its own tests


def lowest(content: str) -> list[str]:
    """Return `name==version` for each dependency, core and of EXTRAS; each must have a lower bound."""
    project = tomllib.loads(content)["project"]
    needed = [*project["dependencies"], *(name for extra in EXTRAS for name in project["optional-dependencies"][extra])]
    return [re.sub(r">=([^,]+).*", r"==\1", requirement) for requirement in needed]


if __name__ == "__main__":
    print("\n".join(lowest(Path("pyproject.toml").read_text())))
