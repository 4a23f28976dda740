"""Refuse a table whose parts do not fit together, with a message before anything runs."""

import itertools
import re
from collections.abc import Iterable, Sequence

from highway.cards.datasets import DATASETS
from highway.cards.metrics import LIKELIHOOD, OF_A_RECORD, OF_A_TIMING
from highway.cards.tasks import metrics_of
from highway.config.experiment import SECTIONS
from highway.config.groups import options
from highway.errors import Refused, closest, listing
from highway.tables.table import PLACEHOLDER, Table

RECIPE = ("model", "dataset", *SECTIONS)
LONGEST_FINDING = 60  # words


def check_table(table: Table) -> None:
    """Refuse a table whose parts do not fit together."""
    _check_names(table)
    _check_claims(table)
    _check_overrides(table)
    _check_choices(table)
    _check_budgets(table)
    _check_findings(table)
    _check_metrics(table)


def _check_names(table: Table) -> None:
    """Refuse a name that two parts have, and a row or a budget that is named and not there."""
    for what, names in (
        ("rows have the id", [row.id for row in table.rows]),
        ("figures have the id", [figure.id for figure in table.figures]),
        ("columns show", [column.metric for column in (*table.columns, *table.also)]),
        ("baselines are compared with row", [row for rows in table.against.values() for row in rows]),
    ):
        if twice := [name for name in names if names.count(name) > 1]:
            raise Refused(f"{table.id}: two {what} {twice[0]}. Leave one of them out.")
    rows = [row.id for row in table.rows]
    for claim in table.claims:
        _refuse_unknown(f"{table.id}, claim '{claim.text}'", "row", [*claim.rows, *claim.than], rows)
    for figure in table.figures:
        of_groups = itertools.chain.from_iterable(figure.groups.values())
        _refuse_unknown(f"{table.id}, figure {figure.id}", "row", [*figure.rows, *of_groups], rows)
    for stated in table.stated:
        _refuse_unknown(f"{table.id}, stated '{stated.text}'", "row", [*stated.rows, *stated.than], rows)
    for row in (row for row in table.rows if row.parameters_of):
        where = f"{table.id}, row {row.id}, parameters_of"
        _refuse_unknown(where, "row", [row.parameters_of], rows)
        other = table.row(row.parameters_of)
        if other.parameters_of or other.choose:
            key = "parameters_of" if other.parameters_of else "choose"
            raise Refused(f"{where}: row {other.id} has `{key}`. Name a row without it.")
        if missing := [budget for budget in table.budgets if row.at(budget) and not other.at(budget)]:
            raise Refused(f"{where}: row {other.id} is not at budget {missing[0]}. Set `budgets` of {row.id} alike.")
    for base, names in table.against.items():
        _refuse_unknown(f"{table.id}, against", "row", [base, *names], rows)
        if base in names:
            raise Refused(f"{table.id}, against: row {base} is compared with itself.")
    for row_id, names in table.readings.items():
        _refuse_unknown(f"{table.id}, readings", "row", [row_id, *names], rows)
        if (metric := table.validation) not in table.row(row_id).paper:
            raise Refused(f"{table.id}, readings: row {row_id} has no {metric} of the paper. Add it under `paper`.")
    _refuse_unknown(table.id, "budget", table.budgets, options("budget"))
    _refuse_unknown(f"{table.id}, finding", "budget", table.finding, list(table.budgets))
    for row in table.rows:
        budgets = [*row.budgets, *row.at_budget, *row.chosen, *(row.choose.budgets if row.choose else ())]
        _refuse_unknown(f"{table.id}, row {row.id}", "budget", budgets, list(table.budgets))


def _refuse_unknown(where: str, kind: str, names: Iterable[str], known: list[str]) -> None:
    for name in names:
        if name not in known:
            raise Refused(f"{where}: there is no {kind} '{name}'.{closest(name, known)} Available: {listing(known)}.")


def _check_claims(table: Table) -> None:
    """Refuse a claim or a statement that its rows do not allow, and a series over a key that is no number in a row."""
    for claim in table.claims:
        where = f"{table.id}, claim '{claim.text}'"
        if not claim.than:
            raise Refused(f"{where}: `rest` leaves no row to compare with. Name the rows in `than`.")
        if (claim.paired or claim.kind == "growing") and len(claim.rows) != len(claim.than):
            raise Refused(
                f"{where}: it pairs {len(claim.rows)} rows with {len(claim.than)}. Name as many rows in `than`."
            )
        if claim.kind == "growing" and len(claim.rows) < 2:
            raise Refused(f"{where}: one gain does not grow. Name two rows or more.")
        if itself := [row for row, other in claim.pairs if row == other]:
            raise Refused(f"{where}: it compares row {itself[0]} with itself.")
    for stated in (stated for stated in table.stated if stated.of_metric):
        for name in (*stated.rows, *stated.than):
            if stated.metric not in table.row(name).paper:
                where = f"{table.id}, stated '{stated.text}'"
                raise Refused(f"{where}: row '{name}' has no {stated.metric} of the paper. Add it under `paper`.")
    for figure in (figure for figure in table.figures if figure.along):
        for name in itertools.chain.from_iterable(figure.groups.values()):
            try:
                float(table.row(name).sets(figure.along) or "")
            except ValueError:
                where = f"{table.id}, figure {figure.id}"
                raise Refused(f"{where}: row {name} does not set {figure.along} to a number.") from None


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
        by_budget = [
            set[str]().union(*map(_keys, (table.budgets[budget], row.at_budget.get(budget, ()))))
            for budget in table.budgets
        ]
        for key in row.choose.keys:
            if key in _keys(row.overrides).union(*by_budget):
                raise Refused(f"{table.id}: {key} is chosen, but row {row.id} or a budget sets it, too. Leave one out.")


def _check_budgets(table: Table) -> None:
    """Refuse a budget that sets what a row sets, so that it is clear which of them counts."""
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
    beside_loss, of_runs = metrics_of_runs([*table.recipe, *table.rows[0].overrides])
    available = OF_A_TIMING if table.timed else [*of_runs, *OF_A_RECORD]
    of_training = [f"train_{kind}" for kind in ("loss", beside_loss) if kind in LIKELIHOOD]  # curves and no results
    shown = [column.metric for column in (*table.columns, *table.also)]
    used = [*shown, *(metric for row in table.rows for metric in row.paper)]
    used += [claim.metric for claim in table.claims if not (claim.over and claim.metric in of_training)]
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


def metrics_of_runs(overrides: Sequence[str]) -> tuple[str, list[str]]:
    """Return the metric shown beside the loss, and all metrics that runs measure, as their data set defines them."""
    from highway.config.compose import compose  # imports Hydra

    values = dict(override.split("=", 1) for override in overrides)
    options = [f"{key}={value}" for key, value in values.items() if "." not in key or key == "hydra.searchpath"]
    dataset = compose(options).dataset
    card, metric = DATASETS[dataset.name], values.get("dataset.metric", dataset.metric)
    return metric, list(metrics_of(card.task, metric, card.watched))


def _keys(overrides: Sequence[str]) -> set[str]:
    return {override.split("=", 1)[0].lstrip("+~") for override in overrides}
