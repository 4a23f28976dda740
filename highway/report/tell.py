"""The comparison at the end of a sweep, and where it lies."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from highway.report.collect import beside, collect
from highway.report.terminal import print_report
from highway.report.write import write_report
from highway.sweep.table import Told


def tell(told: Sequence[Told], outputs_dir: Path, console: Console) -> int:
    """Write and print each that has records; how many have."""
    count = 0
    for table, budget, words in told:
        folder = outputs_dir / "report" / table.id / budget
        if words:
            table, folder = (
                beside(table, budget, words),
                folder / re.sub(r"[^\w.=,+-]+", "_", " ".join(("with", *words))),
            )
        collected = replace(collect(table, budget, outputs_dir), only_run=bool(words))
        if collected.every:
            count += 1
            report, paths = write_report(collected, folder)
            print_report(report, console)
            for path in paths:
                console.print(str(path), soft_wrap=True, markup=False, highlight=False)
    return count
