"""Charts of the site, in a real browser: every line has its entry in the legend, and nothing leaves the page."""

import json
from pathlib import Path

import pytest

from highway.site.build import build_site
from highway.sweep.reading import load_table
from tests.support.browser import CUT_OFF, browser, needs_chromium, opened
from tests.support.tables import put

LINES = """return [...document.querySelectorAll('.plot [data-line]')]
  .map(line => [line.dataset.line.replace(/, [^,]*$/, ''), line.getAttribute('stroke-dasharray') ?? 'none'])"""
LEGEND = """return [...document.querySelectorAll('.toggles label')]
  .map(label => [label.textContent.trim(), label.querySelector('line').getAttribute('stroke-dasharray')])"""


@pytest.mark.slow
@needs_chromium
def test_lines_and_legend_agree_and_nothing_leaves_the_page(tmp_path: Path) -> None:
    index = build_site(tmp_path, [load_table("hsg_t1")])
    page = index.parent / "hsg_t1" / "index.html"
    with browser() as driver:
        driver.execute_cdp_cmd("Network.enable", {})
        opened(driver, page)
        lines = dict(driver.execute_script(LINES))
        assert lines == dict(driver.execute_script(LEGEND))
        assert len(set(lines.values())) == 4, "four depths have four dashes"
        labels = "return [...document.querySelectorAll('.plot .end')].map(label => label.textContent)"
        for label, name in zip(sorted(driver.execute_script(labels)), sorted(lines), strict=True):
            beginning = label.endswith("…") and len(label) > 20 and name.startswith(label[:-1])
            assert beginning or label == name, "the end of each line has its label; of a long one, the beginning"
        assert driver.execute_script(CUT_OFF) == []
        driver.execute_script("document.querySelector('.data summary').click()")
        driver.execute_script("document.querySelectorAll('.curves button').forEach(button => button.click())")
        driver.execute_script("document.querySelector('.all').click(); document.querySelector('.data').open = true")
        counted = "return [...arguments].map(found => document.querySelectorAll(found).length)"
        drawn, rows = driver.execute_script(counted, ".plot [data-line]", ".data tbody tr")
        assert drawn == rows >= len(lines), "the data of the chart as a table, single seeds and their means too"
        driver.execute_script("window.offer = (name, text) => { window.offered = text }")
        driver.execute_script("[...document.querySelectorAll('.data button')].forEach(button => button.click())")
        first = driver.execute_script("return window.offered").splitlines()[1]
        assert first.startswith('"') and first[1] not in "=+-@", "a spreadsheet takes no name of a line for a formula"
        asked = "return performance.getEntriesByType('resource').map(entry => entry.name)"
        assert all(name.startswith(("file:", "data:", "blob:")) for name in driver.execute_script(asked))
    outward = [path.name for path in index.parent.rglob("*.html") if 'src="http' in path.read_text()]
    assert not outward, json.dumps(outward)


@pytest.mark.slow
@needs_chromium
def test_an_axis_of_steps_counts(tmp_path: Path) -> None:
    index = build_site(tmp_path, [load_table("hsg_t1")])
    with browser() as driver:
        opened(driver, index.parent / "hsg_t1" / "index.html")
        for over, whole in {"step": True, "tokens": True, "epoch": False, "seconds": False}.items():
            chosen = f"const box = document.querySelector('.over'); box.value = '{over}'; box.onchange()"
            assert driver.execute_script(f"{chosen}; return document.querySelector('.plot').chart.whole") is whole
        for end in (1, 3, 1000):
            axis = f"return ticks({{ start: 0.5, end: {end} + 0.5, log: false }}, 8, 1)"
            assert all(tick.is_integer() for tick in map(float, driver.execute_script(axis)))


@pytest.mark.slow
@needs_chromium
def test_a_row_that_has_not_learned_is_drawn_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")
    table, data = load_table("highway_t1"), {"source": "files", "sha256": {"test": "t"}, "counting_loss": 1.5}
    put(tmp_path, "tanh", 1, 1.4, data=data)
    put(tmp_path, "sigmoid", 1, 30, data=data)
    index = build_site(tmp_path, [table])
    with browser() as driver:
        opened(driver, index.parent / "highway_t1" / "index.html")
        drawn = "return [...document.querySelectorAll('.plot [data-line]')].map(line => line.dataset.line)"
        assert driver.execute_script(drawn) == [f"{table.row('tanh').label}, seed 1"]
        named = f"{table.row('sigmoid').label} (has not learned)"
        assert named in [name for name, _ in driver.execute_script(LEGEND)]
        driver.execute_script("document.querySelector('.all').click()")
        assert len(driver.execute_script(drawn)) == 2
