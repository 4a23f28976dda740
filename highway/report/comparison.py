"""Rows against their baselines: the difference in the metric of the claims, its interval and its p-value."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from highway.config.metrics import METRICS
from highway.report.claims import on_log_scale
from highway.report.collect import Collected
from highway.report.counting import is_sound
from highway.report.model import LEVEL, test_contrasts
from highway.report.verdicts import Records
from highway.sweep.table import Row

BORROWED = "A row with one seed takes its spread from the table's other rows."


@dataclass(frozen=True)
class Difference:
    """The difference of a row from its baseline; a share on the scale of ratios."""

    row: Row
    base: Row
    size: float
    low: float  # ends of the interval that covers all differences of the report together with 95 %
    high: float
    p: float  # of no difference, corrected for all differences of the report
    relative: bool


def untested(collected: Collected, tested: Sequence[Difference]) -> list[tuple[Row, str]]:
    """Return the rows that have run, as their baselines have, and have no difference, with the reason."""
    table, select = collected.table, collected.table.select
    with_difference = {difference.row.id for difference in tested}
    reasons = []
    for row in table.rows:
        base = table.base(row.id)
        if base is None or row.id in with_difference:
            continue
        runs, of_base = collected.samples[row.id], collected.samples[base]
        if runs and of_base and runs != of_base:
            failed = [not all(is_sound(sample, select) for sample in samples) for samples in (runs, of_base)]
            reason = "runs failed" if failed[0] else "runs of its baseline failed" if failed[1] else "too few seeds"
            reason = reason if collected.comparable(row.id, base) else "other data or vocabulary than its baseline"
            reasons.append((row, reason))
    return reasons


def differences(collected: Collected) -> list[Difference]:
    """Return the differences that the model of the table can test; none for smoke runs."""
    table, metric = collected.table, collected.table.headline
    if collected.budget == "smoke" or not collected.every:
        return []
    records, log = Records(collected), on_log_scale(metric)
    place = dict(zip(records.rows, records.place, strict=True))
    bases = [(row, table.row(base_id)) for row in table.rows if (base_id := table.base(row.id))]
    pairs = [(row, base) for row, base in bases if place[row.id] != place[base.id]]
    pairs = [(row, base) for row, base in pairs if collected.comparable(row.id, base.id)]
    if not pairs:
        return []
    contrasts = np.zeros((len(pairs), len(records.rows)))
    for contrast, (row, base) in zip(contrasts, pairs, strict=True):
        contrast[place[row.id]], contrast[place[base.id]] = 1, -1
    tests = test_contrasts(records.values(metric, log), contrasts, 0.0, records.floor(metric, log))
    known = np.flatnonzero(~np.isnan(tests.error[0]))
    sign = -1.0 if METRICS[metric].better == "lower" else 1.0
    found = []
    for number in known:
        size, error, freedom = (float(part[0, number]) for part in (tests.advantage, tests.error, tests.freedom))
        half = float(special.stdtrit(freedom, 1 - LEVEL / 2 / len(known))) * error
        p = min(1.0, 2 * len(known) * float(special.stdtr(freedom, -abs(size) / error)))
        ends = np.array([sign * size, sign * size - half, sign * size + half])
        size, low, high = (float(end) for end in (np.expm1(ends) if log else ends))
        found.append(Difference(*pairs[number], size, low, high, p, log))
    return found
