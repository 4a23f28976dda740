"""The site: every page and link; no markup from a record; and, in a real browser, that its controls work."""

import html
import json
import re
import threading
import time
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from highway.report.collect import collect
from highway.report.curves import Point
from highway.report.overview import overview
from highway.report.report import build_report
from highway.report.write import show_reports
from highway.site.build import build_site
from highway.site.pages import as_set
from highway.site.series import by_split, thinned
from highway.site.watch import watch
from highway.sweep.reading import load_table, parse_table
from tests.support.browser import CUT_OFF, browser, comes, needs_chromium, opened
from tests.support.tables import many_cells, put


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


def data_of(path: Path) -> Any:
    """Return the data of a script of curves."""
    return json.loads(path.read_text().partition("] = ")[2].rstrip().removesuffix(";"))


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")


@pytest.mark.usefixtures("alone")
def test_a_table_and_its_runs(tmp_path: Path) -> None:
    table = load_table("highway_t1")
    for seed, value in enumerate((1.40, 1.41, 1.42), 1):
        put(tmp_path, "tanh", seed, value)
        put(tmp_path, "baseline", seed, value + 0.1)
    index = build_site(tmp_path, [table])
    assert not broken(index.parent)
    page = (index.parent / "highway_t1" / "index.html").read_text()
    assert "1.410 ± 0.010" in page and "supported" in page and "inconclusive" in page
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
    gates = " ".join(re.sub(r"<[^>]*>", " ", (index.parent / "across.html").read_text()).split())
    assert "any gate 1 1 1.00 0.29 … 1.00" in gates, "three seeds of one row, of which each beats its baseline"
    rows = data_of(index.parent / "highway_t1" / "paper" / "curves.js")["rows"]
    assert [row["id"] for row in rows] == ["baseline", "tanh"]
    assert rows[1]["seeds"][0]["splits"]["valid"]["bpc"] == [2.15, 1.9, 1.65, 1.4]
    assert rows[1]["paper"]["valid_bpc"] == table.row("tanh").paper["valid_bpc"]


@pytest.mark.usefixtures("alone")
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


@pytest.mark.usefixtures("alone")
def test_curves_say_which_rows_have_not_learned(tmp_path: Path) -> None:
    """A row with a run underway may still learn."""
    data = {"source": "files", "sha256": {"test": "t"}, "counting_loss": 1.5}
    put(tmp_path, "tanh", 1, 1.4, data=data)
    for row in ("sigmoid", "baseline"):
        put(tmp_path, row, 1, 30, data=data)
    put(tmp_path, "highway", 1, 30, status="diverged")
    (put(tmp_path, "baseline", 2, 1.5) / "result.json").unlink()
    index = build_site(tmp_path, [load_table("highway_t1")])
    rows = data_of(index.parent / "highway_t1" / "paper" / "curves.js")["rows"]
    unlearned = {row["id"]: row["unlearned"] for row in rows}
    assert unlearned == {"baseline": False, "tanh": False, "sigmoid": True, "highway": True}
    page = (index.parent / "highway_t1" / "index.html").read_text()
    assert page.count("<small>1 run has not learned</small>") == 2, "beside the seeds of sigmoid and of baseline"


@pytest.mark.usefixtures("alone")
def test_a_run_underway_has_its_curve(tmp_path: Path) -> None:
    put(tmp_path, "tanh", 1, 1.4)
    folder = put(tmp_path, "sigmoid", 2, 1.5)
    (folder / "result.json").unlink()
    index = build_site(tmp_path, [load_table("highway_t1")])
    rows = {row["id"]: row for row in data_of(index.parent / "highway_t1" / "paper" / "curves.js")["rows"]}
    assert set(rows) == {"tanh", "sigmoid"}
    assert [seed["name"] for seed in rows["sigmoid"]["seeds"]] == ["seed 2, waiting"]
    with open(folder / "curves.csv", "a") as file:
        file.write("100,1")  # half a row
    build_site(tmp_path, [load_table("highway_t1")])


