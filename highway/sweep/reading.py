"""Reading tables: a file is checked whole, and what is wrong with it is said in one sentence, before anything runs."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from highway.config.check import CONF
from highway.config.datasets import DATASETS
from highway.config.metrics import KINDS, METRICS, OF_A_RECORD, OF_A_TIMING, SPLITS
from highway.config.tasks import TASKS
from highway.errors import Refused, closest, listing
from highway.sweep.table import AXES, CLAIMS, Claim, Column, Figure, Row, Stated, Table

TABLES = CONF / "table"
NEEDED: dict[str, tuple[str, ...]] = {  # what a figure of each kind must say
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


def table_ids(kind: str | None = None) -> list[str]:
    """Every table, or those of one kind."""
    names = sorted(path.stem for path in TABLES.glob("*.yaml"))
    return [name for name in names if kind in (None, load_table(name).kind)]


def load_table(table_id: str) -> Table:
    path = TABLES / f"{table_id}.yaml"
    if not path.exists():
        known = table_ids()
        raise Refused(f"there is no table '{table_id}'; there is {listing(known)}.{closest(table_id, known)}")
    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise Refused(f"{path.name} is no YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict) or content.get("id") != table_id:
        raise Refused(f"{path.name}: a table's id is the name of its file, `id: {table_id}`.")
    return parse_table(content)


def parse_table(content: dict[str, Any]) -> Table:
    content = {key: value for key, value in content.items() if value is not None}
    name = content.get("id", "a table")
    arms = content.get("arms", [])
    _known(content, [*_fields(Table), "arms"], name, needed=("caption", "recipe", "columns", "rows", "budgets"))
    if not content["rows"]:
        raise Refused(f"{name} has no rows.")
    rows = [_row(row, name, arm=False) for row in content["rows"]] + [_row(row, name, arm=True) for row in arms]
    papers = [row.id for row in rows if not row.arm]
    made = {
        "recipe": tuple(content["recipe"]),
        "choices": _sentences(content.get("choices", []), name),
        "rows": tuple(rows),
        "columns": tuple(_column(column, name) for column in content["columns"]),
        "also": tuple(_column(column, name) for column in content.get("also", [])),
        "claims": tuple(_claim(claim, papers, name) for claim in content.get("claims", [])),
        "figures": tuple(_figure(figure, name) for figure in content.get("figures", [])),
        "stated": tuple(_stated(one, rows, name) for one in content.get("stated", [])),
        "bootstrap": {row_id: tuple(others) for row_id, others in content.get("bootstrap", {}).items()},
        "budgets": {budget: tuple(words or ()) for budget, words in content["budgets"].items()},
    }
    table = Table(**{key: value for key, value in content.items() if key != "arms"} | made)
    _check(table)
    return table


def _fields(kind: type) -> list[str]:
    return [item.name for item in dataclasses.fields(kind)]


def _known(content: dict[str, Any], keys: Sequence[str], where: str, needed: Sequence[str] = ()) -> None:
    for key in content:
        if key not in keys:
            raise Refused(
                f"{where}: '{key}' is not a key here; there is {listing(list(keys))}.{closest(key, list(keys))}"
            )
    for key in needed:
        if key not in content:
            raise Refused(f"{where}: it has no '{key}'.")


def _sentences(choices: Any, table: str) -> tuple[str, ...]:
    if not isinstance(choices, list) or not all(isinstance(one, str) for one in choices):
        raise Refused(f"{table}: choices is a list of sentences; one with ': ' in it needs quotes.")
    return tuple(choices)


def _row(content: dict[str, Any], table: str, arm: bool) -> Row:
    where = f"{table}, row {content.get('id', '?')}"
    _known(content, [key for key in _fields(Row) if key != "arm"], where, needed=("id", "label", "overrides"))
    for metric in content.get("paper", {}):
        _metric(metric, where)
    words, budgets = tuple(content["overrides"]), tuple(content.get("budgets", ()))
    shrunk = {budget: tuple(more) for budget, more in content.get("shrunk", {}).items()}
    return Row(**{**content, "overrides": words, "budgets": budgets, "shrunk": shrunk, "arm": arm})


def _column(content: dict[str, Any], table: str) -> Column:
    _known(content, _fields(Column), f"{table}, a column", needed=("metric",))
    _metric(content["metric"], f"{table}, a column")
    return Column.of(**content)


def _claim(content: dict[str, Any], paper_rows: list[str], table: str) -> Claim:
    """`rest` stands for every other row of the paper, and `all` for every one."""
    where = f"{table}, claim '{content.get('text', '?')}'"
    keys = ["text", "than", "metric", "share", "to", *CLAIMS]
    _known(content, keys, where, needed=("text", "metric"))
    kinds = [kind for kind in CLAIMS if kind in content]
    if len(kinds) != 1:
        raise Refused(f"{where}: it is of one kind, and there is {listing(list(CLAIMS))}.")
    for metric in filter(None, (content["metric"], content.get("to"))):
        _metric(metric, where)
    if kinds[0] in ("unrelated", "opposed") and "to" not in content:
        raise Refused(f"{where}: it says how the rows stand by two metrics, and lacks `to`, the second.")
    if kinds[0] in ("better", "sooner", "within", "growing") and "than" not in content:
        raise Refused(f"{where}: it lacks `than`, what its rows are compared with.")
    if kinds[0] == "sooner" and METRICS[content["metric"]].split is None:
        raise Refused(f"{where}: {content['metric']} has no curve, by which one row could be sooner than another.")
    rows = _names(content[kinds[0]], paper_rows)
    than = _names(content.get("than", []), [row for row in paper_rows if row not in rows])
    if kinds[0] == "growing" and len(rows) != len(than):
        raise Refused(f"{where}: it compares {len(rows)} rows with {len(than)}, one with one.")
    more = {key: content[key] for key in ("share", "to") if key in content}
    return Claim(content["text"], kinds[0], rows, than, content["metric"], **more)


KINDS_OF_STATED = ("value", "percent", "worse", "parameters", "built", "words")


def _stated(content: dict[str, Any], rows: list[Row], table: str) -> Stated:
    where = f"{table}, stated '{content.get('text', '?')}'"
    _known(content, _fields(Stated), where, needed=("text", "rows"))
    if sum(kind in content for kind in KINDS_OF_STATED) != 1:
        raise Refused(f"{where}: it is of one kind, and there is {listing(list(KINDS_OF_STATED))}.")
    of_metric = {"value", "percent", "worse"} & set(content)
    if of_metric:
        _metric(content.get("metric", ""), where)
    known = {row.id: row for row in rows}
    chosen = {key: tuple(content.get(key, ())) for key in ("rows", "than")}
    for name in (*chosen["rows"], *chosen["than"]):
        if name not in known:
            raise Refused(f"{where}: there is no row '{name}'; there is {listing(list(known))}.")
        if of_metric and content["metric"] not in known[name].paper:
            raise Refused(f"{where}: the paper has no {content['metric']} of row '{name}'.")
    if of_metric & {"percent", "worse"} and len(chosen["rows"]) != len(chosen["than"]):
        raise Refused(f"{where}: each of its rows is compared with one of `than`.")
    values: dict[str, Any] = {**content, **chosen, "words": tuple(content.get("words", ()))}
    return Stated(**values)


def _figure(content: dict[str, Any], table: str) -> Figure:
    where = f"{table}, figure {content.get('id', '?')}"
    _known(content, _fields(Figure), where, needed=("id", "caption"))
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
    figure = Figure(**values)
    if figure.kind not in FIGURES:
        raise Refused(f"{where}: kind {figure.kind} is unknown; there is {listing(list(FIGURES))}.")
    if {"loss", "bpc"} <= set(figure.metrics):
        raise Refused(f"{where}: bpc is loss / ln 2, so one panel would be the other times a constant; name one.")
    if figure.over not in AXES:
        raise Refused(f"{where}: over is one of {listing(list(AXES))}, and not {figure.over}.")
    for key in NEEDED[figure.kind]:
        if not getattr(figure, key):
            raise Refused(f"{where}: a figure of kind {figure.kind} needs {key}.")
    for split in figure.splits:
        if split not in SPLITS:
            raise Refused(f"{where}: split {split} is unknown; there is {listing(list(SPLITS))}.")
    for metric in figure.metrics:
        if metric not in (KINDS if figure.kind == "curves" else METRICS):
            raise Refused(f"{where}: metric {metric} is unknown.{closest(metric, [*KINDS, *METRICS])}")
    return figure


def _metric(name: str, where: str) -> None:
    if name not in METRICS:
        raise Refused(f"{where}: metric {name} is unknown.{closest(name, list(METRICS))}")


def _names(value: str | list[str], every: list[str]) -> tuple[str, ...]:
    if value in ("all", "rest"):
        return tuple(every)
    return (value,) if isinstance(value, str) else tuple(value)


def _check(table: Table) -> None:
    if table.select not in ("best", "last") or table.kind not in ("training", "timing"):
        raise Refused(f"{table.id}: select is best or last, and kind training or timing.")
    ids = [row.id for row in table.rows]
    if len(set(ids)) < len(ids):
        raise Refused(f"{table.id}: two rows have the id {next(one for one in ids if ids.count(one) > 1)}.")
    if table.kind == "timing" and table.rounds < 2:
        raise Refused(f"{table.id}: a timing takes rounds: 2 or more, of which the medians are told.")
    groups = [claim.rows + claim.than for claim in table.claims]
    groups += [figure.rows for figure in table.figures]
    groups += [rows for figure in table.figures for rows in figure.groups.values()]
    groups += [(row_id, *others) for row_id, others in table.bootstrap.items()]
    for row_id in itertools.chain.from_iterable(groups):
        table.row(row_id)
    for figure in table.figures:
        for row_id in itertools.chain.from_iterable(figure.groups.values() if figure.along else ()):
            if table.row(row_id).sets(figure.along) is None:
                raise Refused(f"{table.id}, figure {figure.id}: row {row_id} does not set {figure.along}.")
    _check_budgets(table)
    _check_metrics(table)


def _check_budgets(table: Table) -> None:
    known = sorted(path.stem for path in (CONF / "budget").glob("*.yaml"))
    for budget in table.budgets:
        if budget not in known:
            raise Refused(f"{table.id}: budget {budget} does not exist; there is {listing(known)}.")
    for row in table.rows:
        for budget in (*row.budgets, *row.shrunk):
            if budget not in table.budgets:
                raise Refused(f"{table.id}: row {row.id} names budget {budget}; it has {listing(list(table.budgets))}.")
    for budget, words in table.budgets.items():
        for row in table.at(budget):
            for both in _keys(row.overrides) & _keys(words):
                raise Refused(
                    f"{table.id}: budget {budget} sets {both}, which row {row.id} sets too; a budget changes "
                    "only what all rows share."
                )


def _check_metrics(table: Table) -> None:
    """Every metric that the table names must be one that a record of it has."""
    given = OF_A_TIMING if table.kind == "timing" else [*_given(table), *OF_A_RECORD]
    shown = [column.metric for column in (*table.columns, *table.also)]
    wanted = [*shown, *(metric for row in table.rows for metric in row.paper)]
    wanted += [metric for claim in table.claims for metric in (claim.metric, claim.to) if metric]
    wanted += [metric for metric in (table.reaches, table.ranked_by) if metric]
    wanted += ["bleu"] if table.bootstrap else []
    wanted += [
        f"{split}_{metric}" if figure.kind == "curves" else metric
        for figure in table.figures
        for metric in figure.metrics
        for split in figure.splits or ("",)
        if split != "train"  # every task shows its loss there
    ]
    for metric in wanted:
        if metric not in given:
            raise Refused(f"{table.id}: its runs do not give {metric}; they give {listing(list(given))}.")
    for metric in [metric for figure in table.figures if figure.kind != "curves" for metric in figure.metrics]:
        if metric not in shown:
            raise Refused(f"{table.id}: a figure draws {metric}, which is no column.")
    if table.reaches and METRICS[table.reaches].split is None:
        raise Refused(f"{table.id}: reaches {table.reaches}, which has no curve.")


def _given(table: Table) -> Sequence[str]:
    """The metrics of its records, as the data set of its first row has them."""
    words = {word.split("=", 1)[0]: word.split("=", 1)[-1] for word in (*table.recipe, *table.rows[0].overrides)}
    option = words.get("dataset", "ptb_char")  # as in conf/train.yaml
    content = _option("dataset", option)
    if content.get("name") not in DATASETS:
        raise Refused(f"{table.id}: dataset={option} does not exist.")
    card = DATASETS[content["name"]]
    return TASKS[card.task].gives(words.get("dataset.metric", content["metric"]), card.watched)


def _option(group: str, name: str) -> dict[str, Any]:
    """An option of a configuration group with what it builds on, read without Hydra."""
    path: Path = CONF / group / f"{name}.yaml"
    content = yaml.safe_load(path.read_text()) if path.exists() else {}
    found: dict[str, Any] = {}
    for other in content.pop("defaults", []):
        if other != "_self_":
            found |= _option(group, other)
    return found | content


def _keys(words: Sequence[str]) -> set[str]:
    return {word.split("=", 1)[0].lstrip("+~") for word in words}
