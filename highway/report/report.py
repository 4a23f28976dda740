"""Builds the report of a table at a budget: what was measured, the verdicts, and the sections that show them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from highway.config.metrics import METRICS
from highway.report import choices, rates
from highway.report.answers import Answer, answers, counted
from highway.report.baselines import Difference, OnTestSet, differences, on_test_set
from highway.report.collect import Collected
from highway.report.convergence import Convergence, Reached, convergence
from highway.report.evidence import Verdict, p_text, verdicts
from highway.report.origins import origins
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
from highway.report.statistics import kendall_tau, on_log_scale
from highway.sweep.table import Figure

SPREAD = "The number after ± is the standard deviation over seeds."
LEARNED = "A run that has not learned is not in the mean of its row, unless none has learned."
MISSING = f"A dash ({DASH}): the paper gives no number."
SHARE = (
    "The value that every run of {0} has reached at its end. Steps are those of validations. In brackets: the share of "
    "the steps that {0} itself takes. The last column is the mean difference from its curve."
)
DIFFERENCES = (
    "The difference in {} between each row and its baseline at the seeds that both have, the 95 % interval of its mean "
    "and the p-value, both of a paired t-test. Where runs have failed, the p-value is that of ranks, and takes more "
    "runs (docs/STATISTICS.md)."
)
ON_TEST_SET = (
    "Rows that share one seed with their baseline: the difference between these two models, and its 95 % interval over "
    "resampled units of the test set. It says nothing of other seeds."
)
STATISTICS = "docs/STATISTICS.md"
SMOKE = "Smoke runs show that everything works; they give no verdict."
TIMES = "Times count only where nothing else ran."
ELSEWHERE = "These are the choices at paper budget. What this budget changes, named above, takes their place."


@dataclass(frozen=True)
class Report:
    collected: Collected
    rows: tuple[ResultRow, ...]
    verdicts: tuple[Verdict, ...]
    differences: tuple[Difference, ...]  # of rows from their baselines
    on_test_set: tuple[OnTestSet, ...]  # the same for rows that share one seed with their baseline
    answers: dict[tuple[str, str], Answer]  # by row and metric: the verdict on the paper's number
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
        text = f"Of {numbers}, {count['within']} lie within the 95 % interval of one more run of ours, "
        text += f"{count['outside']} outside"
        text += f", and {count['too wide']} in one that is too wide to tell" if count["too wide"] else ""
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
            f"Order of {len(pairs)} rows by {metric}, compared with the paper's order: Kendall's tau {tau:+.2f} "
            "(1: equal, -1: reversed)."
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
            ("on_test_set", "Compared on the test set", _on_test_set(self)),
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
    found = answers(collected)
    return Report(
        collected,
        tuple(result_row(row, collected, found) for row in rows),
        tuple(each for each in verdicts(collected) if not (collected.only_run and each.word == "not run")),
        tuple(differences(collected)),
        tuple(on_test_set(collected)),
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
    heads = (Head("claim"), Head("verdict"), Head("evidence"))
    rows = [(verdict.claim.text, Judgement(verdict.word), verdict.detail) for verdict in report.verdicts]
    explained: Sentence = ("What the words mean, and when they are given: ", Code(STATISTICS), ".")
    of_time = any(METRICS[verdict.claim.metric].is_disturbed for verdict in report.verdicts)
    sentences = (explained, (TIMES,)) if of_time else (explained,)
    return [Paragraph(sentences, style="note"), grid(heads, rows)] if rows else []


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
        *(Head(title) for title in ("model", "baseline", "runs of both")),
        *(Head(title, numeric=True) for title in ("difference", "95 % interval", "p")),
    )
    form = "+.1%" if on_log_scale(card.name) else f"+.{card.digits + 1}f"
    rows = [
        (
            each.row.label,
            each.base.label,
            each.runs,
            None if each.size is None else Number(each.size, form),
            None if each.size is None else f"{each.low:{form}} … {each.high:{form}}",
            None if each.p is None else p_text(each.p),
        )
        for each in report.differences
    ]
    return [Paragraph.of(DIFFERENCES.format(card.name), style="note"), grid(heads, rows)] if rows else []


def _on_test_set(report: Report) -> list[Block]:
    numbers = ("seed", "value", "difference", "95 % interval")
    heads = (*map(Head, ("model", "baseline", "metric")), *(Head(title, numeric=True) for title in numbers))
    rows = []
    for each in report.on_test_set:
        form = ".2f" if each.metric == "bleu" else ".4f"
        names = (each.row.label, each.base.label, METRICS[each.metric].title, str(each.seed))
        ends = f"{each.low:+{form}} … {each.high:+{form}}"
        rows.append((*names, Number(each.value, form), Number(each.difference, f"+{form}"), ends))
    return [Paragraph.of(ON_TEST_SET, style="note"), grid(heads, rows)] if rows else []


def _choices(report: Report) -> list[Block]:
    table, budget = report.collected.table, report.collected.budget
    changed = budget != "paper" and "paper" in table.budgets
    notes = _notes(table.choices)
    return [Paragraph.of(ELSEWHERE, style="note"), *notes] if notes and changed else notes


def _notes(texts: Sequence[str]) -> list[Block]:
    return [Notes(tuple(texts))] if texts else []
