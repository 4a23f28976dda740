"""Tables as data: the models whose fields are the keys of a file in conf/table/.

Sweeps, make targets, reports and figures all derive from these files, which highway/tables/reading.py reads. A model
refuses what is wrong within itself; reading.py also refuses what does not fit together in a table.
"""

import itertools
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field

from highway.cards.metrics import KINDS, METRICS, SPLITS
from highway.errors import Refused, closest, listing
from highway.keys.schema import Written, bounds, choice, key, matching, number, unlike
from highway.tables.choose import Choose, Combination
from highway.tables.typed import key_of, last_on_each_key

AXES = ("epoch", "step", "seconds", "tokens")  # horizontal axes of curves
LONGEST_ID = 200  # characters
PLACEHOLDER = r"\{([^{}]*)\}"  # in a finding: {row.metric}, or {row.metric.paper}
PARTS_OF_NUMBERS = ("mean", "n", "paper", "change")  # what a placeholder may name; else the mean and its deviation
CLAIMS = ("better", "at_most", "growing")
KINDS_OF_STATED = ("value", "percent", "parameters", "built", "words")
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


class Epochs(NamedTuple):
    """Epochs of a run, counted from 1, both ends included."""

    first: int
    last: int | None  # None: to the end


def _epochs(given: Any) -> Any:
    if given == "all":
        return Epochs(1, None)
    if not (isinstance(given, list) and [type(end) for end in given] == [int, int] and 1 <= given[0] <= given[1]):
        raise unlike("`all`, or the first and the last epoch, as in [1,30]", given)
    return Epochs(*given)


Stretch = Annotated[Epochs, BeforeValidator(_epochs)]


class Part(Written):
    """A part of a table file. It never changes: `model_copy(update=...)` returns a changed one."""

    model_config = ConfigDict(frozen=True)


class Row(Part):
    """A row of a table, as a user reads it (`label`) and as it is trained (`overrides`)."""

    id: FileName = key(..., "The name of the row in commands, folders and claims.")
    label: str = key(..., "The name of the row in reports.")
    overrides: list[Override] = key(..., "What the row changes in the recipe, as in `[gate=sdu_tanh]`.")
    paper: dict[str, float] = key({}, "The paper's numbers, by metric.")
    reported: str = key("", "The name of the row in tests/fixtures/reported.yaml.")
    copied: str = key("", "The source from which the paper has copied its numbers; they are shown and not judged.")
    at_budget: dict[str, list[Override]] = key({}, "Further overrides of this row, by budget; they come last.")
    budgets: list[str] = key([], "The budgets that have this row; empty: all.")
    disputed: str = key("", "Why the paper's numbers are not of this row; they are shown and not judged.")
    choose: Choose | None = key(None, "Settings that validation chooses for this row.")
    chosen: dict[str, list[Override]] = key(
        {}, "Settings that were chosen before, by budget; no trial is then trained."
    )
    parameters_of: str = key(
        "", "The row whose number of parameters this row gets, by a wider feed-forward layer; it is compared with it."
    )
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

    def as_extra(self, **changes: Any) -> "Row":
        """Return this row as an extra row, with changes."""
        row = self.model_copy(update=changes)
        row._extra = True
        return row

    def adding(self, overrides: Sequence[str]) -> "Row":
        """Return this row with overrides of the command line. If they set a key to choose, it chooses nothing."""
        settled = self.choose and {*map(key_of, overrides)} & {*self.choose.keys}
        row = self.model_copy(update={"choose": None} if settled else {})
        row._added = tuple(overrides)
        return row

    def named_after(self, overrides: Sequence[str]) -> "Row":
        """Return this row with overrides of the command line, as an extra row that is named after them."""
        named = {"id": ",".join((self.id, *overrides)), "label": ", ".join((self.label, *overrides))}
        return self.adding(overrides).as_extra(**named, paper={})

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

    metric: str = key(..., "The metric, one of highway/cards/metrics.py.", options=METRICS.keys)
    title: str = Field(
        description="The title; by default that of the metric.",
        default_factory=lambda column: METRICS[column["metric"]].full_title,
    )
    digits: int = Field(
        description="Decimal places; by default those of the metric.",
        ge=0,
        le=10,
        default_factory=lambda column: METRICS[column["metric"]].digits,
    )
    printed: str = key("", "The paper's name of the metric, if it is another one. Only the audit reads it.")

    @property
    def better(self) -> str:
        return METRICS[self.metric].better

    def text(self, value: float) -> str:
        """Return a value with the column's digits."""
        return f"{value:.{self.digits}f}"


