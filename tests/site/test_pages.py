"""A site after a change is the site from nothing, byte for byte, and writes only the pages that change."""

import json
import shutil
from pathlib import Path

import pytest

from highway.files import kept
from highway.files.writing import write_text
from highway.site import pages, series
from highway.site.build import build_site
from highway.site.series import FEWEST, MOST, ON_A_PAGE, points_of_each
from highway.sweep import kept as keeping
from tests.support.changes import CHANGES, prepared, seed_folder
from tests.support.tables import TABLE, put

# Each run has a page, a script and its record; the table a page, a script and three files of results; and there are the
# index, the page over all tables, and the page that compares runs with its list of runs
PAGES = 6 * 3 + 5 + 4


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kept, "SETTLED", -10.0)
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the pages that are written."""
    names: list[str] = []

    def noted(path: Path, text: str, durable: bool = True) -> None:
        names.append(path.name)
        write_text(path, text, durable)

    monkeypatch.setattr(pages, "write_text", noted)
    return names


def site(outputs: Path, refresh: int = 0) -> dict[str, bytes]:
    folder = build_site(outputs, [TABLE], refresh).parent
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def drawn(outputs: Path) -> None:
    """Write what stands for the figures, which the page of a table shows if they are there."""
    for ending in ("svg", "png"):
        write_text(outputs / "report" / TABLE.id / "paper" / f"{TABLE.figures[0].id}.{ending}", "a figure")


def begun(outputs: Path) -> None:
    """Leave a run underway: curves without a record."""
    (put(outputs, "sigmoid", 4, 1.4) / "result.json").unlink()


SITE_CHANGES = {**CHANGES, "begun": begun, "page removed": lambda outputs: (outputs / "report/index.html").unlink()}


@pytest.mark.parametrize("change", SITE_CHANGES)
def test_a_site_after_a_change_is_the_site_from_nothing(tmp_path: Path, change: str) -> None:
    prepared(tmp_path / "outputs")
    drawn(tmp_path / "outputs")
    site(tmp_path / "outputs")
    SITE_CHANGES[change](tmp_path / "outputs")
    after = site(tmp_path / "outputs")
    shutil.copytree(tmp_path / "outputs" / "cells", tmp_path / "elsewhere" / "cells")
    if change != "figure removed":
        drawn(tmp_path / "elsewhere")
    figures = {name for name in after if name.endswith((".svg", ".png"))}
    anew = site(tmp_path / "elsewhere")
    assert {name: after[name] for name in after if name not in figures} == {
        name: anew[name] for name in anew if not name.endswith((".svg", ".png"))
    }


def test_only_pages_that_change_are_written(tmp_path: Path, written: list[str]) -> None:
    prepared(tmp_path)
    site(tmp_path)
    assert len(written) == PAGES
    written.clear()
    site(tmp_path)
    assert not written
    put(tmp_path, "tanh", 1, 1.1)
    run = seed_folder(tmp_path, "tanh", 1)
    site(tmp_path)
    name = f"{run.parent.name}-{run.name}"
    of_run = [f"{name}.{ending}" for ending in ("html", "js", "json")]
    of_table = ["curves.js", "index.html", "table.csv", "table.md", "table.tex"]
    changed = [*of_run, *of_table, "across.html", "index.html", "runs.js"]
    assert sorted(written) == sorted(changed)


def test_other_code_and_another_refresh_write_every_page(
    tmp_path: Path, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(tmp_path)
    site(tmp_path)
    written.clear()
    site(tmp_path, refresh=5)
    assert len(written) == PAGES
    written.clear()
    monkeypatch.setattr(keeping, "code_version", lambda: "another")
    site(tmp_path, refresh=5)
    assert len(written) == PAGES


@pytest.mark.parametrize(("runs", "points"), [(1, MOST), (200, MOST), (2000, 60), (5336, 22), (60_000, FEWEST)])
def test_the_page_of_a_table_holds_so_many_points_at_most(runs: int, points: int) -> None:
    outlines = [(("train", "loss"), ("train", "bpc"), ("valid", "loss"))] * runs
    assert points_of_each(outlines) == points and 2 * runs * points <= ON_A_PAGE


@pytest.mark.parametrize("most", [1000, 60, 4])
def test_the_page_holds_no_more_points_than_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Or two of each curve: docs/COMMANDS.md promises both."""
    monkeypatch.setattr(series, "ON_A_PAGE", most)
    prepared(tmp_path)
    script = site(tmp_path)[f"{TABLE.id}/paper/curves.js"].decode()
    rows = json.loads(script.split(" = ", 2)[2].rstrip(";\n"))["rows"]
    points = [len(split["step"]) for row in rows for seed in row["seeds"] for split in seed["splits"].values()]
    assert points and (sum(points) <= most or set(points) == {FEWEST})
    assert most != 60 or sum(points) > most // 2  # the limit is used
