"""The conclusion of a report: what a person wrote in the table file, filled with numbers; else a sentence of ours.

A finding names numbers by row and metric, so that it cannot go stale:

    {tanh.test_ppl}          our mean and its deviation over seeds
    {tanh.test_ppl.mean}     the mean alone
    {tanh.test_ppl.n}        how many runs are in it
    {tanh.test_ppl.paper}    the paper's number
    {tanh.test_ppl.change}   the difference from the row's baseline, without its sign; of the metric of the claims alone
"""

import re
from collections.abc import Mapping, Sequence

from highway.config.metrics import METRICS
from highway.errors import counted, listing
from highway.report.baselines import Difference
from highway.report.collect import Collected
from highway.sweep.grid import command
from highway.sweep.table import PLACEHOLDER, Row

MOST = 3  # rows that a sentence of ours names


def conclusion(collected: Collected, differences: Mapping[str, Difference]) -> str:
    """Return the conclusion of a report."""
    text = "" if collected.only_run else collected.table.finding.get(collected.budget, "")
    return filled(text, collected, differences) or generated(collected, differences)


def filled(text: str, collected: Collected, differences: Mapping[str, Difference]) -> str:
    """Return a finding with its numbers; empty if one of them has no run, because its sentences then say too much."""
    numbers = {name: _number(name, collected, differences) for name in re.findall(PLACEHOLDER, text)}
    if not all(numbers.values()):
        return ""
    return " ".join(re.sub(PLACEHOLDER, lambda match: numbers[match[1]], text).split())


def _number(name: str, collected: Collected, differences: Mapping[str, Difference]) -> str:
    """Return the number that a placeholder names; empty if there is none."""
    row, metric, *part = name.split(".")
    what, digits = part[0] if part else "", collected.table.digits(metric)
    if what == "paper":
        return f"{collected.table.row(row).paper[metric]:g}"
    if what == "change":
        return differences[row].magnitude if row in differences else ""
    ours = collected.summary(row, metric)
    if ours is None:
        return ""
    return {"mean": f"{ours.mean:.{digits}f}", "n": str(ours.count)}.get(what) or ours.text(digits)


def generated(collected: Collected, differences: Mapping[str, Difference]) -> str:
    """Return a sentence on what was found, from the rows' differences from their baselines."""
    table = collected.table
    if not collected.every:
        return f"Not run. To see what it takes: {command(table, collected.budget)} plan=true"
    rows = [row for row in table.rows if collected.finished(row.id)]
    if collected.budget == "smoke":
        return f"It works: {counted(len(rows), 'row')} trained on {collected.caveat}."
    compared = [each for each in differences.values() if each.seeds > 1]
    shown = [each for each in compared if not each.row.extra] or compared
    if not shown:
        return _best_and_worst(collected, rows)
    clear = sorted((each for each in shown if each.is_clear), key=lambda each: -abs(each.size))
    clauses = [each.in_words for each in clear[:MOST]]
    clauses += [f"{len(clear) - MOST} more rows differ from theirs"] if len(clear) > MOST else []
    if open_rows := len(shown) - len(clear):
        clauses.append(f"{counted(open_rows, 'row')} cannot be told from the baseline")
    return f"{'; '.join(clauses)}."


def _best_and_worst(collected: Collected, rows: Sequence[Row]) -> str:
    """Return a sentence for a table in which no row shares two seeds with its baseline."""
    card = METRICS[collected.table.headline]
    means = {row.label: found.mean for row in rows if (found := collected.summary(row.id, card.name))}
    if not means:
        statuses = dict.fromkeys(sample.result["status"] for sample in collected.every)
        return f"No run has a {card.name} that counts ({listing([*statuses])})."
    ranked = sorted(means, key=lambda label: means[label], reverse=card.better == "higher")
    digits = collected.table.digits(card.name)
    ends = [f"{label} has {means[label]:.{digits}f}" for label in dict.fromkeys((ranked[0], ranked[-1]))]
    order = f"best, {ends[0]}; worst, {ends[-1]}" if len(ends) > 1 else ends[0]
    return f"By {card.name}: {order}. Two shared seeds give an interval, three a verdict."
