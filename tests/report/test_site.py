"""The site: an index and a page a table, their links, the data of the curves, and no markup from a record."""

import html
import json
import re
import threading
import time
import urllib.request
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from highway.errors import Refused
from highway.report import site
from highway.report.curves import Point
from highway.report.site import build_site, by_split, every_table, thinned
from highway.report.watch import watch
from highway.tables import grid
from highway.tables.reading import load_table, parse_table
from highway.tables.table import Table
from tests.support.tables import TABLE, content, put


class Links(HTMLParser):
    """Collects the links of a page and the files that it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attributes if name in ("href", "src")]


def broken(folder: Path) -> list[str]:
    """Return the links of all pages that lead nowhere."""
    wrong = []
    for page in folder.rglob("*.html"):
        for link in Links(page).found:
            address = link.partition("#")[0]
            if address and not address.startswith(("data:", "https:")) and not (page.parent / address).exists():
                wrong.append(f"{page.name}: {link}")
    return wrong


def made(outputs: Path, tables: Sequence[Table]) -> Path:
    """Build the site of these tables and return its folder."""
    build_site(outputs, tables)
    return outputs / "report"


def spaced(page: Path) -> str:
    """Return the words of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page.read_text())).split())


def data_of(path: Path) -> Any:
    """Return the data of a script of curves."""
    return json.loads(path.read_text().partition("] = ")[2].rstrip().removesuffix(";"))


@pytest.mark.usefixtures("no_published_records")
def test_an_index_and_a_page_a_table(tmp_path: Path) -> None:
    for seed, value in enumerate((1.40, 1.41, 1.42), 1):
        put(tmp_path, "tanh", seed, value)
        put(tmp_path, "baseline", seed, value + 0.1)
    folder = made(tmp_path, [TABLE, load_table("highway_t2")])
    assert not broken(folder)
    index = spaced(folder / "index.html")
    assert "2 of the papers' 6 numbers" in index and "Not run: highway_t2" in index
    assert "tanh SDU beats no gate on test bpc: supported (+ tanh SDU against T-L3: -0.100" in index
    assert "+ tanh SDU against T-L3 (test bpc)" in index and "at paper: agrees" in index
    assert (folder / "effects.svg").read_text() in (folder / "index.html").read_text()
    page = spaced(folder / "highway_t1" / "index.html")
    assert "+ sigmoid SDU against T-L3 (test bpc) not run" in page and "agrees (paper: -0.131)" in page
    assert all(f"“{claim.quote}” ({claim.where})" in page for claim in TABLE.claims)
    assert "1.410 ± 0.010" in page and "✓ supported" in page and "✓ within: " in page
    assert "highway train -m table=highway_t2" in spaced(folder / "highway_t2" / "index.html")
    assert "10.18653/v1/2020.acl-main.616" in page
    rows = data_of(folder / "highway_t1" / "paper" / "curves.js")["rows"]
    assert [row["label"] for row in rows] == ["T-L3", "+ tanh SDU"]
    assert rows[1]["runs"][0]["splits"]["valid"]["bpc"] == [2.15, 1.9, 1.65, 1.4]
    assert rows[1]["paper"]["valid_bpc"] == TABLE.row("tanh").paper["valid_bpc"]
    assert "tanh,'+ tanh SDU" in (folder / "highway_t1" / "paper" / "table.csv").read_text()


@pytest.mark.usefixtures("no_published_records")
def test_a_table_with_smoke_runs_alone_stays_in_the_plot(tmp_path: Path) -> None:
    put(tmp_path, "tanh", 1, 1.4, "smoke")
    folder = made(tmp_path, [TABLE])
    assert all(
        "+ tanh SDU against T-L3 (test bpc) not run" in spaced(page)
        for page in (folder / "index.html", folder / "highway_t1" / "index.html")
    )


@pytest.mark.usefixtures("no_published_records")
def test_ones_own_tables_come_first_and_count_for_no_paper(tmp_path: Path) -> None:
    recipe = ["model=transformer", "dataset=ptb_char", "model.width=64"]
    own = parse_table(content(id="mine", caption="My table", recipe=recipe, paper=""))
    put(tmp_path, "a", 1, 1.4, table=own)
    folder = made(tmp_path, [TABLE, own])
    index = spaced(folder / "index.html")
    assert (
        index.index("Your tables") < index.index("mine My table paper Nothing is decided.") < index.index("Four papers")
    )
    unrun = spaced(made(tmp_path / "other", [own]) / "index.html")
    assert "mine My table paper Not run." in unrun, "a table of one's own is listed before it has run"
    assert "0 of the papers' 3 numbers" in index


