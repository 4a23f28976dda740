"""A cache of prepared data exists as a whole or not at all, and is made once."""

from pathlib import Path

import pytest

from highway.data.cache import cached
from highway.errors import Refused
from highway.ledger.files import write_text


def make(folder: Path) -> None:
    assert not list(folder.iterdir())
    write_text(folder / "text", "ours")


def refuse(folder: Path) -> None:
    write_text(folder / "text", "half")
    raise Refused("this text cannot be numbered.")


def test_a_cache_is_made_once_for_each_recipe(tmp_path: Path) -> None:
    assert cached(tmp_path / "cache", "x", ["one text"], make) == {"text": b"ours"}
    assert cached(tmp_path / "cache", "x", ["one text"], refuse) == {"text": b"ours"}
    with pytest.raises(Refused):
        cached(tmp_path / "cache", "x", ["another text"], refuse)


def test_a_cache_that_was_not_finished_is_made_anew(tmp_path: Path) -> None:
    """A process that was killed leaves a folder that no reader takes for the cache."""
    with pytest.raises(Refused):
        cached(tmp_path, "x", ["text"], refuse)
    assert not list(tmp_path.glob("*x-*"))
    cached(tmp_path, "x", ["text"], make)
    (folder,) = tmp_path.glob("x-*")
    folder.rename(tmp_path / f".{folder.name}")
    assert cached(tmp_path, "x", ["text"], make) == {"text": b"ours"}
    assert list(tmp_path.glob("*x-*")) == [folder]
