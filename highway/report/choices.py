"""The section of a report on the settings that validation has chosen."""

import math
from collections import Counter
from collections.abc import Sequence

from highway.config.metrics import METRICS
from highway.errors import counted, listing
from highway.report.sections import Block, Head, Notes, Paragraph, grid
from highway.report.trials import Decisions
from highway.sweep.choose import Choose
from highway.sweep.chosen import WHOLE, Decision, Trial
from highway.sweep.table import Row, Table


def described(table: Table, decisions: Decisions, shown: Sequence[Row]) -> list[Block]:
    """Return the section of a report on what was chosen; empty for a table in which nothing is.

    `shown` are the rows that the report lists.
    """
    if not decisions:
        return []
    heads = (Head("model"), Head("chosen"), Head("validation", numeric=True), Head("second best"), Head("trials"))
    lines = [
        _line(table.row(row_id), seed, found)
        for row_id, by_seed in decisions.items()
        for seed, found in by_seed.items()
    ]
    return [Paragraph.of(*_rule(table, decisions)), grid(heads, lines), *_notes(table, decisions, shown)]


def _rule(table: Table, decisions: Decisions) -> list[str]:
    """Describe the rule in sentences."""
    rows = [table.row(row_id) for row_id in decisions]
    rules = {row.label: row.choose.rule for row in rows if row.choose}
    texts = []
    for rule in dict.fromkeys(rules.values()):
        labels = [label for label, other in rules.items() if other == rule]
        texts.append(f"{'Each row' if len(labels) == len(rules) else listing(labels)}: {rule}")
    return texts


def _line(row: Row, seed: int, found: Decision) -> tuple[str | None, ...]:
    assert row.choose is not None
    label = row.label if row.choose.seeds == "first" else f"{row.label}, seed {seed}"
    ranked = _ranked(found, row.choose)
    second = next((trial for trial in ranked if trial != found.chosen), None)
    trials = ", ".join(f"{setting(trial)} {_standing(trial, found, row.choose)}" for trial in found.trials)
    if found.chosen is None:
        missing = f"not yet: {counted(len(found.missing), 'trial')} to train to {found.until:.0%} of the steps"
        return label, missing, None, None, trials
    card = METRICS[row.choose.by]
    value = found.chosen.last
    behind = None
    if second:
        number = _reached(second) - 1
        other, ours = second.values[number], found.chosen.values[number]
        if other is not None and ours is not None:
            at = "" if found.shares[number] == WHOLE else f" at {found.shares[number]:.0%}"
            behind = f"{setting(second)}: {other - ours:+.{card.digits + 1}f}{at}"
    edge = " (at the edge of the list)" if _at_edge(found, found.chosen) else ""
    source = row.choose.sources[found.trials.index(found.chosen)]
    origin = "from the paper's list" if source == "paper" else "from our own list"
    text = f"{setting(found.chosen)}{edge}, {origin}"
    return label, text, f"{value:.{card.digits + 1}f}", behind, trials


def _ranked(found: Decision, choose: Choose) -> list[Trial]:
    """Return the trials by how far they came, then by value; diverged ones are left out."""
    better = -1 if METRICS[choose.by].better == "higher" else 1
    known = [trial for trial in found.trials if trial.last is not None and math.isfinite(trial.last)]
    return sorted(known, key=lambda trial: (-_reached(trial), better * (trial.last or 0)))


def _reached(trial: Trial) -> int:
    return sum(value is not None for value in trial.values)


def setting(trial: Trial) -> str:
    """Return the values of a trial without the names of their keys."""
    return " ".join(override.split("=", 1)[1] for override in trial.combination)


def _standing(trial: Trial, found: Decision, choose: Choose) -> str:
    value = trial.last
    if value is None:
        return f"({trial.status})"
    if not math.isfinite(value):
        return "(diverged)"
    at = found.shares[_reached(trial) - 1]
    text = f"{value:.{METRICS[choose.by].digits}f}"
    return text if at == WHOLE else f"{text} at {at:.0%}{' (dropped)' if trial in found.dropped else ''}"


def _at_edge(found: Decision, chosen: Trial) -> bool:
    """Return whether one number was chosen, and the list has none above or none below it."""
    try:
        values = [float(setting(trial)) for trial in found.trials]
    except ValueError:  # texts, or several settings
        return False
    return float(setting(chosen)) in (min(values), max(values))


def _notes(table: Table, decisions: Decisions, shown: Sequence[Row]) -> list[Block]:
    notes = [*_not_alike(table, decisions, shown), *_left_behind(table, decisions)]
    return [Notes(tuple(notes))] if notes else []


def _not_alike(table: Table, decisions: Decisions, shown: Sequence[Row]) -> list[str]:
    """Say which of the compared rows have another number of trials."""
    ids = {row.id for row in shown} | set(decisions)
    rows = {row.id: row for row in table.rows if row.id in ids}
    trials = {
        row_id: len(row.choose.combinations) if row_id in decisions and row.choose else 1
        for row_id, row in rows.items()
    }
    usual = Counter(trials[row_id] for row_id in decisions).most_common(1)[0][0]
    other = [f"{rows[row_id].label} {counted(count, 'trial')}" for row_id, count in trials.items() if count != usual]
    return [f"Not tuned alike: most rows have {counted(usual, 'trial')}; {'; '.join(other)}."] if other else []


def _left_behind(table: Table, decisions: Decisions) -> list[str]:
    """Say where halving has left a trial behind that is better at its end: it had been trained before."""
    notes = []
    for row_id, found in ((row_id, found) for row_id, by_seed in decisions.items() for found in by_seed.values()):
        row = table.row(row_id)
        assert row.choose is not None
        ranked = [trial for trial in _ranked(found, row.choose) if trial.values[-1] is not None]
        if found.chosen is None or found.chosen not in ranked:  # all may have diverged
            continue
        best = f"{setting(found.chosen)} ({_standing(found.chosen, found, row.choose)})"
        for trial in ranked[: ranked.index(found.chosen)]:
            value = _standing(trial, found, row.choose)
            notes.append(
                f"{row.label}: halving left {setting(trial)} behind. It had been trained to its end before, "
                f"and is better there ({value}) than {best}, which was chosen."
            )
    return notes
