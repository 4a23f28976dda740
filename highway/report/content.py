"""The report of a table at a budget as data: the conclusion, one table, figures, claims, and where it ran.

`render.py` lays it out. What does not fit in one minute of reading is in `details.py`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from highway.cards.metrics import METRICS, OF_A_RECORD
from highway.errors import counted, listing
from highway.keys.schema import dotted
from highway.ledger.identity import identity
from highway.report.baselines import DASH, Difference, differences
from highway.report.collect import Collected
from highway.report.details import details
from highway.report.finding import conclusion
from highway.report.table_block import Line, TableBlock, without_empty
from highway.report.verdicts import (
    ENOUGH,
    NOT_RUN,
    PAPER_WORDS,
    PaperVerdicts,
    Verdict,
    counted_numbers,
    paper_verdicts,
    tone,
    verdicts,
)
from highway.tables.reading import command
from highway.tables.table import Column, Figure, Row
from highway.tables.typed import as_override

COPIED = "†"
ONLY_ALONE = "Times count only where nothing else ran."
SPREAD = "Median (lowest to highest) where runs spread by more than 5 %, or not all learned."
NOT_LEARNED = "Not learned: no better than the frequencies in training."
STATISTICS_PAGE = "docs/STATISTICS.md"


@dataclass(frozen=True)
class Report:
    collected: Collected
    conclusion: str
    rows: tuple[Row, ...]  # those that the table lists
    verdicts: tuple[Verdict, ...]
    differences: dict[str, Difference]  # of rows from their baselines, by row
    paper_verdicts: PaperVerdicts
    figures: tuple[Figure, ...] = ()  # drawn in the folder of the report; the first one is shown

    @property
    def heading(self) -> str:
        return self.collected.table.heading

    @property
    def origin(self) -> str:
        """A sentence on budget and data; a grid names its budget if it is not `paper`."""
        table, budget = self.collected.table, self.collected.budget
        parts = [] if table.command and budget == "paper" else [f"Budget {budget}"]
        unchanged = budget == "paper" and table.paper and not (self.overrides or self.collected.has_overrides)
        parts += ["the recipe unchanged"] if unchanged else []
        parts += ["further changes by row"] if any(row.at_budget.get(budget) for row in self.rows) else []
        caveat = self.collected.caveat
        parts += [caveat] if table.paper or self.collected.data_source != "files" else []
        parts += [self.collected.measured] if table.timed else []
        text = ", ".join(parts)
        return f"{text[0].upper()}{text[1:]}." if parts else ""

    @cached_property
    def overrides(self) -> Sequence[str]:
        """The settings of all runs that the budget changes; in a table of one's own, all that they share."""
        table = self.collected.table
        return table.budgets[self.collected.budget] if table.paper else _shared(self.collected)

    @cached_property
    def results(self) -> TableBlock:
        """The one table: the paper's number, ours, and the difference from the baseline."""
        table = self.collected.table
        titles = {column.metric: column.title for column in table.columns}
        ours = "ours" if table.paper else titles.get(table.headline, METRICS[table.headline].title)
        others = tuple(column.title for column in self._other_columns)
        heads = ("model", "paper", ours, *others, "n", "difference", "verdict")
        lines = tuple(map(self._line, self.rows))
        return without_empty(TableBlock("", heads, lines, ("paper", ours, *others, "n", "difference"), self._note))

    @property
    def _other_columns(self) -> list[Column]:
        """The columns beside that of the claims; a table of a paper has them among the details."""
        table = self.collected.table
        return [] if table.paper else [column for column in table.columns if column.metric != table.headline]

    def _line(self, row: Row) -> Line:
        collected, table, metric = self.collected, self.collected.table, self.collected.table.headline
        digits = {column.metric: column.digits for column in table.columns}.get(metric, METRICS[metric].digits)
        shown = metric in row.paper and not collected.only_works
        paper = f"{row.paper[metric]:.{digits}f}{COPIED if row.copied else ''}" if shown else ""
        verdict, difference = self.paper_verdicts.get((row.id, metric)), self.differences.get(row.id)
        base = f" from {self._bases[row.id]}" if row.id in self._bases else ""
        texts = (
            row.label,
            paper,
            self._ours(row, metric, table.digits(metric)),
            *(self._ours(row, column.metric, column.digits) for column in self._other_columns),
            _runs(row, collected),
            f"{difference or ''}{base}",
            str(verdict) if verdict else self._words.get(row.id, ""),
        )
        return Line(texts, row.extra)

    def _ours(self, row: Row, metric: str, digits: int) -> str:
        """Return the mean or the spread of a metric over the runs of a row. Without one: why, if it is the headline."""
        if summary := self.collected.summary(row.id, metric):
            return summary.text(digits)
        return _reason(row, metric, self.collected) if metric == self.collected.table.headline else ""

    @property
    def _lacks_times(self) -> bool:
        """True if a run has a time that the table leaves out, because other work ran beside it."""
        collected = self.collected
        shown = [collected.table.headline, *(column.metric for column in self._other_columns)]
        return any(
            _is_disturbed(row, metric, collected) and not collected.summary(row.id, metric)
            for row in self.rows
            for metric in shown
        )

    @cached_property
    def _words(self) -> dict[str, str]:
        """The verdict on each row that was compared, where there are no claims."""
        compared = () if self._has_claims else (each for each in self.verdicts if each.word != NOT_RUN)
        return {each.claim.rows[0]: str(each) for each in compared}

    @property
    def _has_claims(self) -> bool:
        """False where the verdicts are on rows: they are then in the one table."""
        return bool(self.collected.table.claims) and not self.collected.has_overrides

    @property
    def _on_claims(self) -> tuple[Verdict, ...]:
        return self.verdicts if self._has_claims else ()

    @cached_property
    def _bases(self) -> dict[str, str]:
        """The labels of the baselines that the table has to name: those unlike its first.

        Empty if each is the last baseline above its row.
        """
        shown = {row: each.base for row, each in self.differences.items() if each.size}
        above: dict[str, str | None] = {}
        last = None
        for row in self.rows:
            above[row.id] = last
            last = last if self.collected.table.base(row.id) else row.id
        if len({base.id for base in shown.values()}) == 1 or all(above.get(row) == shown[row].id for row in shown):
            return {}
        first = next(iter(shown.values()))
        return {row: base.label for row, base in shown.items() if base.id != first.id}

    @property
    def _note(self) -> str:
        """Say what the table shows."""
        table, card = self.collected.table, METRICS[self.collected.table.headline]
        model = "" if table.timed else f" of the {table.select} model"
        summaries = [self.collected.summary(row.id, card.name) for row in self.rows]
        title = card.full_title
        sentences = [f"{title[0].upper()}{title[1:]}{model}, {card.better} is better; ± over seeds, n runs."]
        sentences += [SPREAD] if any(each and each.spread for each in summaries) else []
        sentences += [ONLY_ALONE] if self._lacks_times else []
        shown = [each for each in self.differences.values() if each.size]
        labels = list(dict.fromkeys(each.base.label for each in shown))
        named = " or the baseline named" if self._bases else ""
        of = f"{labels[0]}{named}" if len(labels) == 1 or named else "the baseline above"
        sentences += [f"Difference of means from {of}, 95 % interval."] if shown else []
        sentences += [f"{DASH}: a run of the row or its baseline failed."] if len(shown) < len(self.differences) else []
        sentences += [NOT_LEARNED] if any(map(self.collected.has_unlearned, self.rows)) else []
        sentences += (
            ["Verdict: the paper's number and the 95 % interval of one more run."] if self.paper_verdicts else []
        )
        sources = dict.fromkeys(row.copied for row in self.rows if row.copied)
        sentences += [f"{COPIED} copied by the paper from {listing([*sources])}, not judged."] if sources else []
        sentences += ["Slanted rows are ours."] if table.paper and any(row.extra for row in self.rows) else []
        return " ".join(sentences)

    @property
    def answered(self) -> str:
        """A sentence that counts how many of the paper's numbers are reproduced; empty where none is judged."""
        if not self.paper_verdicts:
            return ""
        count = Counter(verdict.word for verdict in self.paper_verdicts.values())
        total = len(counted_numbers(self.collected.table))
        words = [f"{count[word]} {word}" for word in PAPER_WORDS]
        words += [f"{total - count.total()} without {ENOUGH} runs that learned"] if total > count.total() else []
        return f"Of {counted(total, 'number')} of the paper: {listing(words)} ({STATISTICS_PAGE})."

    @cached_property
    def claims(self) -> TableBlock | None:
        """The claims that were tested, those that are decided first; None if there are none."""
        tested = [verdict for verdict in self._on_claims if verdict.detail]
        tested.sort(key=lambda verdict: tone(verdict.word) == "open")
        lines = [Line((each.claim.text, str(each), each.detail, str(each.effect or ""))) for each in tested]
        words = f"; words: {STATISTICS_PAGE}" if self.collected.table.paper else ""
        note = f"p is corrected for all claims, intervals and effects are not{words}."
        block = TableBlock("Claims", ("claim", "verdict", "evidence", "effect"), tuple(lines), (), note)
        return without_empty(block) if lines else None

    @property
    def effects(self) -> TableBlock:
        """The effects that claims are about, of rows that have run: the paper's, ours, and a word."""
        found = [(each.claim.text, each.effect) for each in self._on_claims if each.effect]
        lines = [Line((text, each.paper.text, str(each.ours), each.word)) for text, each in found if each.ours]
        return TableBlock("Effects", ("claim", "paper", "ours", "effect"), tuple(lines), ("paper", "ours"))

    @property
    def untested(self) -> tuple[Verdict, ...]:
        """The claims without evidence: runs are missing, or nothing tests them."""
        return tuple(each for each in self._on_claims if not each.detail)

    @property
    def missing(self) -> str:
        """A sentence that counts these claims by the reason."""
        count = Counter(verdict.word for verdict in self.untested)
        if not count:
            return ""
        parts = [f"{counted(number, 'claim')} ({word})" for word, number in count.items()]
        text = f"Without a verdict: {listing(parts)}."
        of_time = any(METRICS[verdict.claim.metric].is_disturbed for verdict in self.untested)
        return f"{text} {ONLY_ALONE}" if of_time else text

    @property
    def choices(self) -> tuple[str, ...]:
        """Notes on what the paper leaves open and what we chose; none for smoke runs and for overrides."""
        table = self.collected.table
        left_out = self.collected.only_works or self.collected.has_overrides
        return () if left_out else tuple(filter(None, (table.note, *table.choices)))

    @property
    def ran(self) -> str:
        """A line on the devices, versions and commits of the runs."""
        every = {(sample.directory, sample.seed): sample.result for sample in self.collected.every}.values()
        if not every:
            return ""
        devices = Counter(result["cost"]["device"] for result in every)
        versions = dict.fromkeys(str(result["environment"]["versions"].get("torch")) for result in every)
        environments = [result["environment"] for result in every]  # with the commit of a project, if there is one
        commits = {(each["git_commit"], each.get("project", {}).get("git_commit")) for each in environments}
        ran = [f"{device} ({counted(count, 'run')})" for device, count in devices.most_common()]
        ran[2:] = [f"{len(ran) - 2} others"] if len(ran) > 2 else []
        return f"Ran on {listing(ran)}; torch {listing([*versions])}; {counted(len(commits), 'commit')} (table.csv)."

    @property
    def next(self) -> str:
        """The command to type after a smoke report; empty otherwise."""
        table = self.collected.table
        larger = [budget for budget in ("mini", "paper") if budget in table.budgets]
        return command(table, larger[0]) if self.collected.only_works and larger else ""

    @cached_property
    def details(self) -> list[TableBlock]:
        """The tables that the site folds below the report."""
        lines = tuple(Line((each.claim.text, each.claim.quoted, str(each))) for each in self._on_claims)
        claims = without_empty(TableBlock("Every claim", ("claim", "the paper", "verdict"), lines))
        blocks = [block for block in (claims, self.effects) if block.lines]
        return [*blocks, *details(self.collected, self.paper_verdicts)]


