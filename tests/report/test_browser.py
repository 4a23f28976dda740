"""The site in a real browser: what a reader sees on the index, and what he does with the chart of a table."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from highway.report.content import Report
from highway.report.overview import overview
from highway.report.site import build_site
from highway.tables.reading import load_table
from tests.support.browser import browser, comes, needs_chromium, opened

AXE = importlib.util.find_spec("axe_playwright_python")  # make setup installs it for its copy of axe-core
SERIOUS = """const done = arguments[0]; axe.run({ preload: false }).then(found => done(found.violations
  .filter(each => ['serious', 'critical'].includes(each.impact))
  .map(each => `${each.id}: ${each.nodes.map(node => node.target).join(', ')}`)))"""
LINES = "return document.querySelector('.plot').data.length"
SHOWN = "return document.querySelector('.plot').data.filter(line => line.visible === true).length"
LAYOUT = "return document.querySelector('.plot').layout"


@pytest.mark.slow
@needs_chromium
def test_what_a_reader_does(tmp_path: Path) -> None:
    tables = [load_table(name) for name in ("highway_t3", "highway_t7", "r_transformer_t2")]
    pages = build_site(tmp_path, tables)
    found = overview(tables, [report for page in pages for report in page.reports])
    folder = tmp_path / "report"
    with browser() as driver:
        opened(driver, folder / "index.html")
        text = driver.execute_script("return document.querySelector('main').innerText")
        assert all(line.found in text and line.sure in text for line in found.outcomes) and len(found.outcomes) == 2
        assert found.sentences[0] in text and found.tried >= 5
        marks = "return document.querySelectorAll('figure circle').length"
        assert driver.execute_script(marks) > 4, "the first claims of two tables, at the budgets with runs"
        axe_finds_nothing_serious(driver)
        opened(driver, folder / "r_transformer_t2" / "index.html")
        lines_are_chosen_and_drawn(driver, pages[2].reports[0])
        axe_finds_nothing_serious(driver)
        asked = "return performance.getEntriesByType('resource').map(entry => entry.name)"
        assert all(name.startswith(("file:", "data:", "blob:")) for name in driver.execute_script(asked))
    with browser(390, 800) as driver:  # a phone
        for page in (folder / "index.html", folder / "r_transformer_t2" / "index.html"):
            opened(driver, page)
            assert driver.execute_script("return document.documentElement.scrollWidth") <= 390, page


def lines_are_chosen_and_drawn(driver: Any, report: Report) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    every = [sample.curves for _, sample in report.collected.runs]
    curves = [sample.curves for row, sample in report.collected.runs if not row.extra]  # extra rows begin hidden
    drawn, validated = (sum(("valid", "nll") in each for each in some) for some in (every, curves))
    assert 21 <= validated <= drawn < len(every)  # two runs diverged before their first validation
    comes(driver, LINES, drawn)
    comes(driver, SHOWN, validated)
    driver.execute_script("document.querySelector('.legend .legendtoggle').dispatchEvent(new MouseEvent('mousedown'))")
    driver.execute_script("document.querySelector('.legend .legendtoggle').dispatchEvent(new MouseEvent('mouseup'))")
    comes(driver, SHOWN, validated - 1)
    metric, over = (Select(box) for box in driver.find_elements(By.CSS_SELECTOR, ".controls select"))
    for axis in ("epoch", "seconds"):
        over.select_by_visible_text(axis)
        comes(driver, f"{LAYOUT}.xaxis.title.text", axis)
    driver.find_element(By.CSS_SELECTOR, ".controls input").click()
    comes(driver, f"{LAYOUT}.yaxis.type", "log")
    metric.select_by_visible_text("training loss (nats)")
    comes(driver, f"{LAYOUT}.yaxis.title.text", "training loss (nats)")
    comes(driver, SHOWN, len(curves) - 1)  # what was hidden stays hidden


def axe_finds_nothing_serious(driver: Any) -> None:
    """Check that people with a screen reader or a keyboard miss nothing on this page."""
    assert AXE and AXE.origin, "make setup installs axe-core"
    driver.set_script_timeout(120)  # a busy machine
    driver.execute_script(Path(AXE.origin).with_name("axe.min.js").read_text())
    assert driver.execute_async_script(SERIOUS) == []
