"""Values that tables and reports keep in outputs/cache/report for the next command. The folder may be deleted."""

import hashlib
import re
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from highway.config.datasets import DATASETS
from highway.config.gates import GATES
from highway.config.home import CODE
from highway.config.metrics import METRICS
from highway.config.models import MODELS
from highway.config.project import confs
from highway.config.tasks import TASKS
from highway.files.kept import Kept

TEXTS = (".py", ".yaml", ".html", ".css", ".js")
PACKAGES = ("hydra-core", "omegaconf", "PyYAML", "numpy", "scipy", "scikit-learn", "matplotlib", "jinja2", "rich")


def kept_below(outputs_dir: Path) -> Kept:
    """Return the values that are kept for these outputs; another version of the code finds none of them."""
    cards = re.sub(r" at 0x\w+", "", repr((MODELS, GATES, DATASETS, TASKS, METRICS)))  # some are added at run time
    return Kept(outputs_dir / "cache" / "report", hashlib.sha256(f"{code_version()} {cards}".encode()).hexdigest())


@cache
def code_version() -> str:
    """Return a hash of our code and configuration, and of the versions of the packages that reports use."""
    digest = hashlib.sha256(repr([sys.version, *(version(package) for package in PACKAGES)]).encode())
    for folder in (CODE, *confs()):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in TEXTS):
            digest.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