def test_a_timed_table_has_its_report_and_no_pages_of_runs(tmp_path: Path) -> None:
    index = build_site(tmp_path, [load_table("highway_t7")])
    assert not broken(index.parent)
    text = (index.parent / "highway_t7" / "index.html").read_text()
    assert "0.1364" in text and "medians over 30 interleaved rounds" in text
    assert not list(index.parent.glob("cells/*.html"))


@pytest.mark.usefixtures("alone")
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
        assert "&lt;script&gt;" in text or page.name in ("across.html", "compare.html"), "these name no table here"


@pytest.mark.usefixtures("alone")
def test_a_table_without_records_says_how_to_begin(tmp_path: Path) -> None:
    index = build_site(tmp_path, [load_table("highway_t6")])
    text = (index.parent / "highway_t6" / "index.html").read_text()
    assert "make highway_t6 BUDGET=smoke" in text
    assert "1.12797" in text, "the paper's numbers"
    assert "10.18653/v1/2020.acl-main.616" in text and "@inproceedings{chai2020highway," in text


def test_a_curve_has_its_steps_to_the_digit() -> None:
    curve = [Point(step, 1.0, 1.234567, step / 7000, 3 * step) for step in (100_188, 100_189)]
    columns = by_split({("valid", "loss"): curve}, 10)["valid"]
    assert columns["step"] == [100_188, 100_189] and columns["tokens"] == [300_564, 300_567]
    assert columns["loss"] == [1.2346, 1.2346], "values as a page shows them"


def test_thinning_keeps_both_ends() -> None:
    curve = [Point(step, 0, 1.0, 0, 0) for step in range(1001)]
    kept = [point.step for point in thinned(curve, 11)]
    assert kept == list(range(0, 1001, 100)) and thinned(curve[:7], 11) == curve[:7]


@pytest.mark.usefixtures("alone")
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


def column(driver: Any, number: int) -> list[str]:
    script = (
        f"return [...document.querySelector('table.results').tBodies[0].rows].map(r => r.cells[{number}].textContent)"
    )
    return list(driver.execute_script(script))


@pytest.mark.slow
def test_pages_of_the_published_records(tmp_path: Path) -> None:
    tables = [load_table(name) for name in ("highway_t3", "highway_t5", "highway_t7", "r_transformer_t2")]
    index = build_site(tmp_path, tables)
    assert not broken(index.parent) and len(list((index.parent / "cells").glob("*.html"))) > 15


