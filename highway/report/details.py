"""Tables that a report leaves out: metrics, runs, settings chosen by validation, readings, divided rates, and cost.

The site folds these tables below a report. One CSV file has a line for each row, metric and seed, another for each
claim.
"""

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from highway.cards.metrics import METRICS, OF_A_RECORD
from highway.errors import counted, listing
from highway.ledger.files import written_atomically
from highway.report.collect import Collected
from highway.report.sample import Sample
from highway.report.table_block import Line, TableBlock, without_empty
from highway.report.verdicts import PaperVerdicts, Verdict
from highway.tables.choose import FIRST_SEED, Choice, Trial
from highway.tables.table import Row

if TYPE_CHECKING:
    import pandas as pd

CSV_COLUMNS = (
    *("table", "budget", "data", "row", "label", "extra", "chosen"),
    *("seed", "status", "metric", "value", "counts", "paper", "device", "torch", "precision", "commit"),
)
CLAIM_COLUMNS = (
    *("table", "budget", "data", "claim", "metric", "verdict", "evidence"),
    *("row", "baseline", "unit", "paper_effect", "effect", "low", "high", "word", "quote", "where"),
)
FIRST_DIVIDED, TIMES_DIVIDED = "rate_first_divided_after_epoch", "rate_divided_times"
NEAR = 0.03  # the share by which a reading's validation may differ from the paper's
AT_SIZE = ("paper", "medium")  # the budgets with the paper's model and data
READINGS = (
    f"Given our other choices, a reading is excluded if its lowest value is more than {100 * NEAR:g} % below the "
    "paper's, or still as far above it once a run of all the paper's epochs has finished."
)
DIVIDED = "Validation decides when the learning rate is divided, which is part of the spread over seeds."
COUNTS = "Times and speeds count only where nothing else ran on the machine."


def status_of(sample: Sample, select: str) -> str:
    """Return `finished`, how the run ended otherwise, or that it has learned no more than counting."""
    unchecked = ", not compared with counting" if sample.is_unchecked else ""
    return sample.unlearned(select) or sample.result["status"] + unchecked


def details(collected: Collected, paper_verdicts: PaperVerdicts | None = None) -> list[TableBlock]:
    """Return the tables that the site folds; those without content are left out.

    paper_verdicts: the verdicts on the paper's numbers, by row and metric.
    """
    blocks = [
        _metrics(collected, paper_verdicts or {}),
        _by_seed(collected),
        _choices(collected),
        readings(collected),
        _divisions(collected),
        _cost(collected),
    ]
    return [without_empty(block) for block in blocks if block.lines]


def _metrics(collected: Collected, paper_verdicts: PaperVerdicts) -> TableBlock:
    """Return the mean of every metric that the table shows, the paper's number, and the verdict on it."""
    table = collected.table
    columns = [*table.columns, *table.also]
    lines = []
    for row in table.rows:
        for column in columns:
            ours, paper = collected.summary(row.id, column.metric), row.paper.get(column.metric)
            if ours or (paper is not None and collected.samples[row.id]):
                texts = ours.text(column.digits) if ours else "", "" if paper is None else column.text(paper)
                verdict = paper_verdicts.get((row.id, column.metric))
                shown = (row.label, column.title, *texts, str(ours.count) if ours else "0", str(verdict or ""))
                lines.append(Line(shown, row.extra))
    heads = ("model", "metric", "ours", "paper", "n", "verdict")
    return TableBlock("Every metric", heads, tuple(lines), ("ours", "paper", "n"))


def _by_seed(collected: Collected) -> TableBlock:
    table = collected.table
    columns = [*table.columns, *table.also]
    lines = []
    for row, sample in collected.runs:
        values = [
            f"{sample.value(column.metric, table.select):.{column.digits}f}" if _has(sample, column.metric) else ""
            for column in columns
        ]
        lines.append(Line((row.label, str(sample.seed), status_of(sample, table.select), *values), row.extra))
    titles = tuple(column.title for column in columns)
    heads = ("model", "seed", "status", *titles)
    return TableBlock("Every run", heads, tuple(lines), ("seed", *titles))


def _choices(collected: Collected) -> TableBlock:
    """Return what validation chose in each row, and what it compared."""
    lines = [_choice(collected.table.row(row_id), found) for row_id, found in collected.choices.items()]
    heads = ("model", "chosen", "by", "from", "compared")
    title = f"Settings chosen by validation of seed {FIRST_SEED}"
    return TableBlock(title, heads, tuple(lines), note=_not_alike(collected) if lines else "")


