"""Read and check table files: a mistake anywhere in a file is refused with a message before anything runs."""

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from highway.config.groups import options
from highway.config.metrics import KINDS, METRICS, SPLITS
from highway.config.project import conf_file
from highway.config.schema import Range, Wrong, check_of
from highway.config.yaml_file import read_yaml
from highway.errors import Refused, closest, listing
from highway.sweep.choose import read_choose
from highway.sweep.consistency import check_metric, check_table
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


def table_ids(trained: bool = False) -> list[str]:
    """List the ids of all tables; `trained`: only of those whose rows are trained, and not timed."""
    return [name for name in options("table") if not (trained and load_table(name).timed)]


def load_table(table_id: str) -> Table:
    """Read and check the table of this id."""
    path = conf_file(f"table/{table_id}.yaml")
    if not path.exists():
        known = table_ids()
        raise Refused(f"there is no table '{table_id}'.{closest(table_id, known)} Available: {listing(known)}.")
    content = read_yaml(path)
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
    choose = read_choose(content["choose"], name) if "choose" in content else None
    rows = [_row(row, name, extra=False) for row in content["rows"]]
    rows = [replace(row, choose=row.choose or choose) for row in rows]
    rows += [_row(row, name, extra=True) for row in content.get("extra_rows", [])]
    papers = [row.id for row in rows if not row.extra]
    made = {
        "recipe": tuple(content["recipe"]),
        "choose": choose,
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
    check_table(table)
    return table


@dataclasses.dataclass(frozen=True)
class TableFile(Table):
    """The keys of a table file, whose extra rows stand by themselves."""

    extra_rows: tuple[Row, ...] = ()


def _typed(content: Any, file: str) -> None:
    """Check the types of all values of a table file."""
    given = {key: value for key, value in content.items() if value is not None} if isinstance(content, dict) else {}
    file = file or str(given.get("id", "a table"))
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
        check_metric(metric, where)
        low, high = METRICS[metric].range
        if not low <= value <= high:
            raise Refused(f"{where}: the paper's {metric}={value:g} is not {Range(low, high)}.")
    overrides, budgets = tuple(content["overrides"]), tuple(content.get("budgets", ()))
    at_budget = {budget: tuple(changes) for budget, changes in content.get("at_budget", {}).items()}
    made: dict[str, Any] = {"overrides": overrides, "budgets": budgets, "at_budget": at_budget, "extra": extra}
    if "choose" in content:
        made["choose"] = read_choose(content["choose"], where)
    made["chosen"] = {budget: tuple(settings) for budget, settings in content.get("chosen", {}).items()}
    return Row(**{**content, **made})


def _column(content: dict[str, Any], table: str) -> Column:
    check_metric(content["metric"], f"{table}, a column")
    return Column.of(**content)


def _claim(content: dict[str, Any], paper_rows: list[str], table: str) -> Claim:
    """Read a claim; `all` stands for every row of the paper, `rest` for every row not named on the other side."""
    where = f"{table}, claim '{content['text']}'"
    kinds = [kind for kind in CLAIMS if content.get(kind) is not None]
    if len(kinds) != 1:
        raise Refused(f"{where}: write exactly one of {listing(list(CLAIMS))}.")
    for metric in filter(None, (content["metric"], content.get("to"))):
        check_metric(metric, where)
    if kinds[0] in ("unrelated", "opposed") and "to" not in content:
        raise Refused(f"{where}: `{kinds[0]}` ranks the rows by two metrics. Name the second one with `to`.")
    if kinds[0] in ("better", "sooner", "at_most", "growing") and "than" not in content:
        raise Refused(f"{where}: `than` is missing. Name the rows with which its rows are compared.")
    if kinds[0] == "sooner" and METRICS[content["metric"]].split is None:
        raise Refused(f"{where}: {content['metric']} has no curve, which `sooner` needs. Name a metric that has one.")
    card = METRICS[content["metric"]]
    if kinds[0] == "at_most" and (card.better == "higher" or card.range[0] < 0):
        raise Refused(f"{where}: `at_most` compares ratios of a metric of which lower is better. Name such a metric.")
    if content.get("share") and kinds[0] != "at_most":
        raise Refused(f"{where}: `share` belongs to `at_most`. Leave it out.")
    rows = _names(content[kinds[0]], paper_rows, ())
    than = _names(content.get("than", []), paper_rows, rows)
    by_pairs = kinds[0] == "growing" or content.get("paired")
    if by_pairs and len(rows) != len(than):
        raise Refused(f"{where}: it pairs {len(rows)} rows with {len(than)}. Name as many rows in `than`.")
    pairs = zip(rows, than, strict=True) if by_pairs else itertools.product(rows, than)
    if kinds[0] == "growing" and len(rows) < 2:
        raise Refused(f"{where}: one gain does not grow. Name two rows or more.")
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
        check_metric(content.get("metric", ""), where)
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


def _names(value: str | list[str], every: list[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return row ids; `all` and `rest` stand for every row but `others`."""
    if value in ("all", "rest"):
        return tuple(row for row in every if row not in others)
    return (value,) if isinstance(value, str) else tuple(value)