@pytest.mark.slow
@needs_chromium
def test_what_a_reader_does(tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    table = load_table("highway_t5")
    show_reports([(table, "mini", ())], tmp_path, _silent())
    index = build_site(tmp_path, [table, load_table("highway_t3"), load_table("r_transformer_t2")])
    assert not broken(index.parent)
    page = index.parent / "highway_t5" / "index.html"
    with browser() as driver:
        opened(driver, page)
        names = "[...document.querySelectorAll('.plot [data-line]')].map(e => e.dataset.line.replace(/, [^,]*$/, ''))"
        traces = f"return new Set({names}).size"  # rows, of one seed or several
        before = driver.execute_script(traces)
        boxes = driver.find_elements(By.CSS_SELECTOR, ".toggles input")
        boxes[0].send_keys(Keys.SPACE)  # by keyboard
        comes(driver, traces, before - 1)
        driver.find_element(By.CSS_SELECTOR, ".none").click()
        comes(driver, traces, 0)
        driver.find_element(By.CSS_SELECTOR, ".all").click()
        comes(driver, traces, 15)  # eleven rows, and four extra rows that use the baseline's run
        axis = "return document.querySelector('.plot').chart.over"
        for over, title in (("seconds", "seconds of training"), ("epoch", "epoch"), ("tokens", "tokens read")):
            Select(driver.find_element(By.CSS_SELECTOR, ".over")).select_by_visible_text(over)
            comes(driver, axis, title)
        driver.find_element(By.CSS_SELECTOR, ".log").click()
        comes(driver, "return document.querySelector('.plot').y.log", True)
        Select(driver.find_element(By.CSS_SELECTOR, ".metric")).select_by_visible_text("training bits per character")
        comes(driver, "return document.querySelector('.plot').chart.title", "training bits per character")
        tail = "document.querySelector('.plot').chart.lines[0].y.slice(-20)"
        spread = f"return Math.max(...{tail}) - Math.min(...{tail})"
        rough = driver.execute_script(spread)
        driver.find_element(By.CSS_SELECTOR, ".smooth").send_keys(Keys.END)
        comes(driver, f"{spread} < {rough} / 3", True)
        driver.find_element(By.CSS_SELECTOR, ".unfold button").click()
        buttons = driver.find_elements(By.CSS_SELECTOR, "table.results th button")
        buttons[-3].click()
        values = [float(text.rstrip("%")) for text in column(driver, len(buttons) - 3) if text not in ("", "—")]
        assert values == sorted(values) and len(values) > 10  # rows without a value come last
        assert driver.execute_script("return document.querySelectorAll('[aria-sort=ascending]').length") == 1
        link = driver.find_element(By.CSS_SELECTOR, "table.results td a")
        link.click()
        assert "seed 1" in driver.title
        opened(driver, index)
        Select(driver.find_element(By.CSS_SELECTOR, "[data-filter=budget]")).select_by_visible_text("paper")
        rows = "[...document.querySelectorAll('tr[data-budget]')]"
        shown = driver.execute_script(f"return {rows}.filter(r => !r.hidden).map(r => r.dataset.budget)")
        whole = driver.execute_script(f"return {rows}.map(r => r.dataset.budget)")
        assert shown == ["paper"] * whole.count("paper") and shown


@pytest.mark.slow
@needs_chromium
def test_the_headline_is_that_of_the_records(tmp_path: Path) -> None:
    tables = [load_table(name) for name in ("highway_t3", "highway_t6", "r_transformer_t2")]
    index = build_site(tmp_path, tables)
    reports = [build_report(collect(table, budget, tmp_path)) for table in tables for budget in ("paper", "mini")]
    expected = overview(tables, [report for report in reports if report.collected.every])
    with browser() as driver:
        opened(driver, index)
        tiles = "[...document.querySelectorAll('[data-word] dd')].map(d => [d.parentNode.dataset.word, +d.innerText])"
        assert dict(driver.execute_script(f"return {tiles}")) == expected.words
        orders = "[...document.querySelectorAll('[data-ordering]')].map(s => [s.dataset.ordering, +s.textContent])"
        assert dict(driver.execute_script(f"return {orders}")) == expected.ordered
        marks = "return document.querySelectorAll('.forest td .point').length"
        beyond = sum(abs(each.difference) > expected.limit for each in expected.measurements)
        assert driver.execute_script(marks) == len(expected.measurements) - beyond > 40
        rows = "return document.querySelectorAll('.forest tr[data-word]').length"
        assert driver.execute_script(rows) == sum(each.word != "not run" for each in expected.measurements)


@pytest.mark.slow
@needs_chromium
def test_on_a_phone(tmp_path: Path) -> None:
    index = build_site(tmp_path, [load_table("highway_t5"), load_table("r_transformer_t2")])
    run = next((index.parent / "cells").glob("*.html"))
    with browser(390, 800) as driver:
        for page in (index, index.parent / "highway_t5" / "index.html", run):
            opened(driver, page)
            assert driver.execute_script("return document.documentElement.scrollWidth") <= 390, page
            assert driver.execute_script(CUT_OFF) == [], page
        opened(driver, index)
        right = "Math.max(...[...document.querySelectorAll('main .verdict')].map(v => v.getBoundingClientRect().right))"
        assert driver.execute_script(f"return {right}") <= 390, "claims and answers are on the screen"


@pytest.mark.slow
@needs_chromium
@pytest.mark.usefixtures("alone")
def test_a_thousand_runs(tmp_path: Path) -> None:
    table = many_cells(tmp_path, rows=250, seeds=4, points=300)
    started = time.monotonic()
    index = build_site(tmp_path, [table])
    print(f"built in {time.monotonic() - started:.1f} s")
    assert len(list((index.parent / "cells").glob("*.html"))) == 1000
    with browser() as driver:
        opened(driver, index.parent / table.id / "index.html")
        painted = "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
        assert driver.execute_script(painted) < 2000
        assert driver.execute_script("return document.querySelector('table.results').tBodies[0].rows.length") == 250


def _silent() -> Any:
    from rich.console import Console

    return Console(quiet=True)