def _not_alike(collected: Collected) -> str:
    """Say which of the compared rows have another number of trials; empty if all have the same."""
    choices = collected.choices
    rows = [row for row in collected.table.rows if row.id in choices or collected.samples[row.id] or not row.extra]
    trials = {row.id: len(choices[row.id].trials) if row.id in choices else 1 for row in rows}
    usual = Counter(trials[row_id] for row_id in choices).most_common(1)[0][0]
    other = [f"{row.label} {counted(trials[row.id], 'trial')}" for row in rows if trials[row.id] != usual]
    return f"Not tuned alike: most rows have {counted(usual, 'trial')}; {'; '.join(other)}." if other else ""


def _choice(row: Row, found: Choice) -> Line:
    assert row.choose is not None
    winner = found.winner
    compared = listing([f"{trial.setting} {_standing(trial, row.choose.by, winner)}" for trial in found.trials])
    if winner is None:
        missing = sum(not trial.ended for trial in found.trials)
        why = f"not yet: {counted(missing, 'trial')} to train" if missing else "nothing: every trial has failed"
        return Line((row.label, why, row.choose.by, "", compared), row.extra)
    source = row.choose.sources[found.trials.index(winner)]
    origin = "the paper's list" if source == "paper" else "our own list"
    edge = " (at the edge of the list)" if _at_edge(found, winner) else ""
    return Line((row.label, winner.setting + edge, row.choose.by, origin, compared), row.extra)


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


def readings(collected: Collected) -> TableBlock:
    """Return which readings of a recipe the paper's validation excludes. It has no lines at another size or data."""
    table = collected.table
    if not table.readings or collected.budget not in AT_SIZE or not collected.full_data:
        return TableBlock("", (), ())
    card = METRICS[table.validation]
    lines = []
    for row_id, others in table.readings.items():
        paper = table.row(row_id).paper[card.name]
        for row in map(table.row, (row_id, *others)):
            curves = [curve for sample in collected.samples[row.id] if (curve := sample.curve(card))]
            if curves:
                lowest = min(point.value for curve in curves for point in curve)
                epochs = max(curve[-1].epoch for curve in curves)
                ended = collected.budget == "paper" and collected.finished(row.id)
                above = ended and lowest > paper * (1 + NEAR)
                excluded = "yes, below" if lowest < paper * (1 - NEAR) else "yes, above" if above else "no"
                numbers = (f"{value:.{card.digits}f}" for value in (lowest, paper))
                lines.append(Line((row.label, f"{epochs:.0f}", *numbers, excluded), row.extra))
    numeric = ("epochs", "lowest", "paper")
    note = f"The lowest validation {card.title} of all runs. {READINGS}"
    return TableBlock("Readings of the recipe", ("reading", *numeric, "excluded"), tuple(lines), numeric, note)


def _divisions(collected: Collected) -> TableBlock:
    """Return when validation divided each run's learning rate."""
    table, metric = collected.table, collected.table.headline
    lines = []
    for row, sample in collected.runs:
        if sample.finished and sample.divisions and _has(sample, metric):
            first, times = sample.divisions
            value = f"{sample.value(metric, table.select):.{table.digits(metric)}f}"
            shown = (row.label, str(sample.seed), "never" if first is None else str(first), str(times), value)
            lines.append(Line(shown, row.extra))
    if not any(line.texts[3] != "0" for line in lines):
        lines = []
    numeric = ("seed", "first divided after epoch", "times divided", metric)
    return TableBlock("When the learning rate was divided", ("model", *numeric), tuple(lines), numeric, DIVIDED)


def _cost(collected: Collected) -> TableBlock:
    lines = []
    for row, sample in () if collected.table.timed else collected.runs:
        cost, parameters = sample.result["cost"], sample.result.get("parameters") or {}
        beside = "" if cost.get("exclusive", True) else "yes"
        shown = (
            *(row.label, str(sample.seed)),
            *(_number(parameters.get(name), ",.0f") for name in ("total", "gate")),
            *(_number(cost.get("seconds"), ".2f", 3600), _number(cost.get("tokens_per_second"), ",.0f")),
            *(_number(cost.get("peak_memory_bytes"), ",.0f", 1 << 20), cost["device"], beside),
        )
        lines.append(Line(shown, row.extra))
    numeric = ("seed", "parameters", "of gates", "hours", "tokens/s", "MiB")
    heads = ("model", *numeric, "device", "beside other work")
    return TableBlock("Parameters and cost", heads, tuple(lines), numeric, COUNTS)


