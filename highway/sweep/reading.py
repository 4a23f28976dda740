"""Read and check table files: a mistake anywhere in a file is refused with a message before anything runs."""

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Any

from highway.config.check import SECTIONS
from highway.config.compose import composer, option
from highway.config.datasets import DATASETS
from highway.config.guard import options
from highway.config.margins import general_margin
from highway.config.metrics import KINDS, METRICS, OF_A_RECORD, OF_A_TIMING, SPLITS
from highway.config.project import conf_file
from highway.config.schema import Range, Wrong, check_of
from highway.config.tasks import metrics_of
from highway.config.yaml_file import LoaderOfKeys, read_yaml
from highway.errors import Refused, closest, listing
from highway.sweep.table import AXES, CLAIMS, Claim, Column, Figure, Row, Stated, Table

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
RECIPE = ("model", "dataset", *SECTIONS)
RENAMED = {"arms": "extra_rows", "shrunk": "at_budget"}  # a key of earlier versions -> its name today


def table_ids(kind: str | None = None) -> list[str]:
    """List the ids of all tables, or of those of one kind."""
    names = options("table")
    return [name for name in names if kind is None or load_table(name).kind == kind]


def load_table(table_id: str) -> Table:
    """Read and check the table of this id."""
    path = conf_file(f"table/{table_id}.yaml")
    if not path.exists():
        known = table_ids()
        raise Refused(f"there is no table '{table_id}'.{closest(table_id, known)} Available: {listing(known)}.")
    content = read_yaml(path, LoaderOfKeys)
    if not isinstance(content, dict) or content.get("id") != table_id:
        raise Refused(f"{path.name}: the id of a table must be the name of its file. Write `id: {table_id}`.")
    return parse_table(content, path.name)


def parse_table(content: dict[str, Any], file: str = "") -> Table:
    """Check the content of a table file and return the table."""
    _typed(content, file)
    name = content["id"]
    content = {key: value for key, value in content.items() if value is not None}
    for part in ("rows", "columns", "budgets"):
        if not content.get(part):
            raise Refused(f"{name} has no {part}.")
    rows = [_row(row, name, extra=False) for row in content["rows"]]
    rows += [_row(row, name, extra=True) for row in content.get("extra_rows", [])]
    papers = [row.id for row in rows if not row.extra]
    made = {
        "recipe": tuple(content["recipe"]),
        "choices": tuple(content.get("choices", ())),
        "rows": tuple(rows),
        "columns": tuple(_column(column, name) for column in content["columns"]),
        "also": tuple(_column(column, name) for column in content.get("also", [])),
        "claims": tuple(_claim(claim, papers, name) for claim in content.get("claims", [])),
        "figures": tuple(_figure(figure, name) for figure in content.get("figures", [])),
        "stated": tuple(_stated(statement, rows, name) for statement in content.get("stated", [])),
        "against": {base: _names(rest, papers, (base,)) for base, rest in content.get("against", {}).items()},
        "budgets": {budget: tuple(overrides or ()) for budget, overrides in content["budgets"].items()},
    }
    table = Table(**{key: value for key, value in content.items() if key != "extra_rows"} | made)
    _check(table)
    return table


@dataclasses.dataclass(frozen=True)
class TableFile(Table):
    """The keys of a table file, whose extra rows stand by themselves."""

    extra_rows: tuple[Row, ...] = ()


def _typed(content: Any, file: str) -> None:
    """Check the types of all values of a table file."""
    given = {key: value for key, value in content.items() if value is not None} if isinstance(content, dict) else {}
    file = file or str(given.get("id", "a table"))
    rows = given.get("rows")
    for keys in (given, *(row for row in (rows if isinstance(rows, list) else ()) if isinstance(row, dict))):
        for key in RENAMED.keys() & keys.keys():
            raise Refused(f"{_place(keys, [key], file)}: the key '{key}' is now called '{RENAMED[key]}'.")
    try:
        check_of(TableFile)(given)
    except Wrong as wrong:
        hint = " Quote a text that has ': ' in it or is a number." if wrong.what.endswith("a text") else ""
        end = "" if wrong.what[-1] in "?." else "."
        raise Refused(f"{_place(content, wrong.where[::-1], file)}: {wrong}{end}{hint}") from None


def _place(content: Any, where: Sequence[str | int], file: str) -> str:
    """Return the file, and the line of the innermost key on the way to a value."""
    line = None
    for step in where:
        line = getattr(content, "lines", {}).get(step, line)
        try:
            content = content[step]
        except (LookupError, TypeError):
            break
    return file if line is None else f"{file}, line {line}"


def _row(content: dict[str, Any], table: str, extra: bool) -> Row:
    where = f"{table}, row {content['id']}"
    for metric, value in content.get("paper", {}).items():
        _metric(metric, where)
        low, high = METRICS[metric].range
        if not low <= value <= high:
            raise Refused(f"{where}: the paper's {metric}={value:g} is not {Range(low, high)}.")
    overrides, budgets = tuple(content["overrides"]), tuple(content.get("budgets", ()))
    at_budget = {budget: tuple(changes) for budget, changes in content.get("at_budget", {}).items()}
    return Row(**{**content, "overrides": overrides, "budgets": budgets, "at_budget": at_budget, "extra": extra})


def _column(content: dict[str, Any], table: str) -> Column:
    _metric(content["metric"], f"{table}, a column")
    return Column.of(**content)


def _claim(content: dict[str, Any], paper_rows: list[str], table: str) -> Claim:
    """Read a claim; `all` stands for every row of the paper, `rest` for every row not named on the other side."""
    where = f"{table}, claim '{content['text']}'"
    kinds = [kind for kind in CLAIMS if content.get(kind) is not None]
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
    by_pairs = kinds[0] == "growing" or content.get("paired")
    if by_pairs and len(rows) != len(than):
        raise Refused(f"{where}: it pairs {len(rows)} rows with {len(than)}. Name as many rows in `than`.")
    pairs = zip(rows, than, strict=True) if by_pairs else itertools.product(rows, than)
    if itself := [row for row, other in pairs if row == other]:
        raise Refused(f"{where}: it compares row {itself[0]} with itself.")
    if not rows or ("than" in content and not than):
        raise Refused(f"{where}: it compares no rows. Name them.")
    options = {key: content[key] for key in ("share", "to", "paired") if key in content}
    return Claim(content["text"], kinds[0], rows, than, content["metric"], **options)


KINDS_OF_STATED = ("value", "percent", "worse", "parameters", "built", "words")


def _stated(content: dict[str, Any], rows: list[Row], table: str) -> Stated:
    where = f"{table}, stated '{content['text']}'"
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
    where = f"{table}, figure {content['id']}"
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


def _check_overrides(table: Table) -> None:
    """Refuse overrides that are not of a run's recipe, such as the folder where results are kept."""
    of_rows = [changes for row in table.rows for changes in (row.overrides, *row.at_budget.values())]
    for override in itertools.chain(table.recipe, *table.budgets.values(), *of_rows):
        section = re.split(r"[.=]", override.lstrip("+"))[0]
        if section not in RECIPE and not override.startswith("hydra.searchpath="):
            raise Refused(
                f"{table.id}: {override} cannot be set in a table, only keys of {listing(list(RECIPE))}. "
                "Type it on the command line."
            )


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
