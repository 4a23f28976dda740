"""Every table file: it says what the papers say, every YAML composes, every row trains."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from highway.config.compose import options
from highway.config.schema import Experiment
from highway.errors import Refused
from highway.ledger.cell import Cell
from highway.run import build
from highway.sweep.table import Table, load_table, parse_table, table_ids
from tests.runs import trained

Compose = Callable[..., Experiment]
REPORTED = Path(__file__).parent / "fixtures" / "reported.yaml"
ROWS = [(table_id, row.id) for table_id in table_ids("training") for row in load_table(table_id).at("smoke")]

# What an untrained model writes never ends by itself.
TRANSLATION = ["dataset.longest=16", "gate.score.length=16"]

# From the names of reported.yaml to ours: tables, and in them rows in the paper's order.
PAPERS_TABLE = {
    "highway_t1": ("ht-table-1", {"baseline": "T-L3", "sigmoid": "T-L3 + sigmoid SDU", "tanh": "T-L3 + tanh SDU"}),
    "highway_t3": ("ht-table-3", {"baseline": "T-L3", "sigmoid": "T-L3 + sigmoid SDU", "tanh": "T-L3 + tanh SDU"}),
    "highway_t5": (
        "ht-table-5",
        {
            "baseline": "XL-L6 baseline",
            "tanh": "+tanh SDU",
            "sigmoid": "+sigmoid SDU",
            "highway": "+highway gate",
            "gated_mhdpa": "+gated MHDPA",
            "tanh_attention": "+tanh L1-6 without FFN",
            "tanh_l1_3": "+tanh L1-3",
            "tanh_l3_6": "+tanh L3-6",
            "sigmoid_attention": "+sigmoid L1-6 without FFN",
            "sigmoid_l1_3": "+sigmoid L1-3",
            "sigmoid_l3_6": "+sigmoid L3-6",
        },
    ),
    "highway_t6": (
        "ht-table-6",
        {
            "baseline": "XL-L12 baseline",
            "tanh": "+tanh L1-12",
            "tanh_l1_6": "+tanh L1-6",
            "tanh_l1_3": "+tanh L1-3",
            "tanh_l1_2": "+tanh L1-2",
            "tanh_l1": "+tanh L1",
            "tanh_l6_12": "+tanh L6-12",
            "tanh_attention": "+tanh without FFN",
            "sigmoid": "+sigmoid L1-12",
            "sigmoid_l1_6": "+sigmoid L1-6",
            "sigmoid_l1_3": "+sigmoid L1-3",
            "sigmoid_l1_2": "+sigmoid L1-2",
            "sigmoid_l1": "+sigmoid L1",
            "sigmoid_l6_12": "+sigmoid L6-12",
            "sigmoid_attention": "+sigmoid without FFN",
            "highway": "+highway gate",
            "gated_mhdpa": "+gated MHDPA",
        },
    ),
    "gated_resnet_t1": (
        "grt-table-1",
        {
            f"{kind.lower()}_e{layers}h{heads}": f"{kind} E{layers}H{heads}"
            for layers, heads, kinds in ((4, 6, "T R M2 M3 G1 G2 G3"), (6, 6, "T R M2 G1"), (4, 8, "T R M2 G1"))
            for kind in kinds.split()
        },
    ),
    "highway_t7": (
        "ht-table-7",
        {
            "baseline": "XL-L6 baseline",
            "tanh": "+tanh SDU",
            "sigmoid": "+sigmoid SDU",
            "highway": "+highway gate",
            "gated_mhdpa": "+gated MHDPA",
        },
    ),
}


def our_metric(name: str) -> str:
    named = {"accuracy": "valid_accuracy", "train_time_s": "train_seconds", "inference_time_s": "inference_seconds"}
    return named.get(name, name.replace("eval_", "valid_"))


@pytest.mark.parametrize("table_id", table_ids())
def test_paper_numbers_are_the_papers(table_id: str) -> None:
    reported_id, names = PAPERS_TABLE[table_id]
    tables = {table["id"]: table for table in yaml.safe_load(REPORTED.read_text())["tables"]}
    reported = {row["name"]: row["metrics"] for row in tables[reported_id]["rows"]}
    ours = {row.id: row.paper for row in load_table(table_id).rows if not row.arm}
    assert set(names.values()) == set(reported)
    assert ours == {row: {our_metric(k): v for k, v in reported[name].items()} for row, name in names.items()}


@pytest.mark.parametrize("table_id", table_ids())
def test_table_is_consistent(table_id: str, experiment: Compose) -> None:
    table = load_table(table_id)
    assert table.id == table_id
    assert set(table.budgets) == {"paper", "mini", "smoke"}
    assert table.budgets["paper"] == ()
    assert len({row.id for row in table.rows}) == len(table.rows)
    columns = {column.metric for column in table.columns}
    assert all(set(row.paper) <= columns for row in table.rows)
    assert all({claim.metric, claim.to or claim.metric} <= columns for claim in table.claims)
    for budget in table.budgets:
        released = "layers.as_released=true"  # those rows are the baseline
        rows = [row for row in table.at(budget) if released not in row.overrides]
        names = [Cell.of(experiment(*table.overrides(row, budget, 1))).name for row in rows]
        assert len(set(names)) == len(names), "two rows are the same experiment"


@pytest.mark.parametrize(("table_id", "row_id"), ROWS)
def test_every_row_trains_a_few_steps(experiment: Compose, table_id: str, row_id: str) -> None:
    table = load_table(table_id)
    few = [
        "trainer.max_steps=2",
        "trainer.validate_every=2",
        "trainer.threads=1",
        "trainer.accelerator=cpu",
        "debug.windows=2",
        *(TRANSLATION if table_id == "gated_resnet_t1" else []),
    ]
    _, result = trained(experiment(*table.overrides(table.row(row_id), "smoke", 1), *few))
    assert result["status"] == "finished"


@pytest.mark.parametrize(
    ("group", "option"),
    [
        (group, option)
        for group in ("gate", "layers", "dataset", "optimizer", "model", "trainer", "budget", "logger", "debug")
        for option in options(group)
    ],
)
def test_every_option_composes(experiment: Compose, group: str, option: str) -> None:
    more = ["model.layers=12"] if group == "layers" else []
    if option in ("realformer", "m2", "m3", "g1", "g2", "g3", "iwslt_pt_en", "pt_en_substitute"):
        more = ["model=encoder_decoder", "dataset=pt_en_substitute"][: 1 if group == "dataset" else 2]
    if option.startswith("encoder_decoder"):
        more = ["dataset=iwslt_pt_en"]
    if option.startswith("enwik8") or option.startswith("xl_"):
        more = ["model=transformer_xl"]
    described = experiment(f"{group}={option}", *more)
    if group in ("gate", "model", "layers"):
        import torch

        with torch.device("meta"):
            build.model(described)


def test_options_say_what_they_are() -> None:
    """Every YAML file opens with a comment."""
    from highway.config.check import CONF

    for path in CONF.rglob("*.yaml"):
        assert path.read_text().startswith("#"), path


def test_the_command_of_the_first_row(experiment: Compose) -> None:
    """Composing a table's row at paper budget is typing its recipe."""
    table = load_table("highway_t1")
    typed = experiment(
        "model=transformer", "gate=sdu_tanh", "layers=all", "dataset=ptb_char", "optimizer=sgd_plateau", "seed=1"
    )
    assert Cell.of(experiment(*table.overrides(table.row("tanh"), "paper", 1))) == Cell.of(typed)


