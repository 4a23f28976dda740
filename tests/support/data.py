"""Data of tests: the real data of the person who runs them, and a corpus that a test writes."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import ROOT

REAL_DATA = Path(os.environ.get("HIGHWAY_DATA", ROOT.parent / "shared" / "data"))


def needs_file(name: str) -> Callable[..., Any]:
    """Mark a test that reads this file of the real data: without it, skip it, or fail it if HIGHWAY_DATA is set."""
    if (REAL_DATA / name).exists():
        return lambda test: test
    missing = f"{name} is missing from {REAL_DATA}"
    if "HIGHWAY_DATA" not in os.environ:
        return pytest.mark.skip(reason=f"{missing}: set HIGHWAY_DATA")

    def failing(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def fail(*_: Any, **__: Any) -> None:
            pytest.fail(f"{missing}, which is HIGHWAY_DATA. Put it there, or unset HIGHWAY_DATA.")

        return fail

    return failing


needs_real_data = needs_file("ptb/ptb.train.txt")


def write_corpus(folder: Path, train: str, other: str) -> None:
    """Write the files of Penn Treebank with this text, as words and as characters."""
    (folder / "ptb").mkdir(parents=True)
    for split in ("train", "valid", "test"):
        text = train if split == "train" else other
        (folder / "ptb" / f"ptb.{split}.txt").write_text(text)
        (folder / "ptb" / f"ptb.char.{split}.txt").write_text(text.strip().replace(" ", "_"))
