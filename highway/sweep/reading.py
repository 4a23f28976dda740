"""Read and check table files: a mistake anywhere in a file is refused with a message before anything runs."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import yaml

from highway.config.check import CONF
from highway.config.compose import composer, option
from highway.config.datasets import DATASETS
from highway.config.margins import general_margin
from highway.config.metrics import KINDS, METRICS, OF_A_RECORD, OF_A_TIMING, SPLITS
from highway.config.tasks import metrics_of
from highway.errors import Refused, closest, listing
from highway.sweep.table import AXES, CLAIMS, Claim, Column, Figure, Row, Stated, Table

TABLES = CONF / "table"
NEEDED: dict[str, tuple[str, ...]] = {  # kind of figure -> the keys that it must set
    "curves": ("metrics", "splits"),
    "biases": ("rows",),
    "times": (),
    "scatter": ("metrics",),
    "bars": ("metrics", "groups"),
    "lengths": (),
    "series": ("metrics", "groups", "along"),
    "gate_values": ("rows",),
    "gradients": ("groups",),
}
FIGURES = tuple(NEEDED)
RENAMED = {"arms": "extra_rows", "shrunk": "at_budget"}  # a key of earlier versions -> its name today


def table_ids(kind: str | None = None) -> list[str]:
    """List the ids of all tables, or of those of one kind."""
    names = sorted(path.stem for path in TABLES.glob("*.yaml"))
    return [name for name in names if kind is None or load_table(name).kind == kind]


def load_table(table_id: str) -> Table:
    """Read and check the table of this id."""
    path = TABLES / f"{table_id}.yaml"
    if not path.exists():
        known = table_ids()
        raise Refused(f"there is no table '{table_id}'.{closest(table_id, known)} Available: {listing(known)}.")
    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise Refused(f"{path.name} is not valid YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict) or content.get("id") != table_id:
        raise Refused(f"{path.name}: the id of a table must be the name of its file. Write `id: {table_id}`.")
    return parse_table(content)


def parse_table(content: dict[str, Any]) -> Table:
    """Check the content of a table file and return the table."""
    content = {key: value for key, value in content.items() if value is not None}
    name = content.get("id", "a table")
    extra_rows = content.get("extra_rows", [])
    _known(content, [*_fields(Table), "extra_rows"], name, needed=("caption", "recipe", "columns", "rows", "budgets"))
    if not content["rows"]:
        raise Refused(f"{name} has no rows.")
    rows = [_row(row, name, extra=False) for row in content["rows"]] + [
        _row(row, name, extra=True) for row in extra_rows
    ]
    papers = [row.id for row in rows if not row.extra]
    made = {
        "recipe": tuple(content["recipe"]),
        "choices": _sentences(content.get("choices", []), name),
        "rows": tuple(rows),
        "columns": tuple(_column(column, name) for column in content["columns"]),
        "also": tuple(_column(column, name) for column in content.get("also", [])),
        "claims": tuple(_claim(claim, papers, name) for claim in content.get("claims", [])),
        "figures": tuple(_figure(figure, name) for figure in content.get("figures", [])),
        "stated": tuple(_stated(statement, rows, name) for statement in content.get("stated", [])),
        "against": {base: _names(others, papers, (base,)) for base, others in content.get("against", {}).items()},
        "budgets": {budget: tuple(overrides or ()) for budget, overrides in content["budgets"].items()},
    }
    table = Table(**{key: value for key, value in content.items() if key != "extra_rows"} | made)
    _check(table)
    return table


def _fields(kind: type) -> list[str]:
    return [item.name for item in dataclasses.fields(kind)]


def _known(content: dict[str, Any], keys: Sequence[str], where: str, needed: Sequence[str] = ()) -> None:
    for key in content:
        if key in RENAMED:
            raise Refused(f"{where}: the key '{key}' is now called '{RENAMED[key]}'.")
        if key not in keys:
            raise Refused(
                f"{where}: '{key}' is not a key here.{closest(key, list(keys))} Available: {listing(list(keys))}."
            )
    for key in needed:
        if key not in content:
            raise Refused(f"{where}: the key '{key}' is missing.")


def _sentences(choices: Any, table: str) -> tuple[str, ...]:
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise Refused(f"{table}: choices must be a list of sentences. Quote a sentence that has ': ' in it.")
    return tuple(choices)


def _row(content: dict[str, Any], table: str, extra: bool) -> Row:
    where = f"{table}, row {content.get('id', '?')}"
    _known(
        content,
        [key for key in _fields(Row) if key not in ("extra", "added")],
        where,
        needed=("id", "label", "overrides"),
    )
    for metric in content.get("paper", {}):
        _metric(metric, where)
    overrides, budgets = tuple(content["overrides"]), tuple(content.get("budgets", ()))
    at_budget = {budget: tuple(changes) for budget, changes in content.get("at_budget", {}).items()}
    return Row(**{**content, "overrides": overrides, "budgets": budgets, "at_budget": at_budget, "extra": extra})


def _column(content: dict[str, Any], table: str) -> Column:
    _known(content, _fields(Column), f"{table}, a column", needed=("metric",))
    _metric(content["metric"], f"{table}, a column")
    return Column.of(**content)


def _claim(content: dict[str, Any], paper_rows: list[str], table: str) -> Claim:
    """Read a claim; `all` stands for every row of the paper, `rest` for every row not named on the other side."""
    where = f"{table}, claim '{content.get('text', '?')}'"
    keys = ["text", "than", "metric", "share", "to", "paired", *CLAIMS]
    _known(content, keys, where, needed=("text", "metric"))
    kinds = [kind for kind in CLAIMS if kind in content]
    if len(kinds) != 1:
        raise Refused(f"{where}: write exactly one of {listing(list(CLAIMS))}.")
    for metric in filter(None, (content["metric"], content.get("to"))):
        _metric(metric, where)
    if kinds[0] in ("unrelated", "opposed") and "to" not in content:
        raise Refused(f"{where}: `{kinds[0]}` ranks the rows by two metrics. Name the second one with `to`.")
    if kinds[0] in ("better", "sooner", "within", "growing") and "than" not in content:
        raise Refused(f"{where}: `than` is missing. Name the rows with which its rows are compared.")
    if kinds[0] == "sooner" and METRICS[content["metric"]].split is None:
        raise Refused(f"{where}: {content['metric']} has no curve, which `sooner` needs. Name a metric that has one.")
    rows = _names(content[kinds[0]], paper_rows, ())
    than = _names(content.get("than", []), paper_rows, rows)
    if (kinds[0] == "growing" or content.get("paired")) and len(rows) != len(than):
        raise Refused(f"{where}: it pairs {len(rows)} rows with {len(than)}. Name as many rows in `than`.")
    options = {key: content[key] for key in ("share", "to", "paired") if key in content}
    return Claim(content["text"], kinds[0], rows, than, content["metric"], **options)


KINDS_OF_STATED = ("value", "percent", "worse", "parameters", "built", "words")


def _stated(content: dict[str, Any], rows: list[Row], table: str) -> Stated:
    where = f"{table}, stated '{content.get('text', '?')}'"
    _known(content, _fields(Stated), where, needed=("text", "rows"))
    if sum(kind in content for kind in KINDS_OF_STATED) != 1:
        raise Refused(f"{where}: write exactly one of {listing(list(KINDS_OF_STATED))}.")
    of_metric = {"value", "percent", "worse"} & set(content)
    if of_metric:
        _metric(content.get("metric", ""), where)
    known = {row.id: row for row in rows}
    chosen = {key: tuple(content.get(key, ())) for key in ("rows", "than")}
    for name in (*chosen["rows"], *chosen["than"]):
        if name not in known:
            raise Refused(f"{where}: there is no row '{name}'. Available: {listing(list(known))}.")
        if of_metric and content["metric"] not in known[name].paper:
            raise Refused(f"{where}: row '{name}' has no {content['metric']} of the paper. Add it under `paper`.")
    if of_metric & {"percent", "worse"} and len(chosen["rows"]) != len(chosen["than"]):
        raise Refused(f"{where}: it pairs its rows with those of `than`. Name as many rows in `than`.")
    values: dict[str, Any] = {**content, **chosen, "words": tuple(content.get("words", ()))}
    return Stated(**values)


def _figure(content: dict[str, Any], table: str) -> Figure:
    where = f"{table}, figure {content.get('id', '?')}"
    _known(content, _fields(Figure), where, needed=("id", "caption"))
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
    figure = Figure(**values)
    if figure.kind not in FIGURES:
        raise Refused(f"{where}: kind {figure.kind} is unknown. Available: {listing(list(FIGURES))}.")
    if {"loss", "bpc"} <= set(figure.metrics):
        raise Refused(f"{where}: bpc is loss / ln 2, so the two panels would show the same. Name only one of them.")
    if figure.over not in AXES:
        raise Refused(f"{where}: over: {figure.over} is unknown. Available: {listing(list(AXES))}.")
    for key in NEEDED[figure.kind]:
        if not getattr(figure, key):
            raise Refused(f"{where}: a figure of kind {figure.kind} needs {key}.")
    for split in figure.splits:
        if split not in SPLITS:
            raise Refused(f"{where}: split {split} is unknown. Available: {listing(list(SPLITS))}.")
    for metric in figure.metrics:
        if metric not in (KINDS if figure.kind == "curves" else METRICS):
            raise Refused(f"{where}: metric {metric} is unknown.{closest(metric, [*KINDS, *METRICS])}")
    return figure


def _metric(name: str, where: str) -> None:
    if name not in METRICS:
        raise Refused(f"{where}: metric {name} is unknown.{closest(name, list(METRICS))}")


def _names(value: str | list[str], every: list[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return row ids; `all` and `rest` stand for every row but `others`."""
    if value in ("all", "rest"):
        return tuple(row for row in every if row not in others)
    return (value,) if isinstance(value, str) else tuple(value)


