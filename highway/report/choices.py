"""The section of a report on the settings that validation has chosen."""

import math
from collections import Counter
from collections.abc import Sequence

from highway.config.metrics import METRICS
from highway.errors import counted, listing
from highway.report.rows import Choices
from highway.report.sections import Block, Head, Notes, Paragraph, grid
from highway.sweep.choose import FIRST_SEED
from highway.sweep.chosen import Choice, Trial
from highway.sweep.table import Row, Table


def described(table: Table, choices: Choices, shown: Sequence[Row]) -> list[Block]:
    """Return the section; empty for a table in which nothing is chosen. `shown` are the rows that the report lists."""
    if not choices:
        return []
    heads = (Head("model"), Head("chosen"), Head("validation", numeric=True), Head("among"))
    lines = [_line(table.row(row_id), found) for row_id, found in choices.items()]
    alike = _not_alike(table, choices, shown)
    return [Paragraph.of(*_rules(table, choices)), grid(heads, lines), *([Notes((alike,))] if alike else [])]


def _rules(table: Table, choices: Choices) -> list[str]:
    """Say in sentences what is chosen in which rows, and by which metric."""
    rules: dict[str, list[str]] = {}
    for row in map(table.row, choices):
        if row.choose:
            rule = f"{listing(list(row.choose.keys))} by {METRICS[row.choose.by].name} of seed {FIRST_SEED}"
            rules.setdefault(rule, []).append(row.label)
    return [f"{'Each row' if len(rules) == 1 else listing(labels)}: {rule}." for rule, labels in rules.items()]


def _line(row: Row, found: Choice) -> tuple[str | None, ...]:
    assert row.choose is not None
    winner = found.winner
    trials = ", ".join(f"{trial.setting} {_standing(trial, row.choose.by, winner)}" for trial in found.trials)
    if winner is None:
        missing = sum(not trial.ended for trial in found.trials)
        why = f"not yet: {counted(missing, 'trial')} to train" if missing else "nothing: every trial has failed"
        return row.label, why, None, trials
    edge = " (at the edge of the list)" if _at_edge(found, winner) else ""
    source = row.choose.sources[found.trials.index(winner)]
    origin = "from the paper's list" if source == "paper" else "from our own list"
    value = None if winner.value is None else f"{winner.value:.{METRICS[row.choose.by].digits + 1}f}"
    return row.label, f"{winner.setting}{edge}, {origin}", value, trials


def _standing(trial: Trial, by: str, winner: Trial | None) -> str:
    if trial.value is None or not math.isfinite(trial.value):
        stopped = trial.status == "interrupted" and winner  # a file may state what was chosen without it
        return "(stopped early)" if stopped else f"({trial.status})"
    return f"{trial.value:.{METRICS[by].digits}f}"


def _at_edge(found: Choice, chosen: Trial) -> bool:
    """Return whether one number was chosen, and the list has none above or none below it."""
    try:
        values = [float(trial.setting) for trial in found.trials]
    except ValueError:  # texts, or several settings
        return False
    return float(chosen.setting) in (min(values), max(values))


def _not_alike(table: Table, choices: Choices, shown: Sequence[Row]) -> str:
    """Say which of the compared rows have another number of trials; empty if all have the same."""
    ids = {row.id for row in shown} | set(choices)
    rows = [row for row in table.rows if row.id in ids]
    trials = {row.id: len(choices[row.id].trials) if row.id in choices else 1 for row in rows}
    usual = Counter(trials[row_id] for row_id in choices).most_common(1)[0][0]
    other = [f"{row.label} {counted(trials[row.id], 'trial')}" for row in rows if trials[row.id] != usual]
    return f"Not tuned alike: most rows have {counted(usual, 'trial')}; {'; '.join(other)}." if other else ""
