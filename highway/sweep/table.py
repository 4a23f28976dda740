"""Tables as data: the classes whose fields are the keys of a file in conf/table/.

Sweeps, make targets, reports and figures all derive from these files. highway/sweep/reading.py refuses any other key.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from highway.config.metrics import METRICS
from highway.config.schema import Pattern, Range
from highway.errors import Refused, closest, listing
from highway.sweep.choose import Choose, Combination, key_of

AXES = ("epoch", "step", "seconds", "tokens")  # horizontal axes of curves
LONGEST_ID = 200  # characters
FileName = Annotated[
    str, Pattern(rf"[\w=+][\w.=,+-]{{0,{LONGEST_ID - 1}}}", "a name of letters, digits and . = , + - _")
]
Override = Annotated[str, Pattern(r"\+{0,2}[A-Za-z_][\w.]*=.*", "an override, as in gate=sdu_tanh")]
Names = str | tuple[str, ...]  # one row, several, or `all` or `rest`
Share = Annotated[float, Range(0, 10)]
PLACEHOLDER = r"\{([^{}]*)\}"  # in a finding: {row.metric}, or {row.metric.paper}
PARTS_OF_NUMBERS = ("mean", "n", "paper", "change")  # what a placeholder may name; else the mean and its deviation
CLAIMS = ("better", "sooner", "at_most", "growing", "unrelated", "opposed")


UNWRITTEN: dict[str, Any] = {"written": None}  # of a field that no file sets


@dataclass(frozen=True)
class Row:
    """A row of a table, as a user reads it (label) and as it is trained (overrides)."""

    id: FileName
    label: str
    overrides: tuple[Override, ...]
    paper: dict[str, float] = field(default_factory=dict)
    reported: str = ""  # its name in tests/fixtures/reported.yaml
    copied: str = ""  # the source from which the paper has copied its numbers
    at_budget: dict[str, tuple[Override, ...]] = field(
        default_factory=dict
    )  # budget -> its further overrides for this row
    budgets: tuple[str, ...] = ()  # budgets that have this row; empty: all
    disputed: str = ""  # why the paper's numbers of this row are not of this row
    choose: Choose | None = field(
        default=None, metadata={"written": dict[str, Any]}
    )  # settings that validation chooses
    chosen: dict[str, tuple[Override, ...]] = field(default_factory=dict)  # budget -> what was chosen there
    extra: bool = field(default=False, metadata=UNWRITTEN)  # True for an extra row, which the paper lacks
    added: tuple[str, ...] = field(default=(), metadata=UNWRITTEN)  # overrides of the command line

    def with_added(self, overrides: Sequence[str]) -> "Row":
        """Return this row with overrides of the command line, as an extra row."""
        added = " ".join(overrides)
        label = f"{self.label}, {added}"
        typed = self.choose and {*map(key_of, overrides)} & {*self.choose.keys}
        return replace(
            self,
            id=f"{self.id},{added}",
            label=label,
            paper={},
            extra=True,
            added=tuple(overrides),
            choose=None if typed else self.choose,
        )

    def at(self, budget: str) -> bool:
        """Return whether a budget has this row."""
        return not self.budgets or budget in self.budgets

    def choice(self, budget: str) -> Combination:
        """Return the settings that are chosen at a budget; until something is chosen, the first combination."""
        return self.chosen.get(budget, self.choose.combinations[0]) if self.choose else ()

    def sets(self, key: str) -> str | None:
        """Return the value to which the row itself sets a key, or None."""
        return next((override.split("=", 1)[1] for override in self.overrides if override.startswith(f"{key}=")), None)


@dataclass(frozen=True)
class Column:
    """A column shows a metric; the metric's card says which direction is better, and gives the default title."""

    metric: str
    title: str = ""
    digits: int = field(default=-1, metadata={"written": Annotated[int, Range(0, 10)]})
    printed: str = ""  # the paper's name for it, if the paper calls it something else

    @property
    def better(self) -> str:
        return METRICS[self.metric].better

    def text(self, value: float) -> str:
        """Return a value with the column's digits."""
        return f"{value:.{self.digits}f}"

    @classmethod
    def of(cls, metric: str, title: str = "", digits: int = -1, printed: str = "") -> "Column":
        """Make a column; the metric's card supplies the title and digits that are not given."""
        card = METRICS[metric]
        return cls(metric, title or card.full_title, card.digits if digits < 0 else digits, printed)


