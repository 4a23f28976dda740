"""The numbers of the papers at one glance: each beside ours at `paper` budget, and how many agree.

A number counts if `answers.counted` has it. Numbers that a paper copied from another one are shown, not counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from highway.config.experiment import Experiment
from highway.config.metrics import METRICS
from highway.report.answers import Answer, compared_columns, counted
from highway.report.baselines import pairs
from highway.report.collect import Collected
from highway.report.evidence import NO_SEED, ONE_SEED
from highway.report.numbers import RecordedNumbers
from highway.report.report import Report
from highway.report.sections import COPIED, Grid, GridCell, Head, Judgement, Number, Paragraph, Section, grid
from highway.report.statistics import ENOUGH_SEEDS, compare_rows, on_log_scale
from highway.sweep.table import Column, Row, Table

ANSWERED = ("within", "outside", "too wide")
FEW, NOT_RUN = f"fewer than {ENOUGH_SEEDS} seeds", "not run"
WORDS = (*ANSWERED, FEW, NOT_RUN)
ORDERINGS = ("same ordering", "other ordering")
BUDGETS = ("mini", "paper")  # the largest one last; smoke runs say nothing of a gate
LIMITS = (0.05, 0.1, 0.2, 0.5, 1.0)  # half lengths of the axis of relative differences
WITHIN = "Within: the paper's number lies in the 95 % prediction interval of one more run of ours."
GATES = (
    "Rows with a gate that are better or worse than their baseline without one, by the mean over the seeds that both "
    "have, be it one, or by ranks where runs failed. Nothing is tested here."
)
MEANING = "What the words mean: docs/STATISTICS.md."


@dataclass(frozen=True)
class Measurement:
    """A number of a paper, and the mean of our runs."""

    table: Table
    row: Row
    column: Column
    word: str  # one of WORDS
    seeds: int = 0  # runs that finished and have learned
    ours: float | None = None
    answer: Answer | None = None  # None with fewer than three seeds

    @property
    def counts(self) -> bool:
        return not self.row.copied

    @property
    def paper(self) -> float:
        return self.row.paper[self.column.metric]

    @property
    def difference(self) -> float:
        """Our mean relative to the paper's number."""
        return 0.0 if self.ours is None else self.ours / self.paper - 1

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % prediction interval of one more run of ours, relative to the paper's number."""
        return (self.answer.low / self.paper - 1, self.answer.high / self.paper - 1) if self.answer else None


@dataclass(frozen=True)
class Overview:
    """The measurements of all papers beside ours, and the verdicts on orderings at `mini` budget."""

    measurements: tuple[Measurement, ...]
    orderings: Counter[str]  # of the claims at `mini` budget, by verdict without its scope
    gates: Section | None = None  # how many rows are better and worse with each gate; None if none has run

    @property
    def counted(self) -> list[Measurement]:
        return [each for each in self.measurements if each.counts]

    @property
    def by_table(self) -> list[list[Measurement]]:
        """The measurements of each table; tables with runs come first."""
        tables = {each.table.id: each.table for each in self.measurements}
        groups = [[each for each in self.measurements if each.table.id == name] for name in tables]
        return sorted(groups, key=lambda group: all(each.word == NOT_RUN for each in group))

    @property
    def run(self) -> list[Measurement]:
        """The counted measurements that have a run."""
        return [each for each in self.counted if each.word != NOT_RUN]

    @property
    def words(self) -> dict[str, int]:
        """The number of counted measurements with each word."""
        count = Counter(each.word for each in self.counted)
        return {word: count[word] for word in WORDS}

    @property
    def sentences(self) -> list[str]:
        """The sentences that begin the overview, on the site as on the terminal."""
        words = self.words
        text = f"{len(self.run)} of the papers' {len(self.counted)} numbers have runs at the paper's own size"
        return [
            *([] if words["within"] + words["outside"] else ["Too early to say."]),
            f"{text} (paper budget){f': {self.seeds}' if self.run else ''}.",
            *([f"Our means differ from the papers' by {self.range}."] if self.range else []),
            f"{words['within']} lie within the 95 % interval of one more run of ours, {words['outside']} outside, "
            f"{words['too wide']} in one that is too wide to tell; an answer takes at least {ENOUGH_SEEDS} seeds.",
        ]

    @property
    def section(self) -> Section:
        """The sentences, and for each table the numbers that were run, ours with its interval."""
        grids = [
            (Paragraph.of(f"{run[0].table.paper}: {run[0].table.caption}"), _grid(run))
            for group in self.by_table
            if (run := [each for each in group if each.word != NOT_RUN])
        ]
        note = [Paragraph.of(WITHIN, MEANING, style="note")] if grids else []
        lead = Paragraph.of(*self.sentences, style="strong")
        blocks = (lead, *(block for pair in grids for block in pair), *note)
        return Section("overview", "Which numbers of the papers are reproduced?", blocks)

    @property
    def seeds(self) -> str:
        """The numbers of seeds of the measurements that were run: `1 with 3 seeds, 1 with 2 seeds`."""
        count = sorted(Counter(each.seeds for each in self.run).items(), reverse=True)
        return ", ".join(f"{number} with {seeds} seed{'' if seeds == 1 else 's'}" for seeds, number in count)

    @property
    def range(self) -> str:
        """The range of our means relative to the papers': `+3.9 % to +55.9 % (lower is better)`, "" without a mean."""
        found = sorted((each.difference, each.column.better) for each in self.run if each.ours is not None)
        ends = dict.fromkeys(f"{100 * end:+.1f} %" for end, _ in (found[0], found[-1])) if found else ()
        better = {side for _, side in found}
        return " to ".join(ends) + (f" ({better.pop()} is better)" if len(better) == 1 else "")

    @property
    def limit(self) -> float:
        """Half the length of the axis: the shortest that shows every mean."""
        largest = max((abs(each.difference) for each in self.measurements), default=0.0)
        return next((limit for limit in LIMITS if largest <= limit), LIMITS[-1])

    @property
    def ordered(self) -> dict[str, int]:
        """The claims at `mini` budget: same ordering, other ordering, and neither."""
        decided = {word: self.orderings[word] for word in ORDERINGS}
        return decided | {"neither": self.orderings.total() - sum(decided.values()) - self.orderings[NOT_RUN]}

    @property
    def single(self) -> int:
        """The number of claims at `mini` budget that rest on one seed or none that is shared."""
        return self.orderings[ONE_SEED] + self.orderings[NO_SEED]


