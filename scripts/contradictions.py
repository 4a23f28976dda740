"""Compare what papers say with their own numbers. Nothing is trained, and only the table files are read."""

import itertools
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from highway.cards.metrics import METRICS
from highway.config.experiment import Experiment
from highway.ledger.identity import identity
from highway.tables.table import Claim, Column, Stated, Table

BUDGET = "paper"  # the budget whose rows are audited
SAME_MODEL = "both papers describe the same model on the same text"
CHANCE = 1e-3  # equal numbers with a lower probability are no coincidence


@dataclass(frozen=True)
class Finding:
    """A statement of a paper or of its code, and what was computed about it."""

    table: Table
    says: str  # what the paper or its code says or does
    computed: str  # what was computed
    holds: bool  # whether the two agree
    command: str = ""  # the command that shows it, if other than `python scripts/audit.py TABLE`
    read: str = ""  # what a person read in a paper or its code, on which `holds` rests besides the numbers


def of_numbers(table: Table) -> Iterator[Finding]:
    """Compare the numbers of a table with each other and with the paper's text."""
    for column in table.columns:
        yield from _losses(table, column)
        yield from _ties(table, column)
    for claim in table.claims if table.paper else ():
        yield from _claim(table, claim)
    for stated in table.stated:
        if stated.metric:
            yield _stated(table, stated)


def _losses(table: Table, column: Column) -> Iterator[Finding]:
    """Compare perplexity or bits per character with the loss of the same row, of which they are functions."""
    card = METRICS[column.metric]
    loss = next((other for other in table.columns if other.metric == f"{card.split}_loss"), None)
    if card.kind not in ("bpc", "ppl") or loss is None:
        return
    rows = [row for row in table.rows if {loss.metric, column.metric} <= set(row.paper)]
    wrong = [row for row in rows if not _fits(card.kind, row.paper, loss, column)]
    for row in wrong:
        of_it = _of_loss(card.kind, row.paper[loss.metric])
        printed = f"{row.paper[column.metric]:.{column.digits}f}"
        says = f"{row.label}: {loss.title} {row.paper[loss.metric]:g}, {column.title} {printed}"
        yield Finding(table, says, f"a loss of {row.paper[loss.metric]:g} is {of_it:.{column.digits}f}", holds=False)
    if column.printed:
        other = "ppl" if card.kind == "bpc" else "bpc"
        as_printed = sum(_fits(other, row.paper, loss, column) for row in rows)
        first, value = (rows[0].paper[metric] for metric in (loss.metric, column.metric))
        computed = (
            f"{len(rows) - len(wrong)} of {len(rows)} values are loss / ln 2, {as_printed} are exp(loss): these are "
            f"bits per character ({rows[0].label}: {value:g}, where exp({first:g}) is {math.exp(first):.2f})"
        )
        holds = as_printed == len(rows)
        yield Finding(table, f"a column headed {column.printed} ({column.metric})", computed, holds)
    elif not wrong:
        yield Finding(table, f"{column.title} beside {loss.title}", f"all {len(rows)} values agree", holds=True)


def _of_loss(kind: str, loss: float) -> float:
    return loss / math.log(2) if kind == "bpc" else math.exp(loss)


def _fits(kind: str, paper: dict[str, float], loss: Column, column: Column) -> bool:
    """Return whether the loss and the value of the column can be roundings of the same number."""
    half, value = 0.5 * 10 ** -min(loss.digits, _digits(paper[loss.metric])), paper[column.metric]
    low, high = (_of_loss(kind, paper[loss.metric] + side * half) for side in (-1, 1))
    rounding = 0.5 * 10 ** -(column.digits if kind == "bpc" else _digits(value))  # perplexities have one or two digits
    return low - rounding - 1e-9 <= value <= high + rounding + 1e-9


def _digits(value: float) -> int:
    """Return the number of digits after the decimal point, as printed."""
    return len(f"{value:.10f}".rstrip("0").partition(".")[2])


def _ties(table: Table, column: Column) -> Iterator[Finding]:
    """Report values that several rows share, if so many equal values are unlikely by chance."""
    values = [row.paper[column.metric] for row in table.rows if column.metric in row.paper]
    equal = {value: count for value, count in Counter(values).items() if count > 1}
    bins = (max(values) - min(values)) * 10**column.digits if values else 0
    if not equal or not bins:
        return
    chance = 1.0  # approximate probability of so many ties of each size, if all values are equally likely
    for size, ties in Counter(equal.values()).items():
        chance *= (math.comb(len(values), size) / bins ** (size - 1)) ** ties / math.factorial(ties)
    if chance < CHANCE:
        counts = " and ".join(f"{value:g} {count} times" for value, count in sorted(equal.items(), reverse=True))
        computed = f"by chance with a probability of {chance:.0e}, if all values in their range are equally likely"
        yield Finding(table, f"{column.title} of different models: {counts}", computed, holds=False)


