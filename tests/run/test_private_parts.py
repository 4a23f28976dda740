"""Lightning's private parts are used in one file, which has been checked with one version of Lightning."""

import re
from pathlib import Path

import pytorch_lightning as pl

import highway
from highway.run import devices


def test_the_version_was_checked() -> None:
    assert pl.__version__.startswith(f"{devices.CHECKED}."), (
        f"highway/run/devices.py uses a private part of Lightning {devices.CHECKED}, and {pl.__version__} is "
        "installed. Read `ignore_signals`, try Ctrl-C in a run with trainer.devices=2, then set CHECKED to the new "
        "version."
    )


def test_private_parts_are_used_in_one_file() -> None:
    folder = Path(highway.__file__).parent
    library = r"(?:pytorch_lightning|lightning_fabric)[\w.]*"
    private = re.compile(rf"(?:trainer|module|strategy|{library})\._[a-z]|\._trainer\b")
    using = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py") if private.search(path.read_text())}
    assert using == {"run/devices.py"}