def _check(table: Table) -> None:
    if table.select not in ("best", "last") or table.kind not in ("training", "timing"):
        raise Refused(f"{table.id}: select must be best or last, and kind must be training or timing.")
    ids = [row.id for row in table.rows]
    if len(set(ids)) < len(ids):
        raise Refused(
            f"{table.id}: two rows have the id {next(duplicate for duplicate in ids if ids.count(duplicate) > 1)}."
        )
    if table.kind == "timing" and table.rounds < 2:
        raise Refused(f"{table.id}: a timing reports medians over rounds. Write `rounds: 2` or more.")
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
    for metric, margin in table.margins.items():
        _metric(metric, f"{table.id}, margins")
        general = general_margin(metric)
        if general is None or not 0 < margin <= general:
            raise Refused(
                f"{table.id}: the margin of {metric} is {margin:g}. Write one above 0, up to {general or 0:g}."
            )
    _check_budgets(table)
    _check_metrics(table)


def _check_budgets(table: Table) -> None:
    known = sorted(path.stem for path in (CONF / "budget").glob("*.yaml"))
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


def _check_metrics(table: Table) -> None:
    """Refuse a table that names a metric which its records lack."""
    available = OF_A_TIMING if table.kind == "timing" else [*_given(table), *OF_A_RECORD]
    shown = [column.metric for column in (*table.columns, *table.also)]
    used = [*shown, *(metric for row in table.rows for metric in row.paper)]
    used += [metric for claim in table.claims for metric in (claim.metric, claim.to) if metric]
    used += [metric for metric in (table.reaches, table.ranked_by) if metric]
    used += table.margins
    used += [
        f"{split}_{metric}" if figure.kind == "curves" else metric
        for figure in table.figures
        for metric in figure.metrics
        for split in figure.splits or ("",)
        if split != "train"  # every task shows its loss there
    ]
    for metric in used:
        if metric not in available:
            raise Refused(f"{table.id}: its runs do not measure {metric}. They measure {listing(list(available))}.")
    for metric in [metric for figure in table.figures if figure.kind != "curves" for metric in figure.metrics]:
        if metric not in shown:
            raise Refused(f"{table.id}: a figure draws {metric}, which is not a column. Add it to columns or also.")
    if table.reaches and METRICS[table.reaches].split is None:
        raise Refused(f"{table.id}: reaches: {table.reaches} has no curve. Name a metric that has one.")


def _given(table: Table) -> Sequence[str]:
    """List the metrics of a table's records, as the data set of its first row defines them."""
    described = [*table.recipe, *table.rows[0].overrides]
    content = option("dataset", composer().choices(described)["dataset"])
    card = DATASETS[content["name"]]
    values = dict(override.split("=", 1) for override in described)
    return metrics_of(card.task, values.get("dataset.metric", content["metric"]), card.watched)


def _keys(overrides: Sequence[str]) -> set[str]:
    return {override.split("=", 1)[0].lstrip("+~") for override in overrides}