class Claim(Part):
    """A claim about rows, tested on `metric`.

    It has exactly one of `better`, `at_most` and `growing`, which names its rows; one row needs no list. The first two
    compare each of these rows with each of `than`, and every pair has to hold.
    """

    text: str = key(..., "The claim in words, as the report prints it.")
    quote: str = key("", "The paper's own sentence.")
    where: str = key("", "Where the paper has it, as in `section 4.1`.")
    metric: str = key(..., "The metric on which the claim is tested.", options=METRICS.keys)
    better: Rows = key([], "These rows have a better value than `than`.")
    at_most: Rows = key([], "The value of these rows is at most `share` above that of `than`.")
    growing: Rows = key([], "From pair to pair, in this order, these rows are ahead of `than` by more.")
    than: Rows = key([], "The rows to compare with; `rest`: every other row of the paper.")
    share: float = number(0.0, 0, 10, "For `at_most`: 0.1 is ten percent.")
    paired: bool = key(False, "Compare each row only with the row at its place in `than`, not with each of them.")
    over: Stretch | None = key(
        None, "Instead of the result: the mean of the metric's curve over these epochs, as in `[1, 30]` or `all`."
    )

    @property
    def kind(self) -> str:
        """The key that names its rows, one of CLAIMS."""
        return next(kind for kind in CLAIMS if getattr(self, kind))

    @property
    def quoted(self) -> str:
        """The paper's sentence and where it stands; empty for a claim of one's own."""
        return f"“{self.quote}” ({self.where})" if self.quote else ""

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
        if not self.than:
            raise ValueError("`than` is missing. Name the rows with which its rows are compared.")
        if bool(self.quote) != bool(self.where):
            raise ValueError("`quote` and `where` belong together. Write both, or neither.")
        card = METRICS[self.metric]
        if self.over and card.split not in SPLITS:
            raise ValueError(f"{self.metric} has no curve, which `over` needs. Name a metric that has one.")
        if self.kind == "at_most" and (card.better == "higher" or card.range[0] < 0):
            raise ValueError("`at_most` compares ratios of a metric of which lower is better. Name such a metric.")
        if self.share and self.kind != "at_most":
            raise ValueError("`share` belongs to `at_most`. Leave it out.")


class Stated(Part):
    """A statement of the paper's text or code about rows, which `make audit` compares with the table and models.

    It has exactly one of `value`, `percent`, `parameters`, `built` and `words`.
    """

    text: str = key(..., "The statement in words.")
    rows: list[str] = key(..., "The rows that it is about.")
    than: list[str] = key([], "The partners of the rows, as many as there are rows.")
    metric: str = key("", "The metric of which it states something.", options=METRICS.keys)
    value: float | None = key(None, "The value of `metric`.")
    percent: float | None = key(None, "By how much `metric` exceeds that of the partner, averaged over the rows.")
    parameters: float | None = number(None, 0, description="The number of parameters of the models.")
    built: int | None = number(None, 0, description="The parameters that the released code builds, used or not.")
    words: list[Override] = key([], "Overrides for the settings that the text gives.")

    @property
    def of_metric(self) -> bool:
        return bool(self.model_fields_set & {"value", "percent"})

    def check(self) -> None:
        if len(self.model_fields_set & {*KINDS_OF_STATED}) != 1:
            raise ValueError(f"write exactly one of {listing(list(KINDS_OF_STATED))}.")
        if self.of_metric and not self.metric:
            raise ValueError("`metric` is missing. Name the metric of which it states something.")
        if self.percent is not None and len(self.rows) != len(self.than):
            raise ValueError("it pairs its rows with those of `than`. Name as many rows in `than`.")


class Figure(Part):
    """A figure of a table, of one of these kinds:

    - `curves`: a panel for each metric and split
    - `biases`: a row's transform-gate biases, as a map and as points
    - `times`: every round of a timed table, by row
    - `scatter`: rows as points, the first metric over the second
    - `bars`: the rows of each group beside those of the others
    - `lengths`: a histogram of the lengths of training sentences
    - `series`: each group's rows as a line over the key `along`
    - `gate_values`: histograms of state gates
    - `gradients`: gradient norms by distance, for each group
    """

    id: FileName = key(..., "The name of the figure's files.")
    caption: str = key(..., "The caption in the report.")
    kind: str = choice(*NEEDED, description="One of the kinds above.")
    metrics: list[str] = key(
        [], "What it shows: of `curves`, kinds as in `loss` or `ppl`; of others, metrics of a column."
    )
    splits: list[str] = key([], "For `curves`: a panel for each of `train`, `valid`, `test`.", members=SPLITS)
    rows: list[str] = key([], "The rows that it shows; empty: all.")
    groups: dict[str, list[str]] = key({}, "For `bars`, `series` and `gradients`: rows, by the name of their group.")
    along: str = key("", "For `series`: the key on the horizontal axis, which each row sets.")
    over: str = choice(*AXES, description="For `curves`: the horizontal axis.")
    logs: bool = key(False, "Also show the authors' curves, if outputs/reference/series has them.")

    def check(self) -> None:
        for needed in NEEDED[self.kind]:
            if not getattr(self, needed):
                raise ValueError(f"a figure of kind {self.kind} needs {needed}.")
        if self.kind == "scatter" and len(self.metrics) != 2:
            raise ValueError("a figure of kind scatter needs two metrics.")
        known = list(KINDS if self.kind == "curves" else METRICS)
        for metric in self.metrics:
            if metric not in known:
                raise ValueError(f"metric {metric} is unknown.{closest(metric, known)} Available: {listing(known)}.")
        if {"loss", "bpc"} <= set(self.metrics):
            raise ValueError("bpc is loss / ln 2, so the two panels would show the same. Name only one of them.")


