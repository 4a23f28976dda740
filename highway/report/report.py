"""Builds the report of a table at a budget: what was measured, the verdicts, and the sections that show them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from highway.report.bootstrap import Compared, compare
from highway.report.collect import Collected
from highway.report.convergence import Convergence, Reached, convergence
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
    Measured,
    Notes,
    Number,
    Paragraph,
    Picture,
    Section,
    Seeds,
    Sentence,
    grid,
)
from highway.report.statistics import Difference, Verdict, answer, differences, judge, kendall_tau, summarise
from highway.sweep.table import Column, Figure, Row

SPREAD = "The number after ± is the standard deviation over seeds."
MISSING = (
    f"A dash ({DASH}) means no value: no seed has finished, the paper gives no number, or other work disturbed the "
    "measured time."
)
SHARE = "In brackets: the share of the steps that {} itself takes to reach that value."
PAIRED = (
    "Mean difference in {} from {}, paired by seed: its 95 % confidence interval, and the p-value of a paired t-test "
    "after Holm's correction for all rows compared."
)
BOOTSTRAP = (
    "sacreBLEU's paired bootstrap over 1,000 resamples of the test sentences: BLEU with its 95 % interval, the "
    "difference, and its p-value. It is about these sentences and says nothing about other seeds."
)


@dataclass(frozen=True)
class ResultRow:
    row: Row
    seeds: Seeds
    measured: tuple[Measured, ...]  # by the table's columns
    also: tuple[Measured, ...]  # by the columns that the paper lacks


@dataclass(frozen=True)
class Report:
    collected: Collected
    rows: tuple[ResultRow, ...]
    verdicts: tuple[Verdict, ...]
    compared: tuple[Compared, ...]
    differences: dict[str, Difference]  # from the first row in the first column, by row id
    figures: tuple[Figure, ...] = ()  # drawn in the folder of the report

    @property
    def heading(self) -> str:
        return self.collected.table.heading

    @property
    def has_paper(self) -> bool:
        """False for a grid, and any other table without numbers of a paper."""
        return any(row.paper for row in self.collected.table.rows)

    @property
    def paper_numbers(self) -> list[Measured]:
        """The paper's numbers that this budget and this data can reproduce."""
        if self.collected.budget != "paper" or not self.collected.full_data:
            return []
        return [measured for row in self.rows for measured in row.measured if measured.paper is not None]

    @property
    def answers(self) -> str | None:
        """A sentence that counts how many of the paper's numbers come back; None where none is compared."""
        total = len(self.paper_numbers)
        answers = [measured.answer for measured in self.paper_numbers if measured.answer]
        if not total:
            return None
        if not answers:
            return f"None of {total} numbers of the paper has three seeds yet."
        back = sum(answer.comes_back for answer in answers)
        text = f"{back} of {total} numbers of the paper come back, {len(answers) - back} are missed"
        return f"{text}; {total - len(answers)} have no three seeds yet." if len(answers) < total else f"{text}."

    @property
    def origin(self) -> str:
        """A sentence on budget, data and checkpoint; every rendering has it."""
        table, budget = self.collected.table, self.collected.budget
        select = {"best": "model with the best validation", "last": "last model"}[table.select]
        numbers = f"numbers of the {select}" if table.kind == "training" else "medians over interleaved rounds"
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
        cells = [cell for row in self.rows for cell in row.measured if cell.column.metric == metric]
        pairs = [(cell.ours.mean, cell.paper) for cell in cells if cell.ours and cell.paper is not None]
        tau = kendall_tau([ours for ours, _ in pairs], [paper for _, paper in pairs])
        if tau is None:
            return None
        return f"Order of {len(pairs)} rows by {metric}, compared with the paper's order: Kendall's tau {tau:+.2f}."

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The report as every renderer shows it; a section without content is left out."""
        table = self.collected.table
        baseline = table.rows[0].label
        also = Grid(
            (Head("model"), *(Head(column.title, numeric=True) for column in table.also)),
            tuple(GridRow((row.row.label, *row.also), row.row) for row in self.rows),
        )
        contents: list[tuple[str, str, list[Block]]] = [
            ("results", "", _results(self)),
            ("also", "Also measured", [also] if table.also else []),
            ("claims", "Claims of the paper" if table.paper else "Claims", _claims(self)),
            ("convergence", f"Steps to reach the final {table.reaches} of {baseline}", _convergence(self)),
            ("differences", f"Compared with {baseline}", _differences(self)),
            ("bootstrap", "Paired bootstrap", _bootstrap(self)),
            ("figures", "Figures", [Picture(figure.id, figure.caption) for figure in self.figures]),
            ("choices", "What the paper leaves open, and what we chose", _notes(table.choices)),
            ("environments", "Where the runs were made", _notes(environments(self.collected))),
        ]
        return tuple(Section(key, title, tuple(blocks)) for key, title, blocks in contents if blocks)


def build_report(collected: Collected, figures: Sequence[Figure] = ()) -> Report:
    """Return the report of what was collected; `figures` are those drawn in its folder."""
    table = collected.table
    # Extra rows are listed once they have run, and so is every row in a report of overrides.
    rows = [row for row in table.rows if collected.samples[row.id] or not (row.extra or collected.only_run)]
    verdicts = [judge(claim, collected) for claim in table.claims]
    return Report(
        collected,
        tuple(_result_row(row, collected) for row in rows),
        tuple(verdict for verdict in verdicts if not (collected.only_run and verdict.word == "not run")),
        tuple(compare(collected)),
        differences(collected, table.columns[0].metric),
        tuple(figures),
    )


def _result_row(row: Row, collected: Collected) -> ResultRow:
    table = collected.table
    measured, also = (_measured(row, columns, collected) for columns in (table.columns, table.also))
    return ResultRow(row, Seeds(collected.samples[row.id]), measured, also)


def _measured(row: Row, columns: Sequence[Column], collected: Collected) -> tuple[Measured, ...]:
    cells = []
    for column in columns:
        samples = [sample for sample in collected.finished(row.id) if sample.counts_for(column.metric)]
        values = [sample.value(column.metric, collected.table.select) for sample in samples]
        paper = row.paper.get(column.metric)
        verdict = None if paper is None else answer(values, paper, column.digits, collected)
        cells.append(Measured(column, summarise(values), paper, bool(row.copied), verdict))
    return tuple(cells)


def environments(collected: Collected) -> list[str]:
    """Return each distinct device, version and commit that the records name."""
    texts: dict[str, None] = {}
    for sample in collected.every:
        environment, device = sample.result["environment"], sample.result["cost"]["device"]
        torch, precision = environment["versions"].get("torch"), environment["precision"]
        commit = environment["git_commit"] or "unknown"
        texts[f"{device}, torch {torch}, precision {precision}, commit {commit}"] = None
    return list(texts)


def _results(report: Report) -> list[Block]:
    table = report.collected.table
    heads = [Head(column.title, numeric=True, compared=report.has_paper) for column in table.columns]
    results = Grid(
        (Head("model"), Head("seeds"), *heads),
        tuple(GridRow((row.row.label, row.seeds, *row.measured), row.row) for row in report.rows),
    )
    has_spread = any(cell.ours and cell.ours.deviation is not None for row in report.rows for cell in row.measured)
    remarks = [*([SPREAD] if has_spread else []), *([MISSING] if results.missing_values else [])]
    origin = Paragraph(((report.origin,), *_overrides(report), *((text,) for text in remarks)))
    return [
        *([Paragraph.of(report.answers, style="strong")] if report.answers else []),
        origin,
        *(Paragraph.of(text, style="note") for text in (table.note, report.copied) if text),
        results,
        *([Paragraph.of(report.rank_agreement)] if report.rank_agreement else []),
    ]


def _overrides(report: Report) -> list[Sentence]:
    """Return what the budget changes in the recipe."""
    table, budget = report.collected.table, report.collected.budget
    overrides = table.budgets[budget]
    listed = [part for override in overrides for part in (", ", Code(override))][1:]
    recipe: Sentence = ("The recipe with ", *listed, ".") if overrides else ("The recipe unchanged.",)
    if not any(row.at_budget.get(budget) for row in table.rows):
        return [recipe]
    return [recipe, ("Some rows have further overrides: see ", Code(f"highway table explain {table.id}"), ".")]


def _claims(report: Report) -> list[Block]:
    heads = (Head("claim"), Head("verdict"), Head("evidence"))
    rows = [(verdict.claim.text, Judgement(verdict.word), verdict.detail) for verdict in report.verdicts]
    return [grid(heads, rows)] if rows else []


def _convergence(report: Report) -> list[Block]:
    titles = ("steps, by seed", "steps in the authors' log", "mean difference of the curves")
    heads = (Head("model"), *(Head(title, numeric=True) for title in titles))
    rows = convergence(report.collected)
    baseline = report.collected.table.rows[0].label
    return [Paragraph.of(SHARE.format(baseline), style="note"), grid(heads, list(map(_steps, rows)))] if rows else []


def _steps(about: Convergence) -> tuple[GridCell, ...]:
    def text(reached: Reached | None) -> str:
        return "never" if reached is None else f"{reached.step:,.0f} ({reached.share:.0%})"

    steps = [", ".join(map(text, reached)) or None for reached in (about.by_seed, about.authors)]
    return about.row.label, *steps, ", ".join(f"{value:+.3f}" for value in about.differences) or None


def _differences(report: Report) -> list[Block]:
    table = report.collected.table
    form = f"+.{table.columns[0].digits + 1}f"
    heads = (Head("model"), *(Head(title, numeric=True) for title in ("difference", "95 % interval", "p")))
    rows = [
        (
            table.row(row_id).label,
            Number(difference.mean, form),
            f"{difference.low:{form}} … {difference.high:{form}}",
            Number(difference.p, ".3f"),
        )
        for row_id, difference in report.differences.items()
    ]
    explained = PAIRED.format(table.columns[0].title, table.rows[0].label)
    return [Paragraph.of(explained, style="note"), grid(heads, rows)] if rows else []


def _bootstrap(report: Report) -> list[Block]:
    numbers = (Head(title, numeric=True) for title in ("seed", "BLEU", "difference", "p"))
    heads = (Head("model"), Head("baseline"), *numbers)
    rows = [
        (
            pair.row.label,
            pair.base.label,
            Number(pair.seed, "d"),
            Number(pair.bleu, ".2f", pair.half),
            Number(pair.difference, "+.2f"),
            Number(pair.p, ".3f") if pair.difference else None,  # sacreBLEU gives equal systems a p of almost 0
        )
        for pair in report.compared
    ]
    return [Paragraph.of(BOOTSTRAP, style="note"), grid(heads, rows)] if rows else []


def _notes(texts: Sequence[str]) -> list[Block]:
    return [Notes(tuple(texts))] if texts else []
