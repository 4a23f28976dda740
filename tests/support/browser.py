"""A real browser, for tests of the web site."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

needs_chromium = pytest.mark.skipif(  # CI has a browser and says so; there a missing one is a failure
    not (shutil.which("chromedriver") or "HIGHWAY_BROWSER" in os.environ), reason="needs chromium and chromedriver"
)


@contextmanager
def browser(width: int = 1200, height: int = 900) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    quiet = ("background-networking", "component-update", "sync", "gpu", "quic")
    for word in ("headless=new", "no-sandbox", "no-first-run", *(f"disable-{name}" for name in quiet)):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    try:
        yield driver
        errors = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert errors == [], errors  # there is no error, and everything was loaded
    finally:
        driver.quit()


def opened(driver: Any, path: Path) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(path.as_uri())
    drawn = "every(s => s.hidden || s.offsetParent === null || s.dataset.lines)"
    script = f"return [...document.querySelectorAll('.curves')].{drawn}"
    WebDriverWait(driver, 60).until(lambda _: driver.execute_script(script))


def comes(driver: Any, script: str, value: Any) -> None:
    """Wait until a script returns a value; figures are drawn asynchronously."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 20).until(lambda _: driver.execute_script(script) == value, f"{script}: not {value}")