def _number(value: float | None, form: str, unit: float = 1) -> str:
    return "" if value is None else f"{value / unit:{form}}"


def _has(sample: Sample, metric: str) -> bool:
    return sample.finished and (metric in OF_A_RECORD or metric in sample.result["metrics"])


def to_csv(collected: Collected) -> str:
    """Return a line for each row, metric and seed, with every digit; `counts` is True where the mean has the value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    table = collected.table
    of_records = () if table.timed else OF_A_RECORD
    metrics = dict.fromkeys([*(column.metric for column in (*table.columns, *table.also)), *of_records])
    in_means = {(row.id, metric): collected.by_seed(row.id, metric) for row in table.rows for metric in metrics}
    for row, sample in collected.runs:
        found = collected.choices.get(row.id)
        chosen = " ".join(found.chosen) if found and found.chosen else ""
        origin = (table.id, collected.budget, sample.result["data"]["source"], row.id, row.label, row.extra, chosen)
        run = (*origin, sample.seed, status_of(sample, table.select))
        for metric, value in _values(sample, list(metrics), table.select):
            counts = sample.seed in in_means.get((row.id, metric), ())
            line = (*run, metric, value, counts, row.paper.get(metric), *_environment(sample))
            writer.writerow(map(no_formula, line))
    return text.getvalue()


def claims_to_csv(collected: Collected, verdicts: Sequence[Verdict]) -> str:
    """Return a line for each claim, with the paper's effect, ours and its 95 % interval; empty without claims."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CLAIM_COLUMNS)
    for verdict in verdicts:
        claim, found = verdict.claim, verdict.effect
        about = (collected.table.id, collected.budget, collected.data_source, claim.text, claim.metric, str(verdict))
        effect: list[object] = [None] * 8
        if found:
            sizes = (found.ours.value, found.ours.low, found.ours.high) if found.ours else (math.nan,) * 3
            ours = [None if math.isnan(size) else size for size in sizes]
            unit = "share" if found.paper.is_share else METRICS[claim.metric].unit or METRICS[claim.metric].kind
            effect = [found.row.id, found.base.id, unit, round(found.paper.value, 9), *ours, found.word]
        writer.writerow(map(no_formula, (*about, verdict.detail, *effect, claim.quote, claim.where)))
    return text.getvalue() if verdicts else ""


def _values(sample: Sample, metrics: list[str], select: str) -> list[tuple[str, float | None]]:
    """Return the values of a run by metric, and when its rate was divided; a run without any has one empty value."""
    values: list[tuple[str, float | None]] = [
        (metric, sample.value(metric, select)) for metric in metrics if _has(sample, metric)
    ]
    cost = sample.result["cost"]
    values += [("hours", cost["seconds"] / 3600)] if "seconds" in cost else []
    values += [("peak_memory_mib", cost["peak_memory_bytes"] / (1 << 20))] if cost.get("peak_memory_bytes") else []
    if sample.divisions:
        values += list(zip((FIRST_DIVIDED, TIMES_DIVIDED), sample.divisions, strict=True))
    return values or [(metrics[0], None)]


def _environment(sample: Sample) -> tuple[object, ...]:
    environment = sample.result["environment"]
    versions, project = environment["versions"], environment.get("project", {})
    commits = [environment["git_commit"] or "unknown", project.get("package"), project.get("git_commit")]
    commit = " ".join(filter(None, commits))  # as in `1ea2472 myproject 397b4b0+`
    return sample.result["cost"]["device"], versions.get("torch"), environment["precision"], commit


def no_formula(cell: object) -> object:
    """Mark a text that a spreadsheet would take for a formula, as it asks for it: with an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell


def write_frame(frame: "pd.DataFrame", path: Path) -> None:
    """Write a frame as Parquet or, if the name of the file ends in .csv, as CSV."""
    with written_atomically(path) as binary:
        frame.map(no_formula).to_csv(binary, index=False) if path.suffix == ".csv" else frame.to_parquet(binary)