@dataclass(frozen=True)
class Claim:
    """A claim of a paper about rows, tested on `metric`.

    These compare each of `rows` with each of `than` (`paired`: with the one at its place); every pair has to hold:
    better: `rows` has the better value.   at_most: the value of `rows` is at most `share` above that of `than`.
    sooner: `rows` is as good as every run of `than` at its end in fewer steps.

    growing: pair by pair in the given order, the advantage of `rows` over `than` becomes larger.

    These rank `rows` by `metric` and by the metric `to`, and test Kendall's tau:
    unrelated: the two orders agree no more than by chance.   opposed: they are opposite, more than by chance.
    """

    text: str
    kind: str  # one of CLAIMS
    rows: tuple[str, ...]
    than: tuple[str, ...]
    metric: str
    share: float = 0.0
    to: str = ""
    paired: bool = False

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of rows that are compared; those of a growth are in order."""
        if self.paired or self.kind == "growing":
            return list(zip(self.rows, self.than, strict=True))
        return list(itertools.product(self.rows, self.than))


@dataclass(frozen=True)
class WrittenClaim:
    """A claim as a file has it: exactly one of the kinds, with its rows."""

    text: str
    metric: str
    better: Names | None = None
    sooner: Names | None = None
    at_most: Names | None = None
    growing: Names | None = None
    unrelated: Names | None = None
    opposed: Names | None = None
    than: Names = ()
    share: Share = 0.0
    to: str = ""
    paired: bool = False


@dataclass(frozen=True)
class Stated:
    """A statement of the paper's text or code about rows, which `highway audit` compares with the table and models.

    It has one of these. `value`: the value of `metric`. `percent`: by how much `metric` exceeds that of the partner in
    `than`, averaged over the rows. `worse`: each row is worse than its partner in `than`. `parameters`: size of the
    models. `built`: the parameters that the released code builds, used or not. `words`: overrides for the settings
    that the text gives.
    """

    text: str
    rows: tuple[str, ...]
    than: tuple[str, ...] = ()
    metric: str = ""
    value: float | None = None
    percent: float | None = None
    worse: bool = False
    parameters: Annotated[float, Range(0)] | None = None
    built: Annotated[int, Range(0)] | None = None
    words: tuple[Override, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A figure of a table, of one of these kinds.

    curves: a panel for each metric and split.   biases: a row's transform-gate biases, as a map and as points.
    times: every round of a timed table, by row.   scatter: rows as points, the first metric over the second.
    bars: the rows of each group beside those of the others.   series: each group's rows as a line over the key `along`.
    lengths: a histogram of the lengths of training sentences.   gate_values: histograms of state gates.
    gradients: gradient norms by distance, for each group.
    """

    id: FileName
    caption: str
    kind: str = "curves"
    metrics: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()  # empty: all
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)  # name -> rows
    along: str = ""  # for series: a key that each of their rows sets
    over: str = "epoch"  # one of AXES
    logs: bool = False  # True: also show the authors' curves, if outputs/reference/series has them


