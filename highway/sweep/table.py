"""A table is data: one YAML file in conf/table/ from which sweeps, make targets, reports and figures all come."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from highway.errors import Refused, closest, listing

TABLES = Path(__file__).parents[2] / "conf" / "table"


@dataclass(frozen=True)
class Row:
    id: str
    label: str
    overrides: tuple[str, ...]
    paper: dict[str, float] = field(default_factory=dict)
    arm: bool = False  # a row that the paper lacks
    budgets: tuple[str, ...] = ()  # none: all


@dataclass(frozen=True)
class Column:
    metric: str
    title: str
    better: str  # lower | higher
    digits: int


@dataclass(frozen=True)
class Claim:
    """Every one of `rows` compared with every one of `than` on `metric`; the least favourable pair counts.

    better: a better value.   sooner: at than's final value in fewer steps.   within: at most `share` above than's.

    Or, over `rows` alone, of `metric` and the metric `to`, by Kendall's tau:
    unrelated: no more in one order than chance would have it.   opposed: in opposite orders, more than by chance.
    """

    text: str
    kind: str  # better | sooner | within | unrelated | opposed
    rows: tuple[str, ...]
    than: tuple[str, ...]
    metric: str
    share: float = 0.0
    to: str = ""


@dataclass(frozen=True)
class Figure:
    """curves: a panel for each metric and split; biases: those of a row's transform gates, as a map and scattered;
    times: every round of a timing, by row; scatter: rows as points, of the first metric over the second; bars: the rows
    of each group beside those of the others; lengths: those of the training sentences."""

    id: str
    caption: str
    kind: str = "curves"  # curves | biases | times | scatter | bars | lengths
    metrics: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()  # none: all
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of bars: name -> rows
    over: str = "epoch"  # epoch | step
    logs: bool = False  # with the authors' own curves below, where outputs/reference/series has them


@dataclass(frozen=True)
class Table:
    id: str
    caption: str
    paper: str
    note: str
    select: str  # best | last: which of the two tested models gives the number
    recipe: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]  # the paper's rows first, then the arms
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    budgets: dict[str, tuple[str, ...]]
    reaches: str | None = None  # of each row is told when it first has the first row's final value of this metric
    ranked_by: str | None = None  # the column on which the order of the rows is compared with the paper's
    kind: str = "training"  # training: a cell a row | timing: all rows in one cell, in interleaved rounds
    rounds: int = 0  # of a timing
    also: tuple[Column, ...] = ()  # what the report tells beside the paper's columns
    bootstrap: dict[str, tuple[str, ...]] = field(default_factory=dict)  # row -> those compared with it by sentences

    def row(self, row_id: str) -> Row:
        for row in self.rows:
            if row.id == row_id:
                return row
        known = [row.id for row in self.rows]
        raise Refused(f"{self.id} has no row '{row_id}'; it has {listing(known)}.{closest(row_id, known)}")

    def at(self, budget: str) -> list[Row]:
        return [row for row in self.rows if not row.budgets or budget in row.budgets]

    def overrides(self, row: Row, budget: str, seed: int) -> list[str]:
        """Recipe, then row, then budget: the words after `python scripts/train.py`."""
        if budget not in self.budgets:
            raise Refused(f"{self.id} has no budget '{budget}'; it has {listing(list(self.budgets))}.")
        if row not in self.at(budget):
            raise Refused(f"{self.id} has row '{row.id}' at budget {listing(list(row.budgets))} only.")
        words = [*self.recipe, *row.overrides, *self.budgets[budget], f"budget={budget}", f"seed={seed}"]
        return last_on_each_key(words)


def last_on_each_key(words: Sequence[str]) -> list[str]:
    """Override words without repetition: the last word on a key counts."""
    return list({word.split("=", 1)[0]: word for word in words}.values())


def table_ids(kind: str | None = None) -> list[str]:
    """Every table, or those of one kind."""
    names = sorted(path.stem for path in TABLES.glob("*.yaml"))
    return [name for name in names if kind in (None, load_table(name).kind)]


def load_table(table_id: str) -> Table:
    path = TABLES / f"{table_id}.yaml"
    if not path.exists():
        known = table_ids()
        raise Refused(f"there is no table '{table_id}'; there is {listing(known)}.{closest(table_id, known)}")
    return parse_table(yaml.safe_load(path.read_text()))


def parse_table(content: dict[str, Any]) -> Table:
    rows = [_row(row, arm=False) for row in content["rows"]]
    rows += [_row(row, arm=True) for row in content.get("arms", [])]
    table = Table(
        id=content["id"],
        caption=content["caption"],
        paper=content["paper"],
        note=content.get("note", ""),
        select=content["select"],
        recipe=tuple(content["recipe"]),
        columns=tuple(Column(**column) for column in content["columns"]),
        rows=tuple(rows),
        claims=tuple(_claim(claim, [row.id for row in rows if not row.arm]) for claim in content["claims"]),
        figures=tuple(_figure(figure) for figure in content["figures"]),
        reaches=content.get("reaches"),
        ranked_by=content.get("ranked_by"),
        kind=content.get("kind", "training"),
        rounds=content.get("rounds", 0),
        also=tuple(Column(**column) for column in content.get("also", [])),
        bootstrap={row_id: tuple(others) for row_id, others in content.get("bootstrap", {}).items()},
        budgets={name: tuple(words) for name, words in content["budgets"].items()},
    )
    _check(table)
    return table


def _row(content: dict[str, Any], arm: bool) -> Row:
    words, budgets = tuple(content["overrides"]), tuple(content.get("budgets", ()))
    return Row(content["id"], content["label"], words, content.get("paper", {}), arm, budgets)


def _claim(content: dict[str, Any], paper_rows: list[str]) -> Claim:
    """`rest` stands for every other row of the paper, and `all` for every one."""
    kind = next(kind for kind in ("better", "sooner", "within", "unrelated", "opposed") if kind in content)
    rows = _names(content[kind], paper_rows)
    than = _names(content.get("than", []), [row for row in paper_rows if row not in rows])
    return Claim(content["text"], kind, rows, than, content["metric"], content.get("share", 0.0), content.get("to", ""))


def _figure(content: dict[str, Any]) -> Figure:
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
    return Figure(**values)


def _names(value: str | list[str], every: list[str]) -> tuple[str, ...]:
    if value in ("all", "rest"):
        return tuple(every)
    return (value,) if isinstance(value, str) else tuple(value)


def _check(table: Table) -> None:
    groups = [claim.rows + claim.than for claim in table.claims]
    groups += [figure.rows for figure in table.figures]
    groups += [rows for figure in table.figures for rows in figure.groups.values()]
    groups += [(row_id, *others) for row_id, others in table.bootstrap.items()]
    for row_id in itertools.chain.from_iterable(groups):
        table.row(row_id)
    for budget, words in table.budgets.items():
        for row in table.at(budget):
            for both in _keys(row.overrides) & _keys(words):
                raise Refused(
                    f"{table.id}: budget {budget} sets {both}, which row {row.id} sets too; a budget changes "
                    "only what all rows share."
                )


def _keys(words: Sequence[str]) -> set[str]:
    return {word.split("=", 1)[0].lstrip("+~") for word in words}
