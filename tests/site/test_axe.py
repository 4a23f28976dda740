"""Every kind of page in a real browser with axe-core, which finds what people with a screen reader or keyboard miss."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from highway.site.build import build_site
from highway.sweep.reading import load_table
from tests.support.browser import browser, comes, needs_chromium, opened
from tests.support.tables import many_cells

AXE = importlib.util.find_spec("axe_playwright_python")  # make setup installs it for its copy of axe-core
SERIOUS = """const done = arguments[0]; axe.run({ preload: false }).then(found => done(found.violations
  .filter(each => ['serious', 'critical'].includes(each.impact))
  .map(each => `${each.id}: ${each.nodes.map(node => node.target).join(', ')}`)))"""


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("width", [390, 1440])
def test_axe_finds_nothing_serious(tmp_path: Path, width: int) -> None:
    assert AXE and AXE.origin, "make setup installs axe-core"
    axe = Path(AXE.origin).with_name("axe.min.js").read_text()
    tables = [load_table(name) for name in ("r_transformer_t2", "highway_t5", "highway_t6")]
    folder = build_site(tmp_path, [*tables, many_cells(tmp_path, rows=3, seeds=2, points=5)]).parent
    runs = sorted(path.stem for path in (folder / "cells").glob("transformer-*.html"))
    pages = ["index", *(f"{table.id}/index" for table in tables), "many/index", f"cells/{runs[0]}", "across"]
    found: dict[str, Any] = {}
    with browser(width) as driver:
        for scheme in ("light", "dark"):
            media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            for name in pages:
                opened(driver, folder / f"{name}.html")
                driver.execute_script(axe)
                found[f"{name}, {scheme}"] = driver.execute_async_script(SERIOUS)
            driver.get((folder / "compare.html").as_uri() + f"#{runs[0]},{runs[1]}")
            comes(driver, "return document.querySelectorAll('.chosen li').length", 2)
            driver.execute_script(axe)
            found[f"compare, {scheme}"] = driver.execute_async_script(SERIOUS)
            driver.get("about:blank")  # else the next address differs in nothing but its fragment
    assert {name: each for name, each in found.items() if each} == {}
