"""How many points the page of a table holds, and what happens to the page of a run that is gone."""

import json
import shutil
from pathlib import Path

import pytest

from highway.report.collect import collect
from highway.site import series
from highway.site.build import build_site
from highway.site.series import FEWEST, MOST, ON_A_PAGE, points_of_each
from tests.support.tables import TABLE, put

pytestmark = pytest.mark.usefixtures("no_published_records")


def prepared(outputs: Path) -> None:
    """Write records of three rows with two seeds each."""
    for row_id, value in (("baseline", 1.4), ("tanh", 1.3), ("sigmoid", 1.35)):
        for seed in (1, 2):
            put(outputs, row_id, seed, value + seed / 100)


def test_a_run_that_is_gone_has_no_page(tmp_path: Path) -> None:
    prepared(tmp_path)
    pages = build_site(tmp_path, [TABLE]).parent / "cells"
    run = collect(TABLE, "paper", tmp_path).samples["baseline"][1]
    assert (pages / f"{run.name}.html").exists() and len([*pages.glob("*.html")]) == 6
    shutil.rmtree(run.directory)
    build_site(tmp_path, [TABLE])
    assert not [*pages.glob(f"{run.name}.*")] and len([*pages.glob("*.html")]) == 5


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
    script = (build_site(tmp_path, [TABLE]).parent / TABLE.id / "paper" / "curves.js").read_text()
    rows = json.loads(script.split(" = ", 2)[2].rstrip(";\n"))["rows"]
    points = [len(split["step"]) for row in rows for seed in row["seeds"] for split in seed["splits"].values()]
    assert points and (sum(points) <= most or set(points) == {FEWEST})
    assert most != 60 or sum(points) > most // 2  # the limit is used