@dataclass(frozen=True)
class Table:
    """A table: rows that are trained, and what the report shows of them. It is the paper's, or a user's."""

    id: FileName
    caption: str
    recipe: tuple[Override, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]  # the paper's rows first, then the extra rows
    budgets: dict[str, tuple[str, ...]] = field(metadata={"written": dict[str, tuple[Override, ...] | None]})
    paper: str = ""  # the paper whose table it is; empty: a user's table
    reported: str = ""  # its name in tests/fixtures/reported.yaml
    note: str = ""
    command: str = ""  # of a grid: how it was typed
    project: str = ""  # of a grid: the package of the project in which it was typed
    finding: dict[str, str] = field(default_factory=dict)  # budget -> the conclusion of its report (report/finding.py)
    choices: tuple[str, ...] = ()  # sentences: where the paper and its code are silent or disagree, and our choice
    select: Literal["best", "last"] = "best"  # best | last: the checkpoint whose test result is the number
    claims: tuple[Claim, ...] = field(default=(), metadata={"written": tuple[WrittenClaim, ...]})
    figures: tuple[Figure, ...] = ()
    rounds: Annotated[int, Range(0, 10_000)] = 0  # above 0: the rows are timed in interleaved rounds, not trained
    also: tuple[Column, ...] = ()  # columns of the report that the paper lacks
    stated: tuple[Stated, ...] = ()  # statements of the paper that the audit compares with the table
    against: dict[str, tuple[str, ...]] = field(  # baseline -> its rows; empty: the first row
        default_factory=dict, metadata={"written": dict[str, Names]}
    )
    choose: Choose | None = field(  # of each row of the paper that has none of its own
        default=None, metadata={"written": dict[str, Any]}
    )

    @property
    def heading(self) -> str:
        return f"{self.id}: {self.caption}{f' ({self.paper})' if self.paper else ''}"

    @property
    def timed(self) -> bool:
        """True if the rows are timed (highway/timing.py), and not trained."""
        return self.rounds > 0

    def time_command(self, budget: str) -> str:
        """Return the command that times the rows."""
        return f"highway table time {self.id} --budget {budget}"

    def row(self, row_id: str) -> Row:
        for row in self.rows:
            if row.id == row_id:
                return row
        known = [row.id for row in self.rows]
        raise Refused(f"{self.id} has no row '{row_id}'; it has {listing(known)}.{closest(row_id, known)}")

    def base(self, row_id: str) -> str | None:
        """Return the id of the row that a row is compared with; None for a baseline."""
        if not self.against:
            return self.rows[0].id if row_id != self.rows[0].id else None
        return next((base for base, rows in self.against.items() if row_id in rows), None)

    def beside(self, row_id: str) -> Row:
        """Return the row beside which a row is explained: its baseline; the first row for one that has none."""
        return self.row(self.base(row_id) or self.rows[0].id)

    @property
    def headline(self) -> str:
        """The metric by which rows are compared: that of the first claim, or of the first column on the test split."""
        shown = [column.metric for column in self.columns]
        tested = [metric for metric in shown if METRICS[metric].split in ("test", None)]
        return self.claims[0].metric if self.claims else (tested or shown)[0]

    def number_named(self, name: str) -> tuple[Row, str, str]:
        """Return the row, the metric and the part (one of PARTS_OF_NUMBERS or "") that a placeholder names."""
        stem, _, part = name.rpartition(".")
        if part not in PARTS_OF_NUMBERS:
            stem, part = name, ""
        for row in self.rows:
            if stem.startswith(f"{row.id}.") and (metric := stem.removeprefix(f"{row.id}.")) in METRICS:
                return row, metric, part
        listed = listing(list(PARTS_OF_NUMBERS))
        raise Refused(f"{{{name}}} names no number. Write {{row.metric}}, or {{row.metric.part}} with one of {listed}.")

    def digits(self, metric: str) -> int:
        """Return with how many digits our values of a metric are shown: a paper may print more than seeds agree on."""
        shown = {column.metric: column.digits for column in (*self.columns, *self.also)}
        return min(shown.get(metric, METRICS[metric].digits), METRICS[metric].digits)

    def at(self, budget: str) -> list[Row]:
        """List the rows that a budget has."""
        return [row for row in self.rows if row.at(budget)]

    @property
    def usual_budget(self) -> str:
        """The budget that commands show unless they name one."""
        return "paper" if "paper" in self.budgets else next(iter(self.budgets))

    def overrides(self, row: Row, budget: str, seed: int) -> list[str]:
        """Return the overrides of a run, in order: recipe, row, choice, budget, row at the budget, command line."""
        if budget not in self.budgets:
            raise Refused(f"{self.id} has no budget '{budget}'; it has {listing(list(self.budgets))}.")
        if not row.at(budget):
            raise Refused(f"{self.id} has row '{row.id}' at budget {listing(list(row.budgets))} only.")
        smaller = [*self.budgets[budget], *row.at_budget.get(budget, ())]
        own = [*self.recipe, *row.overrides, *row.choice(budget), *smaller]
        return last_on_each_key([*own, f"budget={budget}", f"seed={seed}", *row.added])


ReportRequest = tuple[
    Table, str, tuple[str, ...]
]  # what a report shows: table, budget, overrides from the command line


def last_on_each_key(overrides: Sequence[str]) -> list[str]:
    """Drop repeated keys from overrides: the last override of a key counts, in its place."""
    last: dict[str, str] = {}
    for override in overrides:
        key = override.split("=", 1)[0]
        last.pop(key, None)
        last[key] = override
    return list(last.values())
