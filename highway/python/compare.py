"""The report of a table as an object that prints as text and is shown by a notebook as HTML."""

import io
from dataclasses import dataclass

from rich.console import Console

from highway.config import project
from highway.config.home import outputs_folder
from highway.report.collect import collect
from highway.report.content import Report, build_report
from highway.report.details import to_csv
from highway.report.render import to_html, to_latex, to_markdown
from highway.report.write import print_report
from highway.tables.reading import find

WIDTH = 120  # characters of a line of text


@dataclass(frozen=True)
class Comparison:
    """A table's numbers beside the paper's, and the verdicts. `report` holds all of it as data."""

    report: Report

    def __str__(self) -> str:
        text = io.StringIO()
        print_report(self.report, Console(file=text, width=WIDTH))
        return text.getvalue()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return to_html(self.report)

    def to_markdown(self) -> str:
        return to_markdown(self.report)

    def to_csv(self) -> str:
        return to_csv(self.report.collected)

    def to_latex(self) -> str:
        return to_latex(self.report)


def compare(table: str, budget: str | None = None) -> Comparison:
    """Return the report of a table or grid: it prints as text, and a notebook shows it as HTML."""
    project.load()
    outputs = outputs_folder()
    loaded = find(table, outputs)
    return Comparison(build_report(collect(loaded, budget or loaded.usual_budget, outputs)))
