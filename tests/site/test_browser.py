"""The site in a real browser: what a reader does on the overview, on a table's page and with a comparison."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from highway.report.collect import collect
from highway.report.overview import overview
from highway.report.report import build_report
from highway.site.build import build_site
from highway.sweep.reading import load_table
from tests.support.browser import CUT_OFF, browser, comes, needs_chromium, opened

AXE = importlib.util.find_spec("axe_playwright_python")  # make setup installs it for its copy of axe-core
SERIOUS = """const done = arguments[0]; axe.run({ preload: false }).then(found => done(found.violations
  .filter(each => ['serious', 'critical'].includes(each.impact))
  .map(each => `${each.id}: ${each.nodes.map(node => node.target).join(', ')}`)))"""
LINES = """return [...document.querySelectorAll('.plot [data-line]')]
  .map(line => [line.dataset.line.replace(/, [^,]*$/, ''), line.getAttribute('stroke-dasharray') ?? 'none'])"""
LEGEND = """return [...document.querySelectorAll('.toggles label')]
  .map(label => [label.textContent.trim(), label.querySelector('line').getAttribute('stroke-dasharray')])"""
NAMES = "[...document.querySelectorAll('.plot [data-line]')].map(line => line.dataset.line.replace(/, [^,]*$/, ''))"
ROWS = f"return new Set({NAMES}).size"  # of one seed or several


@pytest.mark.slow
@needs_chromium
def test_what_a_reader_does(tmp_path: Path) -> None:
    tables = [load_table(name) for name in ("highway_t5", "highway_t3", "r_transformer_t2")]
    folder = build_site(tmp_path, tables).parent
    reports = [build_report(collect(table, budget, tmp_path)) for table in tables for budget in ("paper", "mini")]
    expected = overview(tables, [report for report in reports if report.collected.every])
    with browser() as driver:
        opened(driver, folder / "index.html")
        numbers_are_those_of_the_records(driver, expected.words)
        budgets_are_filtered(driver)
        axe_finds_nothing_serious(driver)
        opened(driver, folder / "highway_t5" / "index.html")
        lines_are_chosen_and_drawn(driver)
        columns_are_sorted(driver)
        axe_finds_nothing_serious(driver)
        opened(driver, folder / "r_transformer_t2" / "index.html")
        rows_are_compared(driver)
        axe_finds_nothing_serious(driver)
        asked = "return performance.getEntriesByType('resource').map(entry => entry.name)"
        assert all(name.startswith(("file:", "data:", "blob:")) for name in driver.execute_script(asked))
    with browser(390, 800) as driver:  # a phone
        for page in (folder / "index.html", folder / "highway_t5" / "index.html"):
            opened(driver, page)
            assert driver.execute_script("return document.documentElement.scrollWidth") <= 390, page
            assert driver.execute_script(CUT_OFF) == [], page


def numbers_are_those_of_the_records(driver: Any, words: dict[str, int]) -> None:
    tiles = "[...document.querySelectorAll('[data-word] dd')].map(d => [d.parentNode.dataset.word, +d.innerText])"
    assert dict(driver.execute_script(f"return {tiles}")) == words


def budgets_are_filtered(driver: Any) -> None:
    chosen(driver, "[data-filter=budget]", "paper")
    rows = "[...document.querySelectorAll('tr[data-budget]')]"
    shown = driver.execute_script(f"return {rows}.filter(row => !row.hidden).map(row => row.dataset.budget)")
    whole = driver.execute_script(f"return {rows}.map(row => row.dataset.budget)")
    assert shown == ["paper"] * whole.count("paper") and shown


def lines_are_chosen_and_drawn(driver: Any) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    lines = dict(driver.execute_script(LINES))
    assert lines == {name: dash for name, dash in driver.execute_script(LEGEND) if name in lines} and lines
    drawn = driver.execute_script(ROWS)
    driver.find_elements(By.CSS_SELECTOR, ".toggles input")[0].send_keys(Keys.SPACE)  # by keyboard
    comes(driver, ROWS, drawn - 1)
    for button, count in ((".none", 0), (".all", 15)):  # eleven rows, and four extra rows with the baseline's run
        driver.find_element(By.CSS_SELECTOR, button).click()
        comes(driver, ROWS, count)
    for over, title in (("seconds", "seconds of training"), ("epoch", "epoch"), ("tokens", "tokens read")):
        chosen(driver, ".over", over)
        comes(driver, "return document.querySelector('.plot').chart.over", title)
    driver.find_element(By.CSS_SELECTOR, ".log").click()
    comes(driver, "return document.querySelector('.plot').y.log", True)
    chosen(driver, ".metric", "training bits per character")
    comes(driver, "return document.querySelector('.plot').chart.title", "training bits per character")
    tail = "document.querySelector('.plot').chart.lines[0].y.slice(-20)"
    spread = f"return Math.max(...{tail}) - Math.min(...{tail})"
    rough = driver.execute_script(spread)
    driver.find_element(By.CSS_SELECTOR, ".smooth").send_keys(Keys.END)
    comes(driver, f"{spread} < {rough} / 3", True)
    driver.execute_script("document.querySelector('.data summary').click()")
    driver.execute_script("document.querySelector('.data').open = true")
    counted = "return [...arguments].map(found => document.querySelectorAll(found).length)"
    drawn, rows = driver.execute_script(counted, ".plot [data-line]", ".data tbody tr")
    assert drawn == rows, "the chart as a table"


def columns_are_sorted(driver: Any) -> None:
    from selenium.webdriver.common.by import By

    driver.find_element(By.CSS_SELECTOR, ".unfold button").click()
    buttons = driver.find_elements(By.CSS_SELECTOR, "table.results th button")
    buttons[-3].click()
    cells = f"r => r.cells[{len(buttons) - 3}].textContent"
    column = driver.execute_script(f"return [...document.querySelector('table.results').tBodies[0].rows].map({cells})")
    values = [float(text.rstrip("%")) for text in column if text not in ("", "—")]
    assert values == sorted(values) and len(values) > 10  # rows without a value come last
    assert driver.execute_script("return document.querySelectorAll('[aria-sort=ascending]').length") == 1


def rows_are_compared(driver: Any) -> None:
    for label in ("RNN", "TCN"):  # rows with several seeds
        box = f"[data-budget=paper] [aria-label='compare {label}']"
        driver.execute_script(f'document.querySelector("{box}").click()')
    driver.execute_script("document.querySelector('.picked a').click()")
    comes(driver, "return document.querySelectorAll('.chosen li').length", 2)
    comes(driver, "return document.querySelectorAll('.plot [data-line$=\"mean\"]').length", 2)
    cells = "return [...document.querySelectorAll('.metrics tr')].map(row => [...row.cells].map(c => c.innerText))"
    head, *rows = driver.execute_script(cells)
    assert len(head) == 3 and all("±" in cell for name, *values in rows if name == "test_nll" for cell in values)
    settings = "[...document.querySelectorAll('.settings th[scope=row]')].map(head => head.innerText)"
    differing = driver.execute_script(f"return {settings}")
    assert "model.name" in differing and "dataset.name" not in differing
    seeds = [
        {"name": name, "splits": {"valid": {"step": [1], "epoch": [1], "seconds": [1], "tokens": [1], "loss": [loss]}}}
        for name, loss in (("seed 1", 2), ("seed 2", 4), ("seed 3, diverged", 99))
    ]
    mean = driver.execute_script("return meanOf(arguments[0], {split: 'valid', kind: 'loss'})", seeds)
    assert mean["valid"]["loss"] == [3], "a run that diverged is not in the mean"


def chosen(driver: Any, box: str, text: str) -> None:
    """Choose an entry of a list of the page."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    Select(driver.find_element(By.CSS_SELECTOR, box)).select_by_visible_text(text)


def axe_finds_nothing_serious(driver: Any) -> None:
    """Check that people with a screen reader or a keyboard miss nothing on this page."""
    assert AXE and AXE.origin, "make setup installs axe-core"
    driver.set_script_timeout(120)  # a busy machine
    driver.execute_script(Path(AXE.origin).with_name("axe.min.js").read_text())
    assert driver.execute_async_script(SERIOUS) == []
