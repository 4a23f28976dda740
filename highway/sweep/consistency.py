"""Checks of a table as a whole, after each part of its file has been read: names, overrides, budgets, metrics."""

import itertools
import re
from collections.abc import Sequence

from highway.config.datasets import DATASETS
from highway.config.groups import options
from highway.config.metrics import METRICS, OF_A_RECORD, OF_A_TIMING
from highway.config.sections import SECTIONS
from highway.config.tasks import metrics_of
from highway.errors import Refused, closest, listing
from highway.sweep.table import PLACEHOLDER, Table

RECIPE = ("model", "dataset", *SECTIONS)
LONGEST_FINDING = 60  # words


def check_metric(name: str, where: str) -> None:
    """Refuse a metric that does not exist."""
    if name not in METRICS:
        raise Refused(f"{where}: metric {name} is unknown.{closest(name, list(METRICS))}")


def check_table(table: Table) -> None:
    """Refuse a table whose parts do not fit together."""
    for what, names in (
        ("rows have the id", [row.id for row in table.rows]),
        ("figures have the id", [figure.id for figure in table.figures]),
        ("columns show", [column.metric for column in (*table.columns, *table.also)]),
        ("baselines are compared with row", [row for rows in table.against.values() for row in rows]),
    ):
        if twice := [name for name in names if names.count(name) > 1]:
            raise Refused(f"{table.id}: two {what} {twice[0]}. Leave one of them out.")
    for base, rows in table.against.items():
        if base in rows:
            raise Refused(f"{table.id}, against: row {base} is compared with itself.")
    _check_overrides(table)
    _check_choices(table)
    if table.rounds == 1:
        raise Refused(f"{table.id}: a timed table reports medians over rounds. Write `rounds: 2` or more.")
    groups = [claim.rows + claim.than for claim in table.claims]
    groups += [figure.rows for figure in table.figures]
    groups += [rows for figure in table.figures for rows in figure.groups.values()]
    groups += [(base, *rows) for base, rows in table.against.items()]
    for row_id in itertools.chain.from_iterable(groups):
        table.row(row_id)
    for figure in table.figures:
        for row_id in itertools.chain.from_iterable(figure.groups.values() if figure.along else ()):
            if table.row(row_id).sets(figure.along) is None:
                raise Refused(f"{table.id}, figure {figure.id}: row {row_id} does not set {figure.along}.")
    _check_budgets(table)
    _check_findings(table)
    _check_metrics(table)


def _check_overrides(table: Table) -> None:
    """Refuse overrides that are not of a run's recipe, such as the folder where results are kept."""
    of_rows = [
        changes
        for row in table.rows
        for changes in (row.overrides, *row.at_budget.values(), *(row.choose.combinations if row.choose else ()))
    ]
    for override in itertools.chain(table.recipe, *table.budgets.values(), *of_rows):
        section = re.split(r"[.=]", override.lstrip("+"))[0]
        if section not in RECIPE and not override.startswith("hydra.searchpath="):
            raise Refused(
                f"{table.id}: {override} cannot be set in a table, only keys of {listing(list(RECIPE))}. "
                "Type it on the command line."
            )


def _check_choices(table: Table) -> None:
    """Refuse a setting that is chosen and that the row or a budget sets, too."""
    for row in table.rows:
        if row.choose is None:
            if row.chosen:
                raise Refused(f"{table.id}, row {row.id}: `chosen` needs `choose`, which lists what was compared.")
            continue
        for budget, settings in row.chosen.items():
            where = f"{table.id}, row {row.id}, chosen"
            if not row.choose.at(budget):
                raise Refused(f"{where}: `choose` chooses nothing at {budget}. Add {budget} to its `budgets`.")
            if settings not in row.choose.combinations:
                listed = listing([" ".join(combination) for combination in row.choose.combinations])
                raise Refused(
                    f"{where}: {' '.join(settings)} is not among what `choose` compares. Write one of {listed}."
                )
        if table.timed:
            raise Refused(f"{table.id}: a timed table has no validation, so it cannot choose. Leave `choose` out.")
        check_metric(row.choose.by, f"{table.id}, choose")
        if METRICS[row.choose.by].split != "valid":
            raise Refused(
                f"{table.id}, choose: by: {row.choose.by} is not a metric of the validation split. Name one that is, "
                "such as valid_loss."
            )
        for budget in row.choose.budgets:
            if budget not in table.budgets:
                raise Refused(
                    f"{table.id}, choose: there is no budget {budget}. It has {listing(list(table.budgets))}."
                )
        by_budget = [
            set[str]().union(*map(_keys, (table.budgets[budget], row.at_budget.get(budget, ()))))
            for budget in table.budgets
        ]
        for key in row.choose.keys:
            if key in _keys(row.overrides).union(*by_budget):
                raise Refused(f"{table.id}: {key} is chosen, but row {row.id} or a budget sets it, too. Leave one out.")


