"""The conclusion of a report: what a person wrote in the table file, filled with numbers; else a sentence of ours.

A finding of a paper's table is about the published runs: with others, ours is shown. It names numbers by row:

    {tanh.test_ppl}          our mean and its deviation over seeds, or the median and the range
    {tanh.test_ppl.mean}     the mean alone
    {tanh.test_ppl.n}        how many runs are in it
    {tanh.test_ppl.paper}    the paper's number
    {tanh.test_ppl.change}   the difference from the row's baseline, without its sign; of the metric of the claims alone
"""

import math
import re
from collections.abc import Mapping, Sequence

from highway.cards.metrics import METRICS
from highway.errors import counted, listing
from highway.report.baselines import Difference
from highway.report.collect import Collected
from highway.report.verdicts import Verdict, tone
from highway.tables.reading import command
from highway.tables.table import PLACEHOLDER

MOST = 3  # verdicts that a sentence of ours names


def conclusion(collected: Collected, differences: Mapping[str, Difference], verdicts: Sequence[Verdict]) -> str:
    """Return the conclusion of a report."""
    applies = not collected.has_overrides and (collected.as_published or not collected.table.paper)
    text = collected.table.finding.get(collected.budget, "") if applies else ""
    return filled(text, collected, differences) or generated(collected, differences, verdicts)


def filled(text: str, collected: Collected, differences: Mapping[str, Difference]) -> str:
    """Return a finding with its numbers; empty if one of them has no run, because its sentences then say too much."""
    numbers = {name: _number(name, collected, differences) for name in re.findall(PLACEHOLDER, text)}
    if not all(numbers.values()):
        return ""
    return " ".join(re.sub(PLACEHOLDER, lambda match: numbers[match[1]], text).split())


def _number(name: str, collected: Collected, differences: Mapping[str, Difference]) -> str:
    """Return the number that a placeholder names; empty if there is none."""
    row, metric, part = collected.table.number_named(name)
    digits = collected.table.digits(metric)
    if part == "paper":
        return f"{row.paper[metric]:g}"
    if part == "change":
        return differences[row.id].magnitude if row.id in differences else ""
    ours = collected.summary(row.id, metric)
    if ours is None:
        return ""
    return {"mean": f"{ours.mean:.{digits}f}", "n": str(ours.count)}.get(part) or ours.text(digits)


def generated(collected: Collected, differences: Mapping[str, Difference], verdicts: Sequence[Verdict]) -> str:
    """Return a sentence that names the verdicts which are decided; without any, the best and the worst row."""
    rows = [row for row in collected.table.rows if collected.finished(row.id)]
    if not collected.every:
        how = command(collected.table, collected.budget)
        return f"Not run. Type {how}." if collected.table.timed else f"Not run. To see what it takes: {how} plan=true"
    if not rows:
        statuses = dict.fromkeys(sample.result["status"] for sample in collected.every)
        return f"No run has finished ({listing([*statuses])})."
    if collected.only_works:
        return f"It works: {counted(len(rows), 'row')} trained on {collected.caveat}."
    decided = [verdict for verdict in verdicts if tone(verdict.word) != "open"]
    if not decided:
        return f"Nothing is decided. {_best_and_worst(collected)}".strip()
    clauses = [_clause(verdict, differences) for verdict in decided[:MOST]]
    others = {"decided": len(decided) - len(clauses), "undecided": len(verdicts) - len(decided)}
    more = [f"{number} more {word}" for word, number in others.items() if number]
    return f"{'; '.join([*clauses, *more])}."


def _clause(verdict: Verdict, differences: Mapping[str, Difference]) -> str:
    """Return a verdict in words: the difference of a row, or a claim with its evidence."""
    (row, *_), text = verdict.claim.rows, verdict.claim.text
    if text == row and row in differences and differences[row].size:
        return differences[row].in_words
    return f"{text}: {verdict.word} ({verdict.detail})"


def _best_and_worst(collected: Collected) -> str:
    """Return a sentence on the best and the worst row, of those that have learned; empty with fewer than two."""
    table, card = collected.table, METRICS[collected.table.headline]
    means: dict[str, float] = {}  # by label
    for row in table.rows:
        ours = collected.summary(row.id, card.name) if collected.learned(row.id) else None
        if ours and math.isfinite(ours.mean) and (collected.has_overrides or not row.extra):
            means[row.label] = ours.mean
    if len(means) < 2:
        return ""
    title = card.full_title
    ranked = sorted(means, key=lambda label: means[label], reverse=card.better == "higher")
    best, worst = (f"{means[label]:.{table.digits(card.name)}f} ({label})" for label in (ranked[0], ranked[-1]))
    return f"Best {title}: {best}; worst: {worst}."
