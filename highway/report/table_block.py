"""A table of texts, as every layout of a report shows it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    texts: tuple[str, ...]
    extra: bool = False  # an extra row, which the paper lacks


@dataclass(frozen=True)
class TableBlock:
    """Lines below heads; `numeric` columns are aligned to the right."""

    title: str
    heads: tuple[str, ...]
    lines: tuple[Line, ...]
    numeric: tuple[str, ...] = ()
    note: str = ""


def without_empty(block: TableBlock) -> TableBlock:
    """Return a block without the columns in which no line has a text."""
    filled = [number for number in range(len(block.heads)) if any(line.texts[number] for line in block.lines)]
    heads = tuple(block.heads[number] for number in filled)
    lines = tuple(Line(tuple(line.texts[number] for number in filled), line.extra) for line in block.lines)
    return TableBlock(block.title, heads, lines, block.numeric, block.note)