class Table(Part):
    """A table: rows that are trained, and what the report shows of them. It is the paper's, or a user's."""

    id: FileName = key(..., "The name of the table, which is the name of its file.")
    caption: str = key(..., "The caption of the report.")
    recipe: list[Override] = key(..., "What all rows share: model, data set, optimiser, trainer and settings.")
    columns: list[Column] = key(..., "The columns of the report, in order.")
    rows: list[Row] = key(..., "The rows of the paper, in its order; in a table of your own, all rows.")
    extra_rows: list[Row] = key([], "Rows that the paper lacks; a sweep trains them with `extra_rows=true`.")
    budgets: dict[str, Overrides] = key(..., "What each budget changes in every row; `paper: []` changes nothing.")
    paper: str = key("", "The paper and its table; empty: a table of your own.")
    reported: str = key("", "The name of the table in tests/fixtures/reported.yaml.")
    note: str = key("", "A remark on the table, which counts as one of the choices.")
    command: str = key("", "Of a grid: how it was typed. Sweeps write it.")
    project: str = key("", "Of a grid: the package of the project in which it was typed. Sweeps write it.")
    finding: dict[str, str] = key({}, "The conclusion of the report, by budget. `{row.metric}` stands for our number.")
    choices: list[str] = key([], "Sentences: where the paper and its code are silent or disagree, and our choice.")
    select: str = choice("best", "last", description="The checkpoint whose test result is the number.")
    claims: list[Claim] = key([], "The claims of the paper, or yours; a report gives a verdict on each.")
    figures: list[Figure] = key([], "The figures of the report.")
    rounds: int = number(0, 0, 10_000, "Above 0: the rows are timed in so many interleaved rounds, not trained.")
    also: list[Column] = key([], "Columns of the report that the paper lacks.")
    stated: list[Stated] = key([], "Statements of the paper that the audit compares with the table and the models.")
    against: dict[str, Rows] = key({}, "The rows that are compared with each baseline; empty: all with the first row.")
    readings: dict[str, Rows] = key(
        {}, "For a row of the paper: rows that read its recipe in another way. The site says which are excluded."
    )
    choose: Choose | None = key(
        None, "Settings that validation chooses for each row of the paper without its own `choose`."
    )

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
        """True if the rows are timed (highway/timing/rounds.py), and not trained."""
        return self.rounds > 0

    @property
    def added(self) -> tuple[str, ...]:
        """The overrides of the command line that some of its rows have."""
        return tuple(dict.fromkeys(override for row in self.rows for override in row.added))

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

    def oriented(self, row_id: str, than: str) -> tuple[str, str]:
        """Return a pair of rows as reports compare them: first the row, then its baseline, if one of them is that."""
        return (than, row_id) if self.base(than) == row_id else (row_id, than)

    def beside(self, row_id: str) -> Row:
        """Return the row beside which a row is explained: its baseline; the first row for one that has none."""
        return self.row(self.base(row_id) or self.rows[0].id)

    @property
    def headline(self) -> str:
        """The metric by which rows are compared: that of the first claim, or of the first column on the test split."""
        shown = [column.metric for column in self.columns]
        tested = [metric for metric in shown if METRICS[metric].split in ("test", None)]
        return self.claims[0].metric if self.claims else (tested or shown)[0]

    @property
    def validation(self) -> str:
        """The metric of the claims on the validation split."""
        return f"valid_{METRICS[self.headline].kind}"

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
        own = last_on_each_key([*own, f"budget={budget}", f"seed={seed}", *row.added])
        if not row.parameters_of:
            return own
        from highway.tables.matched import widened  # builds models

        other = self.overrides(self.row(row.parameters_of).adding(row.added), budget, seed)
        return last_on_each_key([*own, widened(own, other)])


ReportRequest = tuple[
    Table, str, tuple[str, ...]
]  # what a report shows: table, budget, overrides from the command line