def build_report(collected: Collected, figures: Sequence[Figure] = ()) -> Report:
    """Return the report of what was collected; `figures` are those drawn in its folder."""
    table = collected.table
    # Extra rows are listed once they have run, and so is every row in a report of overrides.
    rows = [row for row in table.rows if collected.has_ended(row.id) or not (row.extra or collected.has_overrides)]
    compared, on_paper = differences(collected), paper_verdicts(collected)
    judged = verdicts(collected, on_paper)
    return Report(
        collected,
        conclusion(collected, compared, judged),
        tuple(rows),
        tuple(judged),
        compared,
        on_paper,
        tuple(figures),
    )


def _runs(row: Row, collected: Collected) -> str:
    """Return how many runs are in the mean of a row, and why others are not: `6 of 7 (1 diverged)`."""
    finished, learned = collected.finished(row.id), collected.learned(row.id)
    counting = collected.by_seed(row.id, collected.table.headline)
    failed = collected.failed.get(row.id, 0)
    total, count = len(collected.samples[row.id]) + failed, len(counting)
    why = {
        "failed": failed,
        "diverged": total - failed - len(finished),
        "not learned": len(finished) - len(learned) if learned else 0,
    }
    why[_uncounted(row, collected.table.headline, collected)] = total - count - sum(why.values())
    reasons = [f"{number} {word}" for word, number in why.items() if number > 0]
    reasons += ["none learned"] if finished and not learned else []
    text = str(count) if count == total else f"{count} of {total}"
    return f"{text} ({listing(reasons)})" if reasons else text if total else ""


