"""The papers at one glance: what each claims, what we found and how sure that is; how many numbers were tried."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from highway.cards.papers import PAPERS, paper_name
from highway.config.home import CONF
from highway.errors import counted, listing
from highway.report.content import Report
from highway.report.render import first_sentence
from highway.report.verdicts import AGREE, DISAGREE, ENOUGH, NOT_REPRODUCED, PAPER_WORDS, counted_numbers, tone
from highway.tables.table import Table

TESTED = (*AGREE, *DISAGREE, "undecided")
LARGEST = ("paper", "medium", "mini")  # budgets, the largest first


@dataclass(frozen=True)
class Outcome:
    """A paper in one line, from the report that stands for it."""

    paper: str
    report: Report

    @property
    def message(self) -> str:
        """The claim of the paper, in our words."""
        return PAPERS[self.paper].message

    @property
    def found(self) -> str:
        """The finding: the first sentence of the report."""
        return first_sentence(self.report.conclusion)

    @property
    def sure(self) -> str:
        """A sentence on the first claim: the size and the data of its runs, how many there are, what they decide."""
        collected, verdict = self.report.collected, self.report.verdicts[0]
        claim = verdict.claim
        counts = sorted(len(collected.by_seed(row, claim.metric)) for row in (*claim.rows, *claim.than))
        runs = counted(counts[0], "run") if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]} runs"
        size = "At the paper's size" if collected.budget == "paper" else f"Smaller or shorter ({collected.budget})"
        data = "" if collected.full_data else ", on other data"
        return f"{size}{data}, {runs} a row: {_certainty(verdict.word)}."


def _certainty(word: str) -> str:
    """Return what the verdict on a claim decides."""
    if word.startswith(("supported", "refuted")):
        return word
    if word.startswith("undecided"):
        return "not decided yet"
    if tone(word) == "open":
        return "not tested"
    if NOT_REPRODUCED in word:
        return "decided for our models only, whose baseline misses the paper's number"
    return "decided for this size and these data only"


@dataclass(frozen=True)
class Overview:
    """The outcome of the papers' tables so far; tables of one's own do not count."""

    total: int  # numbers of the papers that can be tried
    tried: int  # those that have a run at paper budget on the paper's data
    paper_verdicts: Counter[str]  # those that have enough seeds, by PAPER_WORDS
    claims: dict[str, Counter[str]]  # budget -> verdicts on the claims that were tested
    outcomes: tuple[Outcome, ...]  # of the papers that have runs
    not_run: tuple[Table, ...]

    @property
    def sentences(self) -> list[str]:
        """The sentences that begin the overview, in README as on the terminal and on the site."""
        within, outside, too_wide = (self.paper_verdicts[word] for word in PAPER_WORDS)
        few = self.tried - self.paper_verdicts.total()
        fewer = f", {few} without {ENOUGH} runs that learned" if few else ""
        text = f"{self.tried} of the papers' {self.total} numbers have been tried at the paper's own size: "
        text += f"{within} within (where one more run of ours would fall, or up to 1 % from our mean), "
        text += f"{outside} outside, {too_wide} in an interval too wide to tell{fewer}."
        of_claims = []
        for budget, count in self.claims.items():
            words = listing([f"{number} {word}" for word, number in count.most_common()])
            of_claims += [f"{counted(count.total(), 'claim')} tested at budget {budget}: {words}."] if count else []
        return [text, *of_claims]

    @property
    def missing(self) -> str:
        """A sentence that names the tables without a run; empty if there are none."""
        return f"Not run: {listing([table.id for table in self.not_run])}." if self.not_run else ""


def of_papers(table: Table) -> bool:
    """Return whether a table is one of the four papers', as this package has it."""
    return bool(table.paper and not table.added) and (CONF / "table" / f"{table.id}.yaml").exists()


def overview(tables: Iterable[Table], reports: Sequence[Report]) -> Overview:
    """Return the overview of these tables from their reports at all budgets."""
    papers = [table for table in tables if of_papers(table)]
    ran = [report for report in reports if of_papers(report.collected.table) and report.collected.every]
    at_paper = [report for report in ran if report.collected.budget == "paper" and report.collected.full_data]
    tried = [
        (report, row, column)
        for report in at_paper
        for row, column in counted_numbers(report.collected.table)
        if report.collected.samples[row]
    ]
    claims = {
        budget: Counter(
            verdict.word.partition(" (")[0]
            for report in ran
            for verdict in report.verdicts
            if report.collected.budget == budget and verdict.word.startswith(TESTED)
        )
        for budget in LARGEST
    }
    return Overview(
        sum(len(counted_numbers(table)) for table in papers),
        len(tried),
        Counter(answer.word for report in at_paper for answer in report.paper_verdicts.values()),
        claims,
        _outcomes(ran),
        tuple(table for table in papers if table.id not in {report.collected.table.id for report in ran}),
    )


def _outcomes(reports: Iterable[Report]) -> tuple[Outcome, ...]:
    """Return for each paper the outcome of the report at the largest budget; of several, the one with most runs."""
    found: dict[str, Report] = {}
    known = [report for report in reports if report.collected.budget in LARGEST and report.verdicts]
    for report in sorted(known, key=lambda each: (LARGEST.index(each.collected.budget), -len(each.collected.every))):
        found.setdefault(paper_name(report.collected.table.paper), report)
    return tuple(Outcome(paper, found[paper]) for paper in PAPERS if paper in found)
