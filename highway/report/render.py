"""Lay out a report as Markdown, HTML, LaTeX and CSV, and print it. The same records give the same bytes, on any day."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Table

from highway.ledger.files import write_text
from highway.report.collect import Collected, collect, with_overrides
from highway.report.details import to_csv
from highway.report.evidence import tone
from highway.report.report import Report, build_report
from highway.report.table_block import TableBlock
from highway.sweep.grid import folder_name
from highway.sweep.table import ReportRequest

IN_MARKDOWN = str.maketrans(
    {
        **{character: f"\\{character}" for character in "\\|*~`[]"},
        **{"&": "&amp;", "<": "&lt;", ">": "&gt;", "\n": " "},
    }
)
IN_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        **{"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"},
        **{"<": "\\textless{}", ">": "\\textgreater{}", "—": "--", "†": "\\dag{}", "\n": " "},
        **{"±": "$\\pm$", "…": "\\ldots{}"},
        **{"[": "{[}", "*": "$^*$"},  # a row may begin with them, which LaTeX takes for an argument
    }
)


class Plain(str):
    """A text of a template that is already as its format needs it."""


def to_markdown(report: Report) -> str:
    return _text("report.md", _markdown).render(report=report, markdown=_markdown_block)


def to_latex(report: Report) -> str:
    """Return the one table as a tabular, to be set in a paper."""
    return _text("report.tex", _latex).render(report=report, columns=_latex_columns)


def to_html(report: Report) -> str:
    """Return the report as a part of a page, as notebooks show it."""
    return str(html().get_template("report.html").module.body(report))  # type: ignore[attr-defined]


FILES: dict[str, Callable[[Report], str]] = {
    "table.md": to_markdown,
    "table.csv": lambda report: to_csv(report.collected),
    "table.tex": to_latex,
}


def write_report(collected: Collected, folder: Path, with_figures: bool = True) -> tuple[Report, list[Path]]:
    """Write `FILES` and the figures; return the report and the paths of all files.

    with_figures: False leaves the figures as they were drawn before, since drawing takes most of the time.
    """
    if with_figures and collected.every:
        from highway.report.figures import draw  # matplotlib takes a second to import

        for figure in collected.table.figures:
            draw(figure, collected, folder)
    drawn = [figure for figure in collected.table.figures if (folder / f"{figure.id}.svg").exists()]
    report = build_report(collected, drawn)
    for name, layout in FILES.items():
        write_text(folder / name, layout(report), durable=False)  # it can be made again
    return report, [folder / name for name in (*FILES, *(f"{figure.id}.svg" for figure in drawn))]


class WholeWords(TableElement):
    """A table that breaks a long word at the end of a line, where rich would cut it off."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                for column in table.columns:
                    column.overflow = "fold"
            yield table


class ReportMarkdown(Markdown):
    elements = {**Markdown.elements, "table_open": WholeWords}


def print_report(report: Report, console: Console) -> None:
    console.print(ReportMarkdown(to_markdown(report), hyperlinks=False))


def show_reports(requests: Sequence[ReportRequest], outputs_dir: Path, console: Console) -> list[Report]:
    """Write and print the report of each table and budget that has records; return these reports.

    Overrides of the command line add extra rows, and the report goes into a folder that is named after them.
    """
    reports = []
    for table, budget, overrides in requests:
        folder = outputs_dir / "report" / table.id / budget
        table = with_overrides(table, [budget], overrides)
        if overrides:
            folder /= folder_name(" ".join(("with", *overrides)))
        collected = replace(collect(table, budget, outputs_dir), only_run=bool(overrides))
        if collected.every:
            report, paths = write_report(collected, folder)
            reports.append(report)
            print_report(report, console)
            for path in paths:
                console.print(str(path), soft_wrap=True, markup=False, highlight=False)
    return reports


def first_sentence(text: str) -> str:
    """Return the first sentence of a conclusion."""
    return re.split(r"(?<=[.!?]) (?=[A-Z])", text)[0]


@cache
def html() -> Environment:
    """Return the templates of pages."""
    environment = Environment(loader=PackageLoader("highway.report"), autoescape=True, **OPTIONS)
    environment.filters |= {"tone": tone, "mark": mark, "first_sentence": first_sentence}
    return environment


OPTIONS: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}


@cache
def _text(template: str, escaped: Callable[[str], str]) -> Any:
    """Return a template whose texts are escaped as its format needs it."""

    def finalize(value: object) -> object:
        return value if isinstance(value, Plain) else escaped(str(value))

    environment = Environment(loader=PackageLoader("highway.report"), finalize=finalize, **OPTIONS)
    environment.filters |= {"plain": Plain, "escaped": escaped, "code": _code, "line": _line}
    return environment.get_template(template)


def mark(word: str) -> str:
    """Return a sign for the tone of a verdict, so that colour is not its only sign."""
    return {"for": "✓", "against": "✗", "open": "·"}[tone(word)] if word else ""


def _markdown(text: str) -> str:
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text.translate(IN_MARKDOWN))  # within a word it is plain


def _latex(text: str) -> str:
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", text.translate(IN_LATEX))  # a minus, not a hyphen


def _code(text: str) -> Plain:
    return Plain(f"`{_line(text).replace('`', '')}`")


def _line(text: str) -> Plain:
    """Return a text as one line."""
    return Plain(" ".join(text.split()))


def _markdown_block(block: TableBlock) -> Plain:
    rows = [
        [_markdown(head) for head in block.heads],
        ["---:" if head in block.numeric else "---" for head in block.heads],
    ]
    rows += [
        [_emphasised(head, text, line.extra) for head, text in zip(block.heads, line.texts, strict=True)]
        for line in block.lines
    ]
    table = [f"|{'|'.join(texts)}|" for texts in rows]
    return Plain("\n".join([*table, *(["", _markdown(block.note)] if block.note else []), ""]))


def _emphasised(head: str, text: str, extra: bool) -> str:
    """Return a cell: the label of an extra row is slanted, a verdict bold."""
    if not text:
        return ""
    mark = {"model": "*" if extra else "", "verdict": "**"}.get(head, "")
    return f"{mark}{_markdown(text)}{mark}"


def _latex_columns(block: TableBlock) -> Plain:
    return Plain("{" + "".join("r" if head in block.numeric else "l" for head in block.heads) + "}")