def _reason(row: Row, metric: str, collected: Collected) -> str:
    """Return why a row has no value of a metric."""
    if not collected.has_ended(row.id):
        return "not run" if row.at(collected.budget) else "not at this budget"
    if not collected.finished(row.id):
        return ""  # the number of runs says that they diverged or failed
    return _uncounted(row, metric, collected)


def _uncounted(row: Row, metric: str, collected: Collected) -> str:
    """Return why a finished run of a row has no value of a metric that counts."""
    return "beside other work" if _is_disturbed(row, metric, collected) else "not measured"


def _is_disturbed(row: Row, metric: str, collected: Collected) -> bool:
    """Return True if a finished run of a row has this time, whether it counts or not."""
    measured = (metric in OF_A_RECORD or metric in run.result["metrics"] for run in collected.finished(row.id))
    return METRICS[metric].is_disturbed and any(measured)


def _shared(collected: Collected) -> tuple[str, ...]:
    """Return the settings that all runs share and that differ from the defaults, as one types them."""
    rows = [row.id for row in collected.table.rows if collected.samples[row.id]]
    keys = [dotted(identity(collected.experiment(row))["keys"]) for row in rows]
    if not keys:
        return ()
    return tuple(
        as_override(key, value)
        for key, value in keys[0].items()
        if all(key in other and other[key] == value for other in keys)
    )