def content(**changes: Any) -> dict[str, Any]:
    row = {"id": "a", "label": "A", "overrides": ["gate=none"]}
    base = {
        "id": "t",
        "caption": "c",
        "paper": "p",
        "select": "best",
        "recipe": [],
        "columns": [],
        "rows": [row],
        "claims": [],
        "figures": [],
        "budgets": {"paper": []},
    }
    return {**base, **changes}


def test_budget_that_sets_what_a_row_sets_is_refused() -> None:
    with pytest.raises(Refused, match="budget mini sets gate, which row a sets too"):
        parse_table(content(budgets={"paper": [], "mini": ["gate=sdu_tanh"]}))


def test_row_of_one_budget() -> None:
    """It may set what another budget sets, and is refused where it does not belong."""
    rows = [*content()["rows"], {"id": "b", "label": "B", "overrides": ["model.width=3"], "budgets": ["paper"]}]
    table = parse_table(content(rows=rows, budgets={"paper": [], "mini": ["model.width=2"]}))
    assert [[row.id for row in table.at(budget)] for budget in table.budgets] == [["a", "b"], ["a"]]
    with pytest.raises(Refused, match="t has row 'b' at budget paper only"):
        table.overrides(table.row("b"), "mini", 1)


def test_claim_about_a_row_that_is_not_there_is_refused() -> None:
    claim = {"text": "x", "better": "b", "than": "a", "metric": "m"}
    with pytest.raises(Refused, match="t has no row 'b'"):
        parse_table(content(claims=[claim]))


def test_order_is_recipe_row_budget() -> None:
    table: Table = parse_table(content(recipe=["model.width=1", "model.heads=1"], budgets={"mini": ["model.width=2"]}))
    assert table.overrides(table.rows[0], "mini", 4) == [
        "model.width=2",
        "model.heads=1",
        "gate=none",
        "budget=mini",
        "seed=4",
    ]