def _grid(measured: Sequence[Measurement]) -> Grid:
    """Return a paper's numbers beside ours, in their own units."""
    numeric = [Head(title, numeric=True) for title in ("paper", "ours", "95 % interval")]
    return grid((Head("number"), *numeric, Head("seeds"), Head("answer")), [_cells(each) for each in measured])


def _cells(each: Measurement) -> tuple[GridCell, ...]:
    text = each.column.text
    return (
        f"{each.row.label}, {each.column.title}",
        text(each.paper) + ("" if each.counts else COPIED),
        None if each.ours is None else text(each.ours),
        each.answer.interval if each.answer else None,
        str(each.seeds),
        Judgement(each.word) if each.counts else "copied, not counted",
    )


def overview(tables: Iterable[Table], reports: Sequence[Report]) -> Overview:
    """Return the overview of these tables from their reports at all budgets."""
    at_paper = {report.collected.table.id: report for report in reports if report.collected.budget == "paper"}
    found = [each for table in tables if table.paper for each in measurements(table, at_paper.get(table.id))]
    papers = [report for report in reports if report.collected.table.paper]
    verdicts = [each for report in papers if report.collected.budget == "mini" for each in report.verdicts]
    words = Counter(verdict.word.partition(" (")[0] for verdict in verdicts)
    return Overview(tuple(found), words, gates([report.collected for report in reports]))


def measurements(table: Table, report: Report | None) -> list[Measurement]:
    """Return the numbers of a table, with our runs from its report at `paper` budget; None if nothing has run."""
    known = set(counted(table))
    numbers = [
        (row, column)
        for column in compared_columns(table)
        for row in table.rows
        if (row.id, column) in known or (row.copied and column.metric in row.paper)
    ]
    if report is None or report.comparison != "paper":
        return [Measurement(table, row, column, NOT_RUN) for row, column in numbers]
    found = []
    for row, column in numbers:
        values = report.collected.values(row.id, column.metric)
        answer = report.answers.get((row.id, column.metric))
        word = answer.word if answer else FEW if report.collected.samples[row.id] else NOT_RUN
        found.append(Measurement(table, row, column, word, len(values), fmean(values) if values else None, answer))
    return found


def gates(every: Sequence[Collected]) -> Section | None:
    """Return how many rows are better and worse with each gate than without; of each table at its largest budget."""
    largest = {
        each.table.id: each for budget in BUDGETS for each in every if each.budget == budget and each.table.paper
    }
    by_gate: dict[str, list[tuple[str, float]]] = {}  # table of each row, and 1 if it is better, -1 if it is worse
    for table, collected in largest.items():
        for gate, sign in _signs(collected):
            by_gate.setdefault(gate, []).append((table, sign))
    rows: list[tuple[GridCell, ...]] = []
    for gate, found in sorted(by_gate.items()):
        signs = [sign for _, sign in found]
        counts = (len({table for table, _ in found}), signs.count(1), signs.count(-1))
        rows.append((gate, *(Number(count, "d") for count in counts)))
    heads = (Head("gate"), *(Head(title, numeric=True) for title in ("tables", "rows better", "rows worse")))
    blocks = Paragraph.of(GATES, style="note"), grid(heads, rows)
    return Section("gates", "Gates beside no gate", blocks) if rows else None


def _signs(collected: Collected) -> Iterator[tuple[str, float]]:
    """Yield the gate of each row whose baseline has none, and whether the row is better (1) or worse (-1)."""
    numbers, metric = RecordedNumbers(collected), collected.table.headline
    for row, base in pairs(collected) if METRICS[metric].measures_quality else ():
        gate, of_base = (gate_of(collected.experiment(each.id)) for each in (row, base))
        ours, theirs = (numbers.values(each.id, metric, on_log_scale(metric)) for each in (row, base))
        sign = compare_rows(ours, theirs, floor=0.0, rank_seeds=1).sign[0]
        if gate and not of_base and sign:
            yield gate, float(sign)


def gate_of(experiment: Experiment) -> str:
    """Return the names of the gates that act in an experiment, with their activations; empty if there are none."""
    named = ((name, experiment.gate.activation_of(interface)) for interface, name in experiment.gates.items())
    return " + ".join(" ".join(filter(None, words)) for words in named)
