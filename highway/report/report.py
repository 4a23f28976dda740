"""Builds the report of a table at a budget: what was measured, the verdicts, and the sections that show them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from highway.config.metrics import METRICS
from highway.report import choices, rates
from highway.report.bootstrap import Compared, compare
from highway.report.collect import Collected
from highway.report.comparison import BORROWED, Difference, differences, untested
from highway.report.convergence import Convergence, Reached, convergence
from highway.report.origins import origins
from highway.report.power import EXPLAINED, SMOKE, seeds_needed
from highway.report.reproduction import EQUIVALENCE, Answer, answers, counted
from highway.report.results import ResultRow, result_row
from highway.report.sections import (
    COPIED,
    DASH,
    Block,
    Code,
    Grid,
    GridCell,
    GridRow,
    Head,
    Judgement,
    Notes,
    Number,
    Paragraph,
    Picture,
    Section,
    Sentence,
    grid,
)
from highway.report.statistics import kendall_tau, tau_by_chance
from highway.report.verdicts import Verdict, judge, p_text, tone
from highway.sweep.table import Claim, Figure

SPREAD = "The number after ± is the standard deviation over seeds."
LEARNED = "A run that has not learned is not in the mean of its row, unless none has learned."
MISSING = f"A dash ({DASH}): the paper gives no number."
SHARE = (
    "Steps are those of validations. In brackets: the share of the steps that {} itself takes to reach that value. The "
    "last column is the mean difference from its curve."
)
DIFFERENCES = (
    "The difference in {} between each row and its baseline, by the model of docs/STATISTICS.md. Intervals cover all "
    "differences together with 95 %, and p-values are corrected in the same way (Bonferroni). Effects of seeds are "
    "removed: where rows have different seeds, it is not the difference of their means."
)
BOOTSTRAP = (
    "Two trained models on the same {units}: the difference in {metric}, its interval over resampled {units}, and the "
    "p-value of approximate randomisation, both of 10,000 draws. Intervals cover all differences together with 95 %, "
    "and p-values are corrected in the same way (Bonferroni). It is about these {units} and says nothing about other "
    "seeds. The two have the same seed, unless no seed has both. Runs that kept no losses of units are left out."
)
OF_MEANS = " The last difference is that of the means of all seeds."
UNITS = {"bleu": "test sentences", "test_loss": "units of the test set"}  # by metric
STATISTICS = "docs/STATISTICS.md"
DECIDED = "decided"
UNDECIDED = "needs paper budget, the paper's data and three seeds"
ELSEWHERE = "These are the choices at paper budget. What this budget changes, named above, takes their place."


@dataclass(frozen=True)
class Report:
    collected: Collected
    rows: tuple[ResultRow, ...]
    verdicts: tuple[Verdict, ...]
    needed: dict[Claim, str]  # how many seeds would decide each claim
    compared: tuple[Compared, ...]
    differences: tuple[Difference, ...]  # of rows from their baselines
    answers: dict[tuple[str, str], Answer]  # by row and metric: whether the paper's number is reproduced
    figures: tuple[Figure, ...] = ()  # drawn in the folder of the report

    @property
    def heading(self) -> str:
        return self.collected.table.heading

    @property
    def has_paper(self) -> bool:
        """False for a grid, and any other table without numbers of a paper."""
        return any(row.paper for row in self.collected.table.rows)

    @property
    def comparison(self) -> str:
        """The other side of comparisons: `paper` at paper budget and data, `base` below it, "" for smoke runs."""
        if not self.has_paper or self.collected.budget == "smoke":
            return ""
        return "paper" if self.collected.budget == "paper" and self.collected.full_data else "base"

    @property
    def reproduced(self) -> str | None:
        """A sentence that counts how many of the paper's numbers are reproduced; None where none is compared."""
        total = len(counted(self.collected.table))
        if self.comparison != "paper" or not total:
            return None
        numbers = f"{total} numbers {'that the paper measured itself' if self.copied else 'of the paper'}"
        if not self.answers:
            return f"None of {numbers} has three seeds yet."
        count = Counter(answer.word for answer in self.answers.values())
        text = f"Of {numbers}, {count['equivalent']} are equivalent to ours, "
        text += f"{count['different']} different and {count['inconclusive']} inconclusive"
        fewer = total - len(self.answers)
        has = "has" if fewer == 1 else "have"
        return f"{text}; {fewer} {has} fewer than three seeds that have learned." if fewer else f"{text}."

    @property
    def words(self) -> Counter[str]:
        """The number of verdicts with each word."""
        return Counter(verdict.word for verdict in self.verdicts)

    @property
    def outcome(self) -> str:
        """The report in a few sentences: its origin, the paper's numbers that are reproduced, and the verdicts."""
        claims = ", ".join(f"{count} × {word}" for word, count in self.words.most_common())
        return " ".join(filter(None, (self.origin, self.reproduced, f"Claims: {claims}." if claims else "")))

    @property
    def origin(self) -> str:
        """A sentence on budget, data and checkpoint; every rendering has it."""
        table, budget = self.collected.table, self.collected.budget
        select = {"best": "model with the best validation", "last": "last model"}[table.select]
        numbers = self.collected.measured or f"numbers of the {select}"
        return f"Budget {budget}; {self.collected.caveat}; {numbers}."

    @property
    def copied(self) -> str | None:
        """A sentence on where the paper copied numbers from, or None."""
        sources = dict.fromkeys(row.copied for row in self.collected.table.rows if row.copied)
        return f"{COPIED} copied by the paper from {', '.join(sources)}." if sources else None

    @property
    def rank_agreement(self) -> str | None:
        """A sentence on how far our order of the paper's rows agrees with the paper's; None with too few rows."""
        metric = self.collected.table.ranked_by
        rows = [row for row in self.rows if not row.row.disputed]
        cells = [cell for row in rows for cell in row.measured if cell.column.metric == metric]
        pairs = [(cell.ours.mean, cell.paper) for cell in cells if cell.ours and cell.paper is not None]
        tau = kendall_tau([ours for ours, _ in pairs], [paper for _, paper in pairs])
        if tau is None or not self.comparison:
            return None
        return (
            f"Order of {len(pairs)} rows by {metric}, compared with the paper's order: Kendall's tau {tau:+.2f}; "
            f"unrelated orders have one within ±{tau_by_chance(len(pairs)):.2f} in 95 % of cases."
        )

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The report as every renderer shows it; a section without content is left out."""
        table = self.collected.table
        baseline, headline = table.rows[0].label, METRICS[table.headline]
        rows = [row.row for row in self.rows]
        also = Grid(
            (Head("model"), *(Head(column.title, numeric=True) for column in table.also)),
            tuple(GridRow((row.row.label, *row.also), row.row) for row in self.rows),
        )
        contents: list[tuple[str, str, list[Block]]] = [
            ("results", "", _results(self)),
            ("also", "Also measured", [also] if table.also else []),
            ("chosen", "Chosen by validation", choices.described(table, self.collected.choices, rows)),
            ("rates", "When the learning rate was divided", rates.described(self.collected, rows)),
            ("claims", "Claims of the paper" if table.paper else "Claims", _claims(self)),
            ("convergence", f"Steps to reach the final {table.reaches} of {baseline}", _convergence(self)),
            ("differences", f"Compared by {headline.name}", _differences(self)),
            ("bootstrap", "Compared on the test set", _bootstrap(self)),
            ("figures", "Figures", [Picture(figure.id, figure.caption) for figure in self.figures]),
            ("choices", "What the paper leaves open, and what we chose", _choices(self)),
            ("origins", "Where the runs were made", _notes(origins(self.collected))),
        ]
        return tuple(Section(key, title, tuple(blocks)) for key, title, blocks in contents if blocks)


def build_report(collected: Collected, figures: Sequence[Figure] = ()) -> Report:
    """Return the report of what was collected; `figures` are those drawn in its folder."""
    table = collected.table
    # Extra rows are listed once they have run, and so is every row in a report of overrides.
    rows = [row for row in table.rows if collected.samples[row.id] or not (row.extra or collected.only_run)]
    verdicts = judge(collected)
    found = answers(collected)
    return Report(
        collected,
        tuple(result_row(row, collected, found) for row in rows),
        tuple(verdict for verdict in verdicts if not (collected.only_run and verdict.word == "not run")),
        seeds_needed(collected) if verdicts else {},
        tuple(compare(collected)),
        tuple(differences(collected)),
        found,
        tuple(figures),
    )


def _results(report: Report) -> list[Block]:
    table = report.collected.table
    heads = [Head(column.title, numeric=True, compared=report.comparison) for column in table.columns]
    results = Grid(
        (Head("model"), Head("seeds"), *heads),
        tuple(GridRow((row.row.label, row.seeds, *row.measured), row.row) for row in report.rows),
    )
    has_spread = any(cell.ours and cell.ours.deviation is not None for row in report.rows for cell in row.measured)
    remarks = [*([SPREAD] if has_spread else []), *([MISSING] if results.missing_values else [])]
    remarks += [LEARNED] if any(row.seeds.unlearned for row in report.rows) else []
    origin = Paragraph(((report.origin,), *_overrides(report), *((text,) for text in remarks)))
    return [
        *([Paragraph.of(report.reproduced, style="strong")] if report.reproduced else []),
        *([Paragraph.of(EQUIVALENCE, style="note")] if report.answers else []),
        origin,
        *(Paragraph.of(*texts, style="note") for texts in ([table.note], [report.copied]) if any(texts)),
        results,
        *([Paragraph.of(report.rank_agreement)] if report.rank_agreement else []),
    ]


def _overrides(report: Report) -> list[Sentence]:
    """Return what the budget changes in the recipe."""
    table, budget = report.collected.table, report.collected.budget
    overrides = table.budgets[budget]
    listed = [part for override in overrides for part in (", ", Code(override))][1:]
    recipe: Sentence = ("The recipe with ", *listed, ".") if overrides else ("The recipe unchanged.",)
    further = [bool(row.row.at_budget.get(budget)) for row in report.rows]
    if not any(further):
        return [recipe]
    command = f"highway table explain {table.id.partition(',')[0]}"  # without overrides of the command line
    return [recipe, (f"{'All' if all(further) else 'Some'} rows have further overrides: see ", Code(command), ".")]


def _claims(report: Report) -> list[Block]:
    if report.collected.budget == "smoke" and report.collected.table.claims:
        return [Paragraph.of(SMOKE), Notes(tuple(claim.text for claim in report.collected.table.claims))]
    heads = (Head("claim"), Head("verdict"), Head("evidence"), Head("to decide it"))
    rows = [
        (
            verdict.claim.text,
            Judgement(verdict.word),
            verdict.detail,
            _needed(report, verdict),
        )
        for verdict in report.verdicts
    ]
    explained: Sentence = ("What the words mean, and when they are given: ", Code(STATISTICS), ".")
    seeds: Sentence = ("To decide it: ", EXPLAINED[0].lower() + EXPLAINED[1:])
    return [Paragraph((explained, seeds), style="note"), grid(heads, rows)] if rows else []


def _needed(report: Report, verdict: Verdict) -> str:
    if tone(verdict.word) == "open":
        return report.needed[verdict.claim]
    return DECIDED if verdict.word in ("supported", "refuted") else UNDECIDED


def _convergence(report: Report) -> list[Block]:
    titles = ("steps, by seed", "steps in the authors' log", "mean difference of the curves")
    heads = (Head("model"), *(Head(title, numeric=True) for title in titles))
    rows = [(row.row.label, *_steps(row)) for row in convergence(report.collected)]
    baseline = report.collected.table.rows[0].label
    return [Paragraph.of(SHARE.format(baseline), style="note"), grid(heads, rows)] if rows else []


def _steps(about: Convergence) -> tuple[GridCell, ...]:
    def text(reached: Reached | None) -> str:
        return "never" if reached is None else f"{reached.step:,.0f} ({reached.share:.0%})"

    steps = [", ".join(map(text, reached)) or None for reached in (about.by_seed, about.authors)]
    return *steps, ", ".join(f"{value:+.3f}" for value in about.differences) or None


def _differences(report: Report) -> list[Block]:
    card = METRICS[report.collected.table.headline]
    heads = (
        *(Head(title) for title in ("model", "baseline")),
        *(Head(title, numeric=True) for title in ("difference", "95 % interval", "p")),
    )
    rows = []
    for difference in report.differences:
        form = "+.1%" if difference.relative else f"+.{card.digits + 1}f"
        rows.append(
            (
                difference.row.label,
                difference.base.label,
                Number(difference.size, form),
                f"{difference.low:{form}} … {difference.high:{form}}",
                p_text(difference.p),
            )
        )
    if not rows:
        return []
    text = DIFFERENCES.format(card.name)
    if any(len(report.collected.finished(row.id)) == 1 for each in report.differences for row in (each.row, each.base)):
        text += f" {BORROWED}"
    if others := untested(report.collected, report.differences):
        text += f" Without an interval: {', '.join(f'{row.label} ({reason})' for row, reason in others)}."
    return [Paragraph.of(text, style="note"), grid(heads, rows)]


def _bootstrap(report: Report) -> list[Block]:
    metrics = dict.fromkeys(pair.metric for pair in report.compared)
    return [block for metric in metrics for block in _bootstrap_of(report, metric)]


def _bootstrap_of(report: Report, metric: str) -> tuple[Paragraph, Grid]:
    name, digits = ("BLEU", 2) if metric == "bleu" else (METRICS[metric].name, 4)
    pairs = [pair for pair in report.compared if pair.metric == metric]
    several = any(pair.of_means is not None for pair in pairs)
    titles = ("seed", name, "difference", "95 % interval", "p")
    numbers = [Head(title, numeric=True) for title in titles]
    means = [Head("difference of the means", numeric=True)] if several else []
    heads = (Head("model"), Head("baseline"), *numbers, Head("in words"), *means)
    rows = [
        (
            pair.row.label,
            pair.base.label,
            str(pair.seed) if pair.seed == pair.base_seed else f"{pair.seed}, baseline's {pair.base_seed}",
            Number(pair.value, f".{digits}f"),
            Number(pair.difference, f"+.{digits}f"),
            f"{pair.low:+.{digits}f} … {pair.high:+.{digits}f}",
            p_text(pair.p),
            pair.word,
            *[None if pair.of_means is None else Number(pair.of_means, f"+.{digits}f")] * several,
        )
        for pair in pairs
    ]
    text = BOOTSTRAP.format(units=UNITS[metric], metric=name) + OF_MEANS * several
    return Paragraph.of(text, style="note"), grid(heads, rows)


def _choices(report: Report) -> list[Block]:
    table, budget = report.collected.table, report.collected.budget
    changed = budget != "paper" and "paper" in table.budgets
    notes = _notes(table.choices)
    return [Paragraph.of(ELSEWHERE, style="note"), *notes] if notes and changed else notes


def _notes(texts: Sequence[str]) -> list[Block]:
    return [Notes(tuple(texts))] if texts else []
