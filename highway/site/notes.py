"""Read what the project's own pages say about a table: findings of the audit, and entries of the log.

A wheel has copies of the two pages; without them, the site leaves these sections out.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from highway.config.home import HOME

DOCS = HOME / "docs"
CELLS = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Finding:
    """A statement of a paper or its code that does not agree with what was computed."""

    stated: str
    computed: str
    command: str


@dataclass(frozen=True)
class LogEntry:
    """An entry of docs/LOG.md, as the page of a table shows it."""

    title: str  # it begins with the date
    conclusion: str


def findings(table_id: str) -> list[Finding]:
    """Return the findings on a table in docs/FINDINGS.md."""
    section = next((text for _, text in sections("FINDINGS.md") if text.lstrip().startswith(f"`{table_id}`")), "")
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]  # below head and rule
    cells = ([plain(cell) for cell in CELLS.split(row)[1:-1]] for row in rows)
    return [Finding(*parts) for parts in cells if len(parts) == 3]


def log_entries(table_id: str) -> list[LogEntry]:
    """Return the entries of docs/LOG.md that name a table, newest first."""
    named = re.compile(rf"(?<![\w-]){re.escape(table_id)}(?![\w-])")
    return [LogEntry(title, conclusion(text)) for title, text in sections("LOG.md") if named.search(text)]


def conclusion(text: str) -> str:
    """Return the conclusion of an entry of the log, or its last paragraph that is no table or command."""
    paragraphs = [part for part in text.strip().split("\n\n") if part and part[0] not in "|`-" and part[-1] != ":"]
    marked = [part for part in paragraphs if part.startswith("**Conclusion")]
    return plain((marked or paragraphs or [""])[-1].removeprefix("**Conclusion.**"))


def plain(markdown: str) -> str:
    """Return a paragraph without the marks of Markdown."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(markdown.split()))
    return re.sub(r"\\(.)", r"\1", re.sub(r"\*\*|`", "", text))


@cache
def sections(name: str) -> list[tuple[str, str]]:
    """Return the title and the text of each section of a page in docs/."""
    path: Path = DOCS / name
    if not path.exists():
        return []
    parts = re.split(r"^## (.*)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))
