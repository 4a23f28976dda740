"""The site: every page and link, the data of its curves, and no markup from a record."""

import html
import json
import re
import shutil
import threading
import time
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from highway.report.curves import Point
from highway.site import series
from highway.site.build import build_site
from highway.site.pages import as_set
from highway.site.series import by_split, thinned
from highway.site.watch import watch
from highway.sweep.reading import load_table, parse_table
from tests.support.tables import put


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


def spaced(page: str) -> str:
    """Return the words of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())


def data_of(path: Path) -> Any:
    """Return the data of a script of curves."""
    return json.loads(path.read_text().partition("] = ")[2].rstrip().removesuffix(";"))


@pytest.mark.usefixtures("no_published_records")
def test_a_table_and_its_runs(tmp_path: Path) -> None:
    table = load_table("highway_t1")
    for seed, value in enumerate((1.40, 1.41, 1.42), 1):
        put(tmp_path, "tanh", seed, value)
        put(tmp_path, "baseline", seed, value + 0.1)
    index = build_site(tmp_path, [table])
    assert not broken(index.parent)
    page = (index.parent / "highway_t1" / "index.html").read_text()
    assert "1.410 ± 0.010" in page and "supported" in page and "within: " in page
    text = " ".join(html.unescape(re.sub(r"<[^>]*>", "", index.read_text())).split())
    assert "2 of 3" in text and "6 runs" in text and "4 of the papers' 6 numbers" in text and "4 with 3 seeds" in text
    pages = sorted((index.parent / "cells").glob("*.html"))
    assert len(pages) == 6
    differing = next(path.read_text() for path in pages if "tanh SDU" in path.read_text())
    assert "gate.activation" in differing and "layers.attention" in differing
    assert "Other seeds of this row" in differing and differing.count(">seed 2<") + differing.count(">seed 3<") >= 1
    assert f"{table.row('tanh').paper['test_bpc']:.6g}</td>" in differing and "neutral default" in differing
    assert ">None<" not in differing and ">True<" not in differing
    assert [as_set(value) for value in (None, True, "sdu", [1, "a"])] == ["null", "true", "sdu", '[1, "a"]']
    assert "gate tables rows better rows worse sdu tanh 1 1 0 " in f"{spaced(index.read_text())} "
    rows = data_of(index.parent / "highway_t1" / "paper" / "curves.js")["rows"]
    assert [row["id"] for row in rows] == ["baseline", "tanh"]
    assert rows[1]["seeds"][0]["splits"]["valid"]["bpc"] == [2.15, 1.9, 1.65, 1.4]
    assert rows[1]["paper"]["valid_bpc"] == table.row("tanh").paper["valid_bpc"]


@pytest.mark.usefixtures("no_published_records")
def test_a_run_is_shown_beside_its_baseline(tmp_path: Path) -> None:
    """The first row is that of a row that has none."""
    runs = {row: put(tmp_path, row, 1, 1.4) for row in ("post_norm", "post_norm_tanh", "benchmark")}
    table = load_table("highway_t1")
    index = build_site(tmp_path, [table])
    for row, base, differing in (
        ("post_norm", "baseline", {"model.norm"}),
        (
            "post_norm_tanh",
            "post_norm",
            {"gate.residual", "gate.activation", "layers.attention", "layers.feed_forward"},
        ),
        ("benchmark", "baseline", {"dataset.form"}),
    ):
        page = (index.parent / "cells" / f"{runs[row].parent.name}-{runs[row].name}.html").read_text()
        title = f"<h2>Compared with {html.escape(table.row(base).label)}</h2>"
        section = page[page.index(title) : page.index("<h2>Cost</h2>")]
        assert set(re.findall(r'<th scope="row"><code>([\w.]+)</code>', section)) == differing


@pytest.mark.usefixtures("no_published_records")
def test_curves_of_runs_that_have_not_learned_or_are_underway(tmp_path: Path) -> None:
    """A row with a run underway may still learn."""
    data = {"source": "files", "sha256": {"test": "t"}, "counting_loss": 1.5}
    put(tmp_path, "tanh", 1, 1.4, data=data)
    for row in ("sigmoid", "baseline"):
        put(tmp_path, row, 1, 30, data=data)
    put(tmp_path, "highway", 1, 30, status="diverged")
    underway = put(tmp_path, "baseline", 2, 1.5)
    (underway / "result.json").unlink()
    index = build_site(tmp_path, [load_table("highway_t1")])
    rows = {row["id"]: row for row in data_of(index.parent / "highway_t1" / "paper" / "curves.js")["rows"]}
    unlearned = {name: row["unlearned"] for name, row in rows.items()}
    assert unlearned == {"baseline": False, "tanh": False, "sigmoid": True, "highway": True}
    assert [seed["name"] for seed in rows["baseline"]["seeds"]][-1] == "seed 2, waiting"
    page = (index.parent / "highway_t1" / "index.html").read_text()
    worse = "<small>worse than frequencies (2.164; this run 43.28)</small>"
    assert page.count(worse) == 2, "beside the seeds of sigmoid and of baseline"
    with open(underway / "curves.csv", "a") as file:
        file.write("100,1")  # half a row
    build_site(tmp_path, [load_table("highway_t1")])


def test_tables_that_are_timed_or_have_no_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = build_site(tmp_path, [load_table("highway_t7")])
    assert not broken(index.parent) and not list(index.parent.glob("cells/*.html"))
    text = (index.parent / "highway_t7" / "index.html").read_text()
    assert "0.1364" in text and "medians over 30 interleaved rounds" in text
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")
    index = build_site(tmp_path / "other", [load_table("highway_t6")])
    text = (index.parent / "highway_t6" / "index.html").read_text()
    assert "make highway_t6 BUDGET=smoke" in text
    assert "1.12797" in text, "the paper's numbers"
    assert "10.18653/v1/2020.acl-main.616" in text and "@inproceedings{chai2020highway," in text


@pytest.mark.usefixtures("no_published_records")
def test_a_run_that_is_gone_has_no_page(tmp_path: Path) -> None:
    table = load_table("highway_t1")
    runs = [put(tmp_path, row, 1, 1.4) for row in ("baseline", "tanh")]
    pages = build_site(tmp_path, [table]).parent / "cells"
    assert len([*pages.glob("*.html")]) == 2
    shutil.rmtree(runs[0])
    build_site(tmp_path, [table])
    assert [path.name for path in pages.glob("*.html")] == [f"{runs[1].parent.name}-seed1.html"]


@pytest.mark.usefixtures("no_published_records")
@pytest.mark.parametrize("most", [30, 4])
def test_the_page_holds_no_more_points_than_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Or two of each curve: docs/COMMANDS.md promises both."""
    monkeypatch.setattr(series, "ON_A_PAGE", most)
    for row in ("baseline", "tanh"):
        for seed in (1, 2):
            put(tmp_path, row, seed, 1.4)
    folder = build_site(tmp_path, [load_table("highway_t1")]).parent
    rows = data_of(folder / "highway_t1" / "paper" / "curves.js")["rows"]
    points = [len(split["step"]) for row in rows for seed in row["seeds"] for split in seed["splits"].values()]
    assert points and (most // 2 < sum(points) <= most or set(points) == {series.FEWEST})


@pytest.mark.usefixtures("no_published_records")
def test_nothing_of_a_record_is_markup(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>\"'a{{ 'b' * 3 }}c"
    table = parse_table(
        {
            **yaml.safe_load((Path("conf") / "table" / "highway_t1.yaml").read_text()),
            "caption": evil,
            "note": evil,
            "choices": [evil],
        }
    )
    environment = {"versions": {evil: evil}, "precision": evil, "git_commit": evil}
    put(tmp_path, "tanh", 1, 1.4, command=evil, environment=environment, cost={"device": evil})
    index = build_site(tmp_path, [table])
    for page in index.parent.rglob("*.html"):
        text = page.read_text()
        assert "<script>" not in text and "abbbc" not in text, page
        assert "&lt;script&gt;" in text or page.name == "compare.html", "it names no table here"


def test_a_curve_keeps_its_ends_and_its_steps_to_the_digit() -> None:
    curve = [Point(step, 1.0, 1.234567, step / 7000, 3 * step) for step in (100_188, 100_189)]
    columns = by_split({("valid", "loss"): curve}, 10)["valid"]
    assert columns["step"] == [100_188, 100_189] and columns["tokens"] == [300_564, 300_567]
    assert columns["loss"] == [1.2346, 1.2346], "values as a page shows them"
    longer = [Point(step, 0, 1.0, 0, 0) for step in range(1001)]
    assert [point.step for point in thinned(longer, 11)] == list(range(0, 1001, 100))


@pytest.mark.usefixtures("no_published_records")
def test_the_site_is_served_and_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = []

    def make() -> Path:
        made.append(put(tmp_path, "tanh", len(made) + 1, 1.4))
        if len(made) > 2:
            raise KeyboardInterrupt
        return build_site(tmp_path, [load_table("highway_t1")], refresh=1)

    thread = threading.Thread(target=watch, args=(make, 0, 1))
    thread.start()
    address = ""
    while not address:
        time.sleep(0.05)
        address = next(iter(re.findall(r"http://\S+", capsys.readouterr().out)), "")
    with urllib.request.urlopen(address) as answer:
        assert b'name="refresh-every" content="1"' in answer.read()
    thread.join(30)
    assert len(made) == 3
