"""Tables as data: the models whose fields are the keys of a file in conf/table/.

Sweeps, make targets, reports and figures all derive from these files, which highway/sweep/reading.py reads. A model
refuses what is wrong within itself; reading.py also refuses what does not fit together in a table.
"""

import itertools
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from highway.config.keys import Written, choice, key, matching, number
from highway.config.metrics import KINDS, METRICS, SPLITS
from highway.config.mistakes import bounds
from highway.errors import Refused, closest, listing
from highway.sweep.choose import Choose, Combination
from highway.sweep.typed import key_of, last_on_each_key

AXES = ("epoch", "step", "seconds", "tokens")  # horizontal axes of curves
LONGEST_ID = 200  # characters
PLACEHOLDER = r"\{([^{}]*)\}"  # in a finding: {row.metric}, or {row.metric.paper}
PARTS_OF_NUMBERS = ("mean", "n", "paper", "change")  # what a placeholder may name; else the mean and its deviation
CLAIMS = ("better", "sooner", "at_most", "growing", "unrelated", "opposed")
KINDS_OF_STATED = ("value", "percent", "worse", "parameters", "built", "words")
NEEDED: dict[str, tuple[str, ...]] = {  # kind of figure -> the keys that it must set
    "curves": ("metrics", "splits"),
    "biases": ("rows",),
    "times": (),
    "scatter": ("metrics",),
    "bars": ("metrics", "groups"),
    "lengths": (),
    "series": ("metrics", "groups", "along"),
    "gate_values": ("rows",),
    "gradients": ("groups",),
}

FileName = Annotated[
    str, matching(rf"[\w=+][\w.=,+-]{{0,{LONGEST_ID - 1}}}", "a name of letters, digits and . = , + - _")
]
Override = Annotated[str, matching(r"\+{0,2}[A-Za-z_][\w.]*=.*", "an override, as in gate=sdu_tanh")]
Overrides = Annotated[list[Override], BeforeValidator(lambda given: [] if given is None else given)]
Rows = Annotated[list[str], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)]


class Part(Written):
    """A part of a table file. It never changes: `model_copy(update=...)` returns a changed one."""

    model_config = ConfigDict(frozen=True)


class Row(Part):
    """A row of a table, as a user reads it (label) and as it is trained (overrides)."""

    id: FileName
    label: str
    overrides: list[Override]
    paper: dict[str, float] = key({}, "metric -> the paper's number")
    reported: str = key("", "its name in tests/fixtures/reported.yaml")
    copied: str = key("", "the source from which the paper has copied its numbers")
    at_budget: dict[str, list[Override]] = key({}, "budget -> its further overrides for this row")
    budgets: list[str] = key([], "budgets that have this row; empty: all")
    disputed: str = key("", "why the paper's numbers of this row are not of this row")
    choose: Choose | None = key(None, "settings that validation chooses")
    chosen: dict[str, list[Override]] = key({}, "budget -> what was chosen there")
    _extra: bool = False
    _added: tuple[str, ...] = ()

    def check(self) -> None:
        for metric, value in self.paper.items():
            if metric not in METRICS:
                raise ValueError(f"paper: metric {metric} is unknown.{closest(metric, list(METRICS))}")
            low, high = METRICS[metric].range
            if not low <= value <= high:
                raise ValueError(f"the paper's {metric}={value:g} must be {bounds(low, high)}.")

    @property
    def extra(self) -> bool:
        """True for an extra row, which the paper lacks."""
        return self._extra

    @property
    def added(self) -> tuple[str, ...]:
        """The overrides of the command line that this row has."""
        return self._added

    def as_extra(self, added: Sequence[str] = (), **changes: Any) -> "Row":
        """Return this row as an extra row, with overrides of the command line and other changes."""
        row = self.model_copy(update=changes)
        row._extra, row._added = True, tuple(added)
        return row

    def with_added(self, overrides: Sequence[str]) -> "Row":
        """Return this row with overrides of the command line, as an extra row."""
        added = " ".join(overrides)
        named = {"id": f"{self.id},{added}", "label": f"{self.label}, {added}"}
        return self.settled_by(overrides).as_extra(overrides, **named, paper={})

    def settled_by(self, overrides: Sequence[str]) -> "Row":
        """Return this row, which chooses nothing if these overrides set a key that it would choose."""
        settled = self.choose and {*map(key_of, overrides)} & {*self.choose.keys}
        return self.model_copy(update={"choose": None}) if settled else self

    def at(self, budget: str) -> bool:
        """Return whether a budget has this row."""
        return not self.budgets or budget in self.budgets

    def choice(self, budget: str) -> Combination:
        """Return the settings that are chosen at a budget; until something is chosen, the first combination."""
        return self.chosen.get(budget, self.choose.combinations[0]) if self.choose else []

    def choosing(self, budget: str, settings: Combination) -> "Row":
        """Return this row with settings that are chosen at a budget."""
        return self.model_copy(update={"chosen": {**self.chosen, budget: settings}})

    def sets(self, key: str) -> str | None:
        """Return the value to which the row itself sets a key, or None."""
        return next((override.split("=", 1)[1] for override in self.overrides if override.startswith(f"{key}=")), None)