@pytest.mark.usefixtures("no_published_records")
def test_curves_of_runs_that_have_not_learned_or_are_underway(tmp_path: Path) -> None:
    """Rows that have not learned begin hidden; a run underway is drawn as far as it is."""
    data = {"source": "files", "sha256": {"test": "t"}, "counting_loss": 1.5}
    put(tmp_path, "tanh", 1, 1.4, data=data)
    for row in ("sigmoid", "baseline"):
        put(tmp_path, row, 1, 30, data=data)
    put(tmp_path, "post_norm", 1, 1.4, data=data)
    underway = put(tmp_path, "baseline", 2, 1.5)
    (underway / "result.json").unlink()
    folder = made(tmp_path, [TABLE])
    rows = {row["label"]: row for row in data_of(folder / "highway_t1" / "paper" / "curves.js")["rows"]}
    hidden = [label for label, row in rows.items() if row["hidden"]]
    assert hidden == ["T-L3", "+ sigmoid SDU", TABLE.row("post_norm").label] and not rows["+ tanh SDU"]["hidden"]
    assert [run["name"] for run in rows["T-L3"]["runs"]][-1] == "seed 2, waiting"
    assert "worse than frequencies (2.164; this run 43.28)" in spaced(folder / "highway_t1" / "index.html")
    with open(underway / "curves.csv", "a") as file:
        file.write("100,1")  # half a row
    made(tmp_path, [TABLE])


def test_a_timed_table_has_no_curves(tmp_path: Path) -> None:
    folder = made(tmp_path, [load_table("highway_t7")])
    assert not broken(folder)
    text = spaced(folder / "highway_t7" / "index.html")
    assert "0.1364" in text and "medians over 30 interleaved rounds" in text and "log scale" not in text


@pytest.mark.usefixtures("no_published_records")
def test_a_sweep_with_further_overrides_has_a_page(tmp_path: Path) -> None:
    """File systems allow names of 255 bytes, so the folder of many overrides has a shorter one."""
    overrides = [f"trainer.{key}=1000000" for key in ("max_steps", "validate_every", "log_every", "max_epochs")]
    overrides += ["model.dropout=0.333333", "optimizer.lr=0.123456789", "optimizer.clip=0.123456789"]
    grid.keep_overrides("highway_t1", "smoke", ["trainer.max_steps=20"], tmp_path)
    grid.keep_overrides("highway_t1", "smoke", overrides, tmp_path)
    tables = {grid.folder_of(table): table for table in every_table(tmp_path) if table.added}
    put(tmp_path, "tanh,trainer.max_steps=20", 1, 1.4, "smoke", table=tables["highway_t1,trainer.max_steps=20"])
    folder = made(tmp_path, [TABLE, *tables.values()])
    assert "highway_t1,trainer.max_steps=20" in (folder / "index.html").read_text()
    assert ", with trainer.max_steps=20" in (folder / "highway_t1,trainer.max_steps=20" / "index.html").read_text()
    assert len(tables) == 2 and all(len(name) < 140 and (folder / name / "index.html").exists() for name in tables)
    path = next(tmp_path.glob("grids/*/overrides.yaml"))
    path.write_text("table: highway_t1\nbudget: smoke\noverrides: gate=none\n")
    with pytest.raises(Refused, match=r"overrides\.yaml, line 3: overrides=gate=none must be a list"):
        every_table(tmp_path)


@pytest.mark.usefixtures("no_published_records")
@pytest.mark.parametrize("most", [30, 4])
def test_the_page_holds_no_more_points_than_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Or two of each curve: highway/report/site.py states both."""
    monkeypatch.setattr(site, "ON_A_PAGE", most)
    for row in ("baseline", "tanh"):
        for seed in (1, 2):
            put(tmp_path, row, seed, 1.4)
    rows = data_of(made(tmp_path, [TABLE]) / "highway_t1" / "paper" / "curves.js")["rows"]
    points = [len(split["step"]) for row in rows for run in row["runs"] for split in run["splits"].values()]
    assert points and (most // 2 < sum(points) <= most or set(points) == {2})


def test_a_curve_keeps_its_ends_and_its_steps_to_the_digit() -> None:
    curve = [Point(step, 1.0, 1.23456789, step / 7000, 3 * step) for step in (1_000_188, 1_000_189)]
    columns = by_split({("valid", "loss"): curve}, 10)["valid"]
    assert columns["step"] == [1_000_188, 1_000_189] and columns["loss"] == [1.234568, 1.234568]
    longer = [Point(step, 0, 1.0, 0, 0) for step in range(1001)]
    assert [point.step for point in thinned(longer, 11)] == list(range(0, 1001, 100))


@pytest.mark.usefixtures("no_published_records")
def test_the_site_is_served_and_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = []

    def make() -> None:
        built.append(put(tmp_path, "tanh", len(built) + 1, 1.4))
        if len(built) > 2:
            raise KeyboardInterrupt
        build_site(tmp_path, [TABLE], refresh=1)

    thread = threading.Thread(target=watch, args=(make, tmp_path / "report", 0, 1))
    thread.start()
    address = ""
    while not address:
        time.sleep(0.05)
        address = next(iter(re.findall(r"http://\S+", capsys.readouterr().out)), "")
    with urllib.request.urlopen(address) as answer:
        assert b'name="refresh-every" content="1"' in answer.read()
    thread.join(30)
    assert len(built) == 3
