"""How long a page of 200 runs takes until its DOM is ready, on an idle machine: python -m tests.site.ready"""

import statistics
import sys
import tempfile
from pathlib import Path

from highway.site.build import build_site
from tests.support.browser import browser, opened
from tests.support.tables import many_cells

MOST = 1500  # milliseconds
LOADS = 5
READY = "return performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, browser() as driver:
        table = many_cells(Path(folder), rows=50, seeds=4, points=1000)
        page = build_site(Path(folder), [table]).parent / table.id / "index.html"
        times = []
        for _ in range(LOADS):
            opened(driver, page)
            times.append(driver.execute_script(READY))
    median = statistics.median(times)
    print(f"DOM ready, 200 runs: {', '.join(f'{time:.0f}' for time in times)} ms; median {median:.0f}, bound {MOST}")
    return int(median > MOST)


if __name__ == "__main__":
    sys.exit(main())