class Column(Part):
    """A column shows a metric; the metric's card says which direction is better, and gives the default title."""

    metric: str = key(..., options=METRICS.keys)
    title: str = Field(default_factory=lambda column: METRICS[column["metric"]].full_title)
    digits: int = Field(ge=0, le=10, default_factory=lambda column: METRICS[column["metric"]].digits)
    printed: str = key("", "the paper's name for it, if the paper calls it something else")

    @property
    def better(self) -> str:
        return METRICS[self.metric].better

    def text(self, value: float) -> str:
        """Return a value with the column's digits."""
        return f"{value:.{self.digits}f}"


class Claim(Part):
    """A claim of a paper about rows, tested on `metric`. It has one of CLAIMS, which names its rows.

    The first three compare each of these rows with each of `than` (`paired`: with the one at its place); every pair
    has to hold. The last two rank their rows by `metric` and by the metric `to`, and test Kendall's tau.
    """

    text: str
    metric: str = key(..., options=METRICS.keys)
    better: Rows = key([], "these rows have the better value")
    sooner: Rows = key([], "these rows are as good as every run of `than` at its end in fewer steps")
    at_most: Rows = key([], "the value of these rows is at most `share` above that of `than`")
    growing: Rows = key([], "pair by pair in the given order, the advantage of these rows over `than` becomes larger")
    unrelated: Rows = key([], "the two orders of these rows agree no more than by chance")
    opposed: Rows = key([], "the two orders of these rows are opposite, more than by chance")
    than: Rows = key([], "the rows with which those are compared; `all`: every row of the paper, `rest`: the others")
    share: float = number(0.0, 0, 10)
    to: str = key("", "the second metric of two orders", options=METRICS.keys)
    paired: bool = False

    @property
    def kind(self) -> str:
        """The key that names its rows, one of CLAIMS."""
        return next(kind for kind in CLAIMS if getattr(self, kind))

    @property
    def rows(self) -> list[str]:
        return list(getattr(self, self.kind))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of rows that are compared; those of a growth are in order."""
        if self.paired or self.kind == "growing":
            return list(zip(self.rows, self.than, strict=True))
        return list(itertools.product(self.rows, self.than))

    def check(self) -> None:
        if sum(bool(getattr(self, kind)) for kind in CLAIMS) != 1:
            raise ValueError(f"write exactly one of {listing(list(CLAIMS))}, with its rows.")
        card, ranks = METRICS[self.metric], self.kind in ("unrelated", "opposed")
        if ranks and not self.to:
            raise ValueError(f"`{self.kind}` ranks the rows by two metrics. Name the second one with `to`.")
        if not ranks and not self.than:
            raise ValueError("`than` is missing. Name the rows with which its rows are compared.")
        if self.kind == "sooner" and card.split is None:
            raise ValueError(f"{self.metric} has no curve, which `sooner` needs. Name a metric that has one.")
        if self.kind == "at_most" and (card.better == "higher" or card.range[0] < 0):
            raise ValueError("`at_most` compares ratios of a metric of which lower is better. Name such a metric.")
        if self.share and self.kind != "at_most":
            raise ValueError("`share` belongs to `at_most`. Leave it out.")


class Stated(Part):
    """A statement of the paper's text or code about rows, which `highway audit` compares with the table and models.

    It has one of KINDS_OF_STATED.
    """

    text: str
    rows: list[str]
    than: list[str] = key([], "the partners of the rows")
    metric: str = key("", options=METRICS.keys)
    value: float | None = key(None, "the value of `metric`")
    percent: float | None = key(None, "by how much `metric` exceeds that of the partner, averaged over the rows")
    worse: bool = key(False, "each row is worse than its partner in `than`")
    parameters: float | None = number(None, 0, description="size of the models")
    built: int | None = number(None, 0, description="the parameters that the released code builds, used or not")
    words: list[Override] = key([], "overrides for the settings that the text gives")

    @property
    def of_metric(self) -> bool:
        return bool(self.model_fields_set & {"value", "percent", "worse"})

    def check(self) -> None:
        if len(self.model_fields_set & {*KINDS_OF_STATED}) != 1:
            raise ValueError(f"write exactly one of {listing(list(KINDS_OF_STATED))}.")
        if self.of_metric and not self.metric:
            raise ValueError("`metric` is missing. Name the metric of which it states something.")
        if self.model_fields_set & {"percent", "worse"} and len(self.rows) != len(self.than):
            raise ValueError("it pairs its rows with those of `than`. Name as many rows in `than`.")


class Figure(Part):
    """A figure of a table, of one of these kinds.

    curves: a panel for each metric and split.   biases: a row's transform-gate biases, as a map and as points.
    times: every round of a timed table, by row.   scatter: rows as points, the first metric over the second.
    bars: the rows of each group beside those of the others.   series: each group's rows as a line over the key `along`.
    lengths: a histogram of the lengths of training sentences.   gate_values: histograms of state gates.
    gradients: gradient norms by distance, for each group.
    """

    id: FileName
    caption: str
    kind: str = choice(*NEEDED)
    metrics: list[str] = []
    splits: list[str] = key([], members=SPLITS)
    rows: list[str] = key([], "empty: all")
    groups: dict[str, list[str]] = key({}, "name -> rows")
    along: str = key("", "for series: a key that each of their rows sets")
    over: str = choice(*AXES)
    logs: bool = key(False, "also show the authors' curves, if outputs/reference/series has them")

    def check(self) -> None:
        for needed in NEEDED[self.kind]:
            if not getattr(self, needed):
                raise ValueError(f"a figure of kind {self.kind} needs {needed}.")
        known = list(KINDS if self.kind == "curves" else METRICS)
        for metric in self.metrics:
            if metric not in known:
                raise ValueError(f"metric {metric} is unknown.{closest(metric, known)} Available: {listing(known)}.")
        if {"loss", "bpc"} <= set(self.metrics):
            raise ValueError("bpc is loss / ln 2, so the two panels would show the same. Name only one of them.")


class Table(Part):
    """A table: rows that are trained, and what the report shows of them. It is the paper's, or a user's."""

    id: FileName
    caption: str
    recipe: list[Override]
    columns: list[Column]
    rows: list[Row] = key(..., "the paper's rows; `reading` puts the extra rows behind them")
    extra_rows: list[Row] = key([], "rows that the paper lacks")
    budgets: dict[str, Overrides] = key(..., "budget -> what it changes in every row")
    paper: str = key("", "the paper whose table it is; empty: a user's table")
    reported: str = key("", "its name in tests/fixtures/reported.yaml")
    note: str = ""
    command: str = key("", "of a grid: how it was typed")
    project: str = key("", "of a grid: the package of the project in which it was typed")
    finding: dict[str, str] = key({}, "budget -> the conclusion of its report (report/finding.py)")
    choices: list[str] = key([], "where the paper and its code are silent or disagree, and our choice: sentences")
    select: str = choice("best", "last", description="the checkpoint whose test result is the number")
    claims: list[Claim] = []
    figures: list[Figure] = []
    rounds: int = number(0, 0, 10_000, "above 0: the rows are timed in interleaved rounds, not trained")
    also: list[Column] = key([], "columns of the report that the paper lacks")
    stated: list[Stated] = key([], "statements of the paper that the audit compares with the table")
    against: dict[str, Rows] = key({}, "baseline -> its rows; empty: the first row")
    choose: Choose | None = key(None, "of each row of the paper that has none of its own")

    def check(self) -> None:
        for part in ("rows", "columns", "budgets"):
            if not getattr(self, part):
                raise ValueError(f"the table has no {part}.")
        if self.rounds == 1:
            raise ValueError("a timed table reports medians over rounds. Write `rounds: 2` or more.")

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
        smaller = [*self.budgets[budget], *row.at_budget.get(budget, [])]
        own = [*self.recipe, *row.overrides, *row.choice(budget), *smaller]
        return last_on_each_key([*own, f"budget={budget}", f"seed={seed}", *row.added])


ReportRequest = tuple[
    Table, str, tuple[str, ...]
]  # what a report shows: table, budget, overrides from the command line
