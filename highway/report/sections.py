"""A report as data: the sections that the terminal, Markdown, LaTeX, CSV and the site all render.

A section has a key, a title and blocks, in the order in which they are read:

    Paragraph   sentences; code in them is marked
    Grid        heads, and rows of typed cells; a row that is not in the paper is marked as extra
    Notes       a list of short texts
    Picture     a figure, by the name of its file

A cell is a text, `None` (no value: its head says what to print), or

    Number      a value and the format to print it in; maybe a deviation, a mark behind it, or a verdict
    Missing     why there is no number of ours
    Measured    our number beside the paper's, which a renderer prints as one, two or three columns
    Judgement   the verdict on a claim
    Seeds       the runs that a row takes its numbers from

A renderer decides on layout only. It takes no rendered text apart, and it computes nothing.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from highway.errors import counted
from highway.report.answers import Answer
from highway.report.collect import Summary
from highway.report.sample import Sample
from highway.sweep.table import Column, Row

DASH = "—"
COPIED = "†"


@dataclass(frozen=True)
class Code:
    """Text within a sentence that is to be typed as it is."""

    text: str


Sentence = tuple[str | Code, ...]


@dataclass(frozen=True)
class Paragraph:
    sentences: tuple[Sentence, ...]
    style: str = ""  # strong | note

    @classmethod
    def of(cls, *texts: str, style: str = "") -> "Paragraph":
        """Return a paragraph of sentences without code."""
        return cls(tuple((text,) for text in texts), style)


@dataclass(frozen=True)
class Number:
    value: float
    form: str  # format specification: ".3f", "+.3f", ",.0f"
    deviation: float | None = None
    mark: str = ""
    verdict: str = ""

    def text(self, plus_minus: str = "±") -> str:
        """Return the number, its deviation and its mark, without the verdict."""
        return f"{self.value:{self.form}}{self._spread(plus_minus)}{self.mark}"

    def _spread(self, plus_minus: str) -> str:
        """Return the deviation with its sign; one that the digits of the number would round to 0 has one of its own."""
        if self.deviation is None:
            return ""
        text = f"{self.deviation:{self.form}}"
        return f" {plus_minus} {text if self.deviation == 0 or text.strip('0.') else f'{self.deviation:.1g}'}"

    def __str__(self) -> str:
        return f"{self.text()}, {self.verdict}" if self.verdict else self.text()


@dataclass(frozen=True)
class Missing:
    """In place of a number: why there is none."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Measured:
    """One metric of one row: our mean over the seeds, the paper's number, and how both differ from the baseline's."""

    column: Column
    ours: Summary | None
    paper: float | None
    copied: bool = False  # the paper copied its number from another paper
    answer: Answer | None = None  # None with fewer than three seeds, or below the paper's budget
    change_of_ours: float | None = None  # against the row's baseline, at the seeds that both have; None for a baseline
    base_paper: float | None = None
    reason: str = "not run"  # why `ours` is None

    @property
    def our_number(self) -> Number | None:
        ours = self.ours
        return None if ours is None else Number(ours.mean, f".{self.column.digits}f", ours.deviation)

    @property
    def our_cell(self) -> Number | Missing:
        """Our number, or why there is none."""
        return self.our_number or Missing(self.reason)

    @property
    def paper_number(self) -> Number | None:
        mark = COPIED if self.copied else ""
        return None if self.paper is None else Number(self.paper, f".{self.column.digits}f", mark=mark)

    @property
    def difference(self) -> Number | None:
        if self.ours is None or self.paper is None:
            return None
        verdict = str(self.answer) if self.answer else ""
        return Number(self.ours.mean - self.paper, f"+.{self.column.digits}f", verdict=verdict)

    @property
    def change(self) -> Number | None:
        """Our change against the row's baseline, as a share."""
        return None if self.change_of_ours is None else Number(self.change_of_ours, "+.1%")

    @property
    def paper_change(self) -> Number | None:
        """The paper's change against the same row."""
        return Number(self.paper / self.base_paper - 1, "+.1%") if self.paper is not None and self.base_paper else None


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim, which every renderer emphasises."""

    word: str

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True)
class Seeds:
    """The runs of a row: `seeds 1, 2, seed 3 diverged`."""

    samples: tuple[Sample, ...]
    unlearned: tuple[str, ...] = ()  # of each run that finished and has not learned: by how much
    unchecked: int = 0  # runs that finished and cannot be compared with counting

    def __str__(self) -> str:
        if not self.samples:
            return "not run"
        finished = [sample.seed for sample in self.samples if sample.finished]
        diverged = [sample.seed for sample in self.samples if not sample.finished]
        parts = [seeds_text(finished)] if finished else []
        parts += [f"{seeds_text(diverged)} diverged"] if diverged else []
        return ", ".join([*parts, *self.remarks])

    @property
    def remarks(self) -> list[str]:
        """The remarks on runs, such as `seed 2 worse than word frequencies (639; this run 783)`."""
        unchecked = [f"{counted(self.unchecked, 'run')} not compared with counting"] if self.unchecked else []
        return [*self.unlearned, *unchecked]


def seeds_text(seeds: Sequence[int]) -> str:
    """Name seeds in ascending order; a range stands for four or more consecutive ones: `seeds 1, 2, 5-9`."""
    parts: list[str] = []
    for _, group in itertools.groupby(enumerate(seeds), lambda pair: pair[1] - pair[0]):
        consecutive = [seed for _, seed in group]
        parts += [f"{consecutive[0]}-{consecutive[-1]}"] if len(consecutive) > 3 else map(str, consecutive)
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(parts)}"


GridCell = str | Number | Missing | Measured | Judgement | Seeds | None


@dataclass(frozen=True)
class Head:
    title: str
    numeric: bool = False  # aligned to the right
    compared: str = ""  # `Measured` cells also show: paper (the paper's number, the difference), base (both changes)
    missing: str = DASH  # printed for `None`


@dataclass(frozen=True)
class GridRow:
    cells: tuple[GridCell, ...]
    row: Row | None = None  # the row of the table file that it is about

    @property
    def extra(self) -> bool:
        return self.row is not None and self.row.extra


@dataclass(frozen=True)
class Grid:
    heads: tuple[Head, ...]
    rows: tuple[GridRow, ...]

    @property
    def missing_values(self) -> bool:
        """True if a renderer prints a dash for a number that the paper lacks."""
        return any(
            head.compared == "paper" and cell.paper is None
            for row in self.rows
            for head, cell in zip(self.heads, row.cells, strict=True)
            if isinstance(cell, Measured)
        )

    def expanded(self) -> "Grid":
        """Return the grid with numbers in place of measured cells: ours, and in columns of their own what `compared`
        adds to them."""
        heads = tuple(part for head in self.heads for part in _expanded_head(head))
        return Grid(heads, tuple(replace(row, cells=tuple(self._expanded(row))) for row in self.rows))

    def _expanded(self, row: GridRow) -> list[GridCell]:
        return [part for head, cell in zip(self.heads, row.cells, strict=True) for part in _parts(head, cell)]


def grid(heads: Sequence[Head], rows: Sequence[Sequence[GridCell]]) -> Grid:
    """Return a grid whose rows are not rows of a table file."""
    return Grid(tuple(heads), tuple(GridRow(tuple(cells)) for cells in rows))


def _expanded_head(head: Head) -> list[Head]:
    added = {"paper": ("paper", "difference"), "base": ("change", "paper's change")}.get(head.compared, ())
    missing = {"paper": DASH}
    return [replace(head, compared=""), *(Head(title, True, missing=missing.get(title, "")) for title in added)]


def _parts(head: Head, cell: GridCell) -> list[GridCell]:
    if not isinstance(cell, Measured):
        return [cell]
    if head.compared == "base":
        return [cell.our_cell, cell.change, cell.paper_change]
    return [cell.our_cell, cell.paper_number, cell.difference] if head.compared else [cell.our_cell]


@dataclass(frozen=True)
class Notes:
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    name: str  # of its files, without the ending
    caption: str


Block = Paragraph | Grid | Notes | Picture


@dataclass(frozen=True)
class Section:
    key: str  # by which a renderer finds a section; does not depend on the words of the title
    title: str  # empty for the first section
    blocks: tuple[Block, ...]