def _claim(table: Table, claim: Claim) -> Iterator[Finding]:
    """Judge a claim of the paper by the paper's own numbers."""
    numbers = {row.id: row.paper for row in table.rows}
    if claim.over or not all(claim.metric in numbers[row] for row in (*claim.rows, *claim.than)):
        return
    if claim.kind == "better":
        gains = {pair: _advantage(claim, *(numbers[row][claim.metric] for row in pair)) for pair in claim.pairs}
        (row, than), worst = min(gains.items(), key=lambda item: item[1])
        by = f"{numbers[row][claim.metric]:g} against {numbers[than][claim.metric]:g}"
        holding = f"{sum(gain > 0 for gain in gains.values())} of {len(gains)} pairs; " if len(gains) > 1 else ""
        detail = f"{holding}{table.row(row).label} against {table.row(than).label}: {by}"
    elif claim.kind == "growing":
        gains_in_turn = [_advantage(claim, *(numbers[row][claim.metric] for row in pair)) for pair in claim.pairs]
        worst = min(later - earlier for earlier, later in itertools.pairwise(gains_in_turn))
        detail = f"{claim.metric}: {', '.join(f'{gain:+.3g}' for gain in gains_in_turn)}"
    else:
        return  # the share of `at_most` is our own wording
    yield Finding(table, f"{claim.where}: {claim.text}", detail, worst > 0)


def _advantage(claim: Claim, value: float, than: float) -> float:
    difference = value - (1 + claim.share) * than
    return -difference if METRICS[claim.metric].better == "lower" else difference


def _stated(table: Table, stated: Stated) -> Finding:
    """Compare a statement with the table: a row's value, or a mean difference in percent."""
    numbers = {row.id: row.paper for row in table.rows}
    values = [numbers[row][stated.metric] for row in stated.rows]
    if stated.value is not None:
        holds = values[0] == stated.value
        return Finding(table, stated.text, f"the table has {values[0]:g}", holds)
    bases = [numbers[row][stated.metric] for row in stated.than]
    changes = [100 * (value / base - 1) for value, base in zip(values, bases, strict=True)]
    mean = statistics.fmean(changes)
    each = f" (row by row: {_listed(changes)})" if len(changes) > 1 else ""
    assert stated.percent is not None
    rounding = 0.5 * 10 ** -_digits(stated.percent)
    spread = max(_sensitivity(table, stated, value, base) for value, base in zip(values, bases, strict=True))
    holds = abs(mean - stated.percent) <= rounding + spread
    return Finding(table, stated.text, f"by the table {mean:+.2f} %{each}", holds)


def _sensitivity(table: Table, stated: Stated, value: float, base: float) -> float:
    """Return by how many percent the rounding of two printed numbers can change their ratio."""
    half = 0.5 * 10 ** -next(column.digits for column in table.columns if column.metric == stated.metric)
    return 100 * half * (1 / base + value / base**2)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:+.1f}" for value in values)


def between(tables: Sequence[Table], experiments: dict[tuple[str, str], Experiment]) -> Iterator[Finding]:
    """Compare what the papers print for rows that we read as the same model on the same text.

    Rows count as the same even if their training or their initial values differ.
    """
    alike: dict[str, list[tuple[Table, str]]] = {}
    for table in tables:
        for row in table.rows:
            if row.paper and not row.copied and not table.timed and not row.extra:
                keys = identity(experiments[table.id, row.id])["keys"]
                model = {key: value for key, value in keys["model"].items() if not key.startswith("init")}
                parts = {**keys, "model": model, "optimizer": {}, "trainer": {}}
                alike.setdefault(json.dumps(parts, sort_keys=True), []).append((table, row.id))
    for rows in alike.values():
        for (table, row_id), (other, other_id) in itertools.combinations(rows, 2):
            ours, theirs = table.row(row_id).paper, other.row(other_id).paper
            for metric in sorted(ours.keys() & theirs.keys()):
                digits = min(_digits(ours[metric]), _digits(theirs[metric]))
                says = f"{table.row(row_id).label}: {METRICS[metric].name} {ours[metric]:g} in {table.paper}"
                agree = round(ours[metric], digits) == round(theirs[metric], digits)
                yield Finding(table, says, f"{theirs[metric]:g} in {other.paper}", agree, read=SAME_MODEL)
