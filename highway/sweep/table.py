"""A table is data: one YAML file in conf/table/ from which sweeps, make targets, reports and figures all come.

What it may say stands in the classes here, and nothing else is taken (highway/sweep/reading.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from highway.config.metrics import METRICS
from highway.errors import Refused, closest, listing

AXES = ("epoch", "step", "seconds", "tokens")  # what curves may be drawn over
CLAIMS = ("better", "sooner", "within", "growing", "unrelated", "opposed")


@dataclass(frozen=True)
class Row:
    id: str
    label: str
    overrides: tuple[str, ...]
    paper: dict[str, float] = field(default_factory=dict)
    reported: str = ""  # what papers/reported.yaml calls it
    copied: str = ""  # from where the paper has copied its numbers
    shrunk: dict[str, tuple[str, ...]] = field(default_factory=dict)  # budget -> what it changes in this row besides
    budgets: tuple[str, ...] = ()  # none: all
    arm: bool = False  # a row that the paper lacks

    def sets(self, key: str) -> str | None:
        """What the row itself sets a key to."""
        return next((word.split("=", 1)[1] for word in self.overrides if word.startswith(f"{key}=")), None)


@dataclass(frozen=True)
class Column:
    """A metric; its card says which way is better, and what is not said here."""

    metric: str
    title: str = ""
    digits: int = -1
    printed: str = ""  # what the paper calls it, where it is something else

    @property
    def better(self) -> str:
        return METRICS[self.metric].better

    @classmethod
    def of(cls, metric: str, title: str = "", digits: int = -1, printed: str = "") -> "Column":
        card = METRICS[metric]
        return cls(metric, title or card.title, card.digits if digits < 0 else digits, printed)


@dataclass(frozen=True)
class Claim:
    """Every one of `rows` compared with every one of `than` on `metric`; the least favourable pair counts.

    better: a better value.   sooner: at than's final value in fewer steps.   within: at most `share` above than's.

    Or the first of `rows` with the first of `than`, and so on:
    growing: each of these advantages is larger than the one before.

    Or, over `rows` alone, of `metric` and the metric `to`, by Kendall's tau:
    unrelated: no more in one order than chance would have it.   opposed: in opposite orders, more than by chance.
    """

    text: str
    kind: str  # one of CLAIMS
    rows: tuple[str, ...]
    than: tuple[str, ...]
    metric: str
    share: float = 0.0
    to: str = ""


@dataclass(frozen=True)
class Stated:
    """What the paper's text, or its code, says of rows: scripts/audit.py holds it against the table and the models.

    One of: `value` of a metric; `percent` by which it is above that of `than`, in the mean over the rows, or below;
    `worse`, each row than its own of `than`; `parameters` of the models; `built`, the parameters that released code
    builds, used or not; `words`, settings that the text would have.
    """

    text: str
    rows: tuple[str, ...]
    than: tuple[str, ...] = ()
    metric: str = ""
    value: float | None = None
    percent: float | None = None
    worse: bool = False
    parameters: float | None = None
    built: int | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """curves: a panel for each metric and split; biases: those of a row's transform gates, as a map and scattered;
    times: every round of a timing, by row; scatter: rows as points, of the first metric over the second; bars: the rows
    of each group beside those of the others; series: each group's rows as a line over the key `along`; lengths: those
    of the training sentences; gate_values: histograms of state gates; gradients: how far they reach, by group."""

    id: str
    caption: str
    kind: str = "curves"  # one of these
    metrics: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()  # none: all
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)  # name -> rows
    along: str = ""  # of series: a key that each of their rows sets
    over: str = "epoch"  # one of AXES
    logs: bool = False  # with the authors' own curves below, where outputs/reference/series has them


@dataclass(frozen=True)
class Table:
    id: str
    caption: str
    recipe: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]  # the paper's rows first, then the arms
    budgets: dict[str, tuple[str, ...]]
    paper: str = ""  # whose table it is; none: one's own
    reported: str = ""  # which table of papers/reported.yaml
    note: str = ""
    choices: tuple[str, ...] = ()  # what the paper and its code leave open or contradict, and what we take
    select: str = "best"  # best | last: which of the two tested models gives the number
    claims: tuple[Claim, ...] = ()
    figures: tuple[Figure, ...] = ()
    reaches: str | None = None  # of each row is told when it first has the first row's final value of this metric
    ranked_by: str | None = None  # the column on which the order of the rows is compared with the paper's
    kind: str = "training"  # training: a cell a row | timing: all rows in one cell, in interleaved rounds
    rounds: int = 0  # of a timing
    also: tuple[Column, ...] = ()  # what the report tells beside the paper's columns
    stated: tuple[Stated, ...] = ()  # what the audit holds against the table
    bootstrap: dict[str, tuple[str, ...]] = field(default_factory=dict)  # row -> those compared with it by sentences

    @property
    def heading(self) -> str:
        return f"{self.id}: {self.caption}{f' ({self.paper})' if self.paper else ''}"

    def row(self, row_id: str) -> Row:
        for row in self.rows:
            if row.id == row_id:
                return row
        known = [row.id for row in self.rows]
        raise Refused(f"{self.id} has no row '{row_id}'; it has {listing(known)}.{closest(row_id, known)}")

    def at(self, budget: str) -> list[Row]:
        """The rows that a budget has."""
        return [row for row in self.rows if not row.budgets or budget in row.budgets]

    def overrides(self, row: Row, budget: str, seed: int) -> list[str]:
        """Recipe, then row, then budget, first in all rows, then in this one: the words after `train.py`."""
        if budget not in self.budgets:
            raise Refused(f"{self.id} has no budget '{budget}'; it has {listing(list(self.budgets))}.")
        if row not in self.at(budget):
            raise Refused(f"{self.id} has row '{row.id}' at budget {listing(list(row.budgets))} only.")
        smaller = [*self.budgets[budget], *row.shrunk.get(budget, ())]
        return last_on_each_key([*self.recipe, *row.overrides, *smaller, f"budget={budget}", f"seed={seed}"])


Told = tuple[Table, str, tuple[str, ...]]  # a table at a budget, and the words that the command line adds


def last_on_each_key(words: Sequence[str]) -> list[str]:
    """Override words without repetition: the last word on a key counts."""
    return list({word.split("=", 1)[0]: word for word in words}.values())