def _check_budgets(table: Table) -> None:
    known = options("budget")
    for budget in table.budgets:
        if budget not in known:
            raise Refused(f"{table.id}: budget {budget} does not exist. Available: {listing(known)}.")
    for row in table.rows:
        for budget in (*row.budgets, *row.at_budget):
            if budget not in table.budgets:
                raise Refused(
                    f"{table.id}: row {row.id} names budget {budget}, which the table lacks. "
                    f"Available: {listing(list(table.budgets))}."
                )
    for budget, overrides in table.budgets.items():
        for row in table.at(budget):
            for key in _keys(row.overrides) & _keys(overrides):
                raise Refused(
                    f"{table.id}: budget {budget} sets {key}, which row {row.id} sets too. "
                    "Set the key for this row under its `at_budget`, or leave it out of the budget."
                )


def _check_findings(table: Table) -> None:
    """Refuse a conclusion that is long, or that names a number which no report has."""
    for budget, text in table.finding.items():
        where = f"{table.id}, finding at {budget}"
        if budget not in table.budgets:
            raise Refused(f"{where}: the table lacks this budget. Available: {listing(list(table.budgets))}.")
        if (words := len(text.split())) > LONGEST_FINDING:
            raise Refused(f"{where}: it has {words} words. Write at most {LONGEST_FINDING}.")
        for name in re.findall(PLACEHOLDER, text):
            try:
                row, metric, part = table.number_named(name)
            except Refused as refused:
                raise Refused(f"{where}: {refused}") from None
            if part == "paper" and metric not in row.paper:
                raise Refused(f"{where}: row '{row.id}' has no {metric} of the paper. Add it under `paper`.")
            if part == "change" and metric != table.headline:
                compared = f"{{{row.id}.{table.headline}.change}}"
                raise Refused(f"{where}: rows are compared by {table.headline}. Write {compared}.")


def _check_metrics(table: Table) -> None:
    """Refuse a table that names a metric which its records lack."""
    available = OF_A_TIMING if table.timed else [*_given(table), *OF_A_RECORD]
    shown = [column.metric for column in (*table.columns, *table.also)]
    used = [*shown, *(metric for row in table.rows for metric in row.paper)]
    used += [metric for claim in table.claims for metric in (claim.metric, claim.to) if metric]
    used += [
        f"{split}_{metric}" if figure.kind == "curves" else metric
        for figure in table.figures
        for metric in figure.metrics
        for split in figure.splits or ("",)
        if split != "train"  # every task shows its loss there
    ]
    for by in {row.choose.by for row in table.rows if row.choose}:
        if by not in available:
            validations = [metric for metric in available if metric.startswith("valid_")]
            mend = f"They measure {listing(validations)}."
            if not validations:
                mend = "They have no validation split: hold out a part of the training set as a data set of its own."
            raise Refused(f"{table.id}, choose: its runs do not measure {by}. {mend}")
    for metric in used:
        if metric not in available:
            raise Refused(f"{table.id}: its runs do not measure {metric}. They measure {listing(list(available))}.")
    for metric in [metric for figure in table.figures if figure.kind != "curves" for metric in figure.metrics]:
        if metric not in shown:
            raise Refused(f"{table.id}: a figure draws {metric}, which is not a column. Add it to columns or also.")


def _given(table: Table) -> Sequence[str]:
    """List the metrics of a table's records, as the data set of its first row defines them."""
    from highway.config.compose import compose  # imports Hydra

    values = dict(override.split("=", 1) for override in (*table.recipe, *table.rows[0].overrides))
    options = [f"{key}={value}" for key, value in values.items() if "." not in key or key == "hydra.searchpath"]
    dataset = compose(options).dataset
    card = DATASETS[dataset.name]
    return list(metrics_of(card.task, values.get("dataset.metric", dataset.metric), card.watched))


def _keys(overrides: Sequence[str]) -> set[str]:
    return {override.split("=", 1)[0].lstrip("+~") for override in overrides}
