"""Lay out a report as Markdown, HTML and LaTeX. The same records give the same bytes, on any day."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from highway.report.content import Report
from highway.report.table_block import TableBlock
from highway.report.verdicts import tone

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
    return _tabular(report, report.results)


def effects_to_latex(report: Report) -> str:
    """Return the effects as a tabular; empty if none has run."""
    return _tabular(report, report.effects) if report.effects.lines else ""


def _tabular(report: Report, block: TableBlock) -> str:
    return str(_text("report.tex", _latex).render(report=report, block=block, columns=_latex_columns(block)))


def to_html(report: Report) -> str:
    """Return the report as a part of a page, as notebooks show it."""
    return str(html().get_template("report.html").module.body(report))  # type: ignore[attr-defined]


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
