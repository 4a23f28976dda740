"""Every table file: it agrees with the papers, every YAML composes, every row trains."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from highway.config.experiment import Experiment
from highway.config.groups import options
from highway.config.home import CONF
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.run import build
from highway.tables.reading import load_table, parse_table, table_ids
from highway.tables.table import Row, Table
from highway.tables.typed import last_on_each_key
from highway.testing.runs import trained
from tests.support.overrides import two_steps
from tests.support.tables import SMOKE_ROWS, content

Compose = Callable[..., Experiment]
NAMES: dict[str, str] = json.loads((Path(__file__).parents[1] / "goldens" / "names.json").read_text())
REPORTED = Path(__file__).parents[1] / "fixtures" / "reported.yaml"


def our_metrics(table: str, metrics: dict[str, float]) -> dict[str, float]:
    """Return the metrics of the papers under our names and in our units."""
    named = {"accuracy": "valid_accuracy", "train_time_s": "train_seconds", "inference_time_s": "inference_seconds"}
    if table == "rt-table-1":  # percent, on the test set
        return {"test_accuracy": metrics["accuracy"] / 100}
    named["nll"] = "test_nll"
    return {named.get(name, name.replace("eval_", "valid_")): value for name, value in metrics.items()}


@pytest.mark.parametrize("table_id", [name for name in table_ids() if load_table(name).reported])
def test_paper_numbers_are_the_papers(table_id: str) -> None:
    table = load_table(table_id)
    tables = {one["id"]: one for one in yaml.safe_load(REPORTED.read_text())["tables"]}
    reported = {row["name"]: row["metrics"] for row in tables[table.reported]["rows"]}
    ours = {row.reported: row.paper for row in table.rows if not row.extra}
    assert ours == {name: pytest.approx(our_metrics(table.reported, metrics)) for name, metrics in reported.items()}
    copied = {row["name"] for row in tables[table.reported]["rows"] if row.get("copied_from")}
    assert {row.reported for row in table.rows if row.copied} == copied


def name_of(table: Table, row: Row, budget: str, experiment: Compose) -> str:
    """Return the name of a row's runs: a golden one, which tests/goldens compares with the composed one."""
    golden = NAMES.get(f"{table.id} {row.id} {budget}")
    return golden or RunDirectory.of(experiment(*table.overrides(row, budget, 1))).name


@pytest.mark.parametrize("table_id", table_ids())
def test_table_is_consistent(table_id: str, experiment: Compose) -> None:
    table = load_table(table_id)
    if table.paper:
        assert set(table.budgets) - {"medium"} == {"paper", "mini", "smoke"}
        assert table.budgets["paper"] == []
        assert table.claims and all(claim.quote for claim in table.claims), "claims are the paper's own sentences"
    columns = {column.metric for column in table.columns}
    assert all(set(row.paper) <= columns for row in table.rows)
    for budget in table.budgets:
        released = "layers.as_released=true"  # those rows are the baseline
        rows = [row for row in table.at(budget) if released not in row.overrides]
        names = [name_of(table, row, budget, experiment) for row in rows]
        assert len(set(names)) == len(names), "two rows are the same experiment"


@pytest.mark.usefixtures("short_figures")
@pytest.mark.parametrize(("table_id", "row_id"), SMOKE_ROWS)
def test_every_row_trains_a_few_steps(experiment: Compose, table_id: str, row_id: str) -> None:
    table = load_table(table_id)
    arguments = table.overrides(table.row(row_id), "smoke", 1)
    _, result = trained(experiment(*arguments, *two_steps(experiment(*arguments).task)))
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
    """Every option composes with the first model that it fits."""
    if group == "model":
        attempts = [(f"dataset={name}",) for name in ("ptb_char", "iwslt_pt_en", "mnist", "nottingham")]
    else:
        twelve = "model.layers=12"  # for layer numbers
        attempts = [(twelve,), ("model=transformer_xl", twelve), ("model=encoder_decoder", twelve), ("model=rhn",)]
        attempts += [("model=encoder_decoder", "dataset=iwslt_pt_en", "model.layers=12")] if group != "dataset" else []
    composed, refusals = None, []
    for overrides in attempts:
        try:
            composed = experiment(f"{group}={option}", *overrides)
            break
        except Refused as refusal:
            refusals.append(str(refusal))
    assert composed is not None, refusals
    if group in ("gate", "model", "layers"):
        import torch

        with torch.device("meta"):
            build.model(composed)


def test_options_say_what_they_are() -> None:
    """Every YAML file opens with a comment."""
    for path in CONF.rglob("*.yaml"):
        assert path.read_text().startswith("#"), path


def test_the_command_of_the_first_row(experiment: Compose) -> None:
    """Composing a table's row at paper budget equals typing its recipe."""
    table = load_table("highway_t1")
    typed = experiment(
        "model=transformer", "gate=sdu_tanh", "layers=all", "dataset=ptb_char", "optimizer=sgd_plateau", "seed=1"
    )
    assert RunDirectory.of(experiment(*table.overrides(table.row("tanh"), "paper", 1))) == RunDirectory.of(typed)


def test_budget_that_sets_what_a_row_sets_is_refused() -> None:
    with pytest.raises(Refused, match="budget mini sets gate, which row a sets too"):
        parse_table(content(budgets={"paper": [], "mini": ["gate=sdu_tanh"]}))


def test_row_of_one_budget() -> None:
    """A row of one budget may set a key that another budget sets, and is refused at the other budgets."""
    rows = [*content()["rows"], {"id": "b", "label": "B", "overrides": ["model.width=3"], "budgets": ["paper"]}]
    table = parse_table(content(rows=rows, budgets={"paper": [], "mini": ["model.width=2"]}))
    assert [[row.id for row in table.at(budget)] for budget in table.budgets] == [["a", "b"], ["a"]]
    with pytest.raises(Refused, match="t has row 'b' at budget paper only"):
        table.overrides(table.row("b"), "mini", 1)


def test_claim_about_a_row_that_is_not_there_is_refused() -> None:
    claim = {"text": "x", "better": "b", "than": "a", "metric": "test_loss"}
    with pytest.raises(Refused, match=r"t, claim 'x': there is no row 'b'. Available: a"):
        parse_table(content(claims=[claim]))


def row(**changes: Any) -> dict[str, Any]:
    return {"id": "a", "label": "A", "overrides": ["gate=none"], **changes}


BETTER: dict[str, Any] = {"text": "x", "better": "a", "than": "b", "metric": "test_bpc"}
AT_MOST: dict[str, Any] = {"text": "x", "at_most": "a", "than": "b"}
CURVES: dict[str, Any] = {"id": "f", "caption": "c", "metrics": ["loss"], "splits": ["valid"]}
TWO_ROWS = [{"id": name, "label": name, "overrides": []} for name in "ab"]
CURVED: dict[str, Any] = {"text": "x", "better": "a", "than": "a", "metric": "valid_loss", "over": "all"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"captoin": "x"}, "t: captoin is not a key. Did you mean 'caption'\\? Available: id, caption"),
        ({"rows": [{"id": "a", "label": "A", "overrides": [], "note": "x"}]}, r"t: rows\[a\]\.note is not a key\."),
        ({"rows": [{"id": "a", "label": "A"}]}, r"t: rows\[a\]\.overrides is missing\."),
        ({"rows": []}, "t: the table has no rows"),
        ({"choices": "one sentence"}, r"t: choices=one sentence must be a list, as in \[a,b\]\."),
        (
            {"choices": [{"the rate": "is ours"}]},
            r"t: choices\[0\]={'the rate': 'is ours'} must be a text\. Quote a text that has ': ' in it",
        ),
        (
            {"columns": [{"metric": "test_bcp"}]},
            r"t: columns\[0\].metric=test_bcp is unknown. Did you mean 'test_bpc'?",
        ),
        ({"columns": [{"metric": "test_bpc", "better": "lower"}]}, r"t: columns\[0\]\.better is not a key\."),
        (
            {"columns": [{"metric": "test_ppl"}]},
            "t: its runs do not measure test_ppl. They measure valid_loss, valid_bpc",
        ),
        ({"columns": [{"metric": "bleu"}]}, "t: its runs do not measure bleu"),
        ({"recipe": ["dataset=ptb_word"], "columns": [{"metric": "test_bpc"}]}, "its runs do not measure test_bpc"),
        (
            {"rounds": 3, "columns": [{"metric": "test_bpc"}]},
            "not measure test_bpc. They measure step",
        ),
        (
            {"claims": [{"text": "x", "bettr": "a", "than": "a", "metric": "test_bpc"}]},
            r"claims\[0\]\.bettr is not a key\. Did you mean 'better'\?",
        ),
        ({"claims": [{"text": "x", "metric": "test_bpc"}]}, r"t: claims\[0\]: write exactly one of better, at_most"),
        (
            {"claims": [{"text": "x", "better": "a", "than": "a", "metric": "bpc"}]},
            r"t: claims\[0\]\.metric=bpc is unknown",
        ),
        ({"figures": [{"id": "f", "caption": "c", "kind": "pie"}]}, r"t: figures\[f\]\.kind=pie is unknown"),
        ({"figures": [{**CURVES, "metrics": ["bcp"]}]}, r"t: figures\[f\]: metric bcp is unknown"),
        ({"figures": [{**CURVES, "splits": ["dev"]}]}, r"t: figures\[f\]\.splits=dev is unknown"),
        ({"figures": [{**CURVES, "metrics": ["ppl"]}]}, "t: its runs do not measure valid_ppl"),
        (
            {"figures": [{**CURVES, "over": "epok"}]},
            r"t: figures\[f\]\.over=epok is unknown. Did you mean 'epoch'\? Available: epoch, step, seconds, tokens",
        ),
        ({"figures": [{"id": "f", "caption": "c"}]}, r"t: figures\[f\]: a figure of kind curves needs metrics"),
        ({"figures": [{"id": "f", "caption": "c", "kind": "biases"}]}, "a figure of kind biases needs rows"),
        (
            {"figures": [{**CURVES, "kind": "scatter", "metrics": ["test_bpc", "test_loss"]}]},
            "draws test_loss, which is not a col",
        ),
        ({"figures": [{**CURVES, "kind": "scatter", "metrics": ["test_bpc"]}]}, "of kind scatter needs two metrics"),
        ({"claims": [{"text": "x", "better": "a", "metric": "test_bpc"}]}, r"claims\[0\]: `than` is missing"),
        ({"claims": [{**CURVED, "metric": "train_seconds"}]}, "train_seconds has no curve, which `over` needs"),
        ({"claims": [{**CURVED, "metric": "seen_loss"}]}, "seen_loss has no curve"),
        (
            {"claims": [{**CURVED, "over": [0, 3]}]},
            r"claims\[0\]\.over=\[0, 3\] must be `all`, or the first and the last",
        ),
        ({"claims": [{**CURVED, "over": "every"}]}, r"claims\[0\]\.over=every must be `all`"),
        ({"claims": [{**CURVED, "over": [3, 1]}]}, "must be `all`"),
        (
            {"claims": [{**CURVED, "than": "b", "over": None, "metric": "train_loss"}], "rows": TWO_ROWS},
            "do not measure train_loss",
        ),
        ({"claims": [{**CURVED, "than": "b", "metric": "train_accuracy"}], "rows": TWO_ROWS}, "measure train_accuracy"),
        ({"claims": [{**CURVED, "quote": "it is"}]}, r"claims\[0\]: `quote` and `where` belong together"),
        ({"rows": [{"id": "a", "label": "A", "overrides": []}] * 2}, "t: two rows have the id a"),
        ({"rounds": 1}, "t: .* Write `rounds: 2` or more"),
        ({"against": {"b": ["a"]}}, "t, against: there is no row 'b'"),
        ({"readings": {"a": ["b"]}}, "t, readings: there is no row 'b'"),
        ({"readings": {"a": []}}, "t, readings: row a has no valid_bpc of the paper. Add it under `paper`"),
        ({"also": [{"metric": "bleu"}]}, "its runs do not measure bleu"),
        ({"select": "first"}, "t: select=first is unknown. Available: best, last"),
        ({"budgets": {"tiny": []}}, "t: there is no budget 'tiny'. Available: medium, mini, paper, smoke"),
        (
            {"rows": [{"id": "a", "label": "A", "overrides": [], "budgets": ["huge"]}]},
            "t, row a: there is no budget 'huge'. Available: paper",
        ),
        ({"columns": []}, "t: the table has no columns"),
        ({"budgets": {}}, "t: the table has no budgets"),
        (
            {"columns": [{"metric": "test_bpc", "digits": 99999}]},
            r"columns\[0\]\.digits=99999 is out of range; it must be from 0 to 10",
        ),
        (
            {"columns": [{"metric": "test_bpc", "digits": "2"}]},
            r"columns\[0\]\.digits=2 must be a whole number\.",
        ),
        ({"columns": [{"metric": "test_bpc"}] * 2}, "t: two columns show test_bpc"),
        ({"columns": "test_bpc"}, "t: columns=test_bpc must be a list"),
        ({"columns": ["test_bpc"]}, r"t: columns\[0\]=test_bpc must be keys with values"),
        ({"rows": [row(paper={"test_bpc": math.nan})]}, r"rows\[a\]\.paper\.test_bpc=nan must be a finite number"),
        ({"rows": [row(paper={"test_bpc": math.inf})]}, r"rows\[a\]\.paper\.test_bpc=inf must be a finite number"),
        (
            {"rows": [row(paper={"test_bpc": "1.3"})]},
            r"rows\[a\]\.paper\.test_bpc=1.3 must be a finite number\.",
        ),
        ({"rows": [row(paper={"test_bpc": -1})]}, r"t: rows\[a\]: the paper's test_bpc=-1 must be at least 0"),
        ({"rows": [row(paper=[1.3])]}, r"rows\[a\]\.paper=\[1\.3\] must be keys with values"),
        ({"rows": [row(overrides="gate=none")]}, r"rows\[a\]\.overrides=gate=none must be a list"),
        (
            {"rows": [row(overrides=[{"gate": "none"}])]},
            r"rows\[a\]\.overrides\[0\]={'gate': 'none'} must be a text. Quote",
        ),
        (
            {"rows": [row(overrides=["gate"])]},
            r"rows\[a\]\.overrides\[0\]=gate must be an override, as in gate=sdu_tanh",
        ),
        ({"rows": [row(overrides=["outputs_dir=/tmp"])]}, "t: outputs_dir=/tmp cannot be set in a table"),
        ({"rows": [row(overrides=["hydra.run.dir=x"])]}, r"t: hydra\.run\.dir=x cannot be set in a table"),
        ({"recipe": ["++data_dir=x"]}, r"t: \+\+data_dir=x cannot be set in a table"),
        ({"rows": [row(at_budget={"paper": ["seed=3"]})]}, "t: seed=3 cannot be set in a table"),
        ({"rows": [row(parameters_of="b")]}, "t, row a, parameters_of: there is no row 'b'"),
        (
            {"rows": [row(choose={"by": "valid_bpc", "optimizer.lr": [0.1, 0.2]}), row(id="b", parameters_of="a")]},
            "t, row b, parameters_of: row a has `choose`. Name a row without it",
        ),
        (
            {"rows": [row(budgets=["smoke"]), row(id="b", parameters_of="a")], "budgets": {"smoke": [], "paper": []}},
            "t, row b, parameters_of: row a is not at budget paper. Set `budgets` of b alike",
        ),
        (
            {"rows": [row(parameters_of="a")]},
            "t, row a, parameters_of: row a has `parameters_of`. Name a row without it",
        ),
        ({"rows": [row(id="../../x")]}, r"id=\.\./\.\./x must be a name of letters, digits"),
        ({"rows": [row(id=3)]}, r"rows\[0\]\.id=3 must be a text\. Quote"),
        ({"rows": [row(extra=True)]}, r"rows\[a\]\.extra is not a key"),
        ({"rows": {"a": row()}}, "t: rows={.*} must be a list"),
        ({"rows": [row(label=3)]}, r"rows\[a\]\.label=3 must be a text\. Quote a text"),
        ({"figures": [{**CURVES, "id": "../../x"}]}, r"id=\.\./\.\./x must be a name of letters, digits"),
        ({"figures": [CURVES, CURVES]}, "t: two figures have the id f"),
        ({"figures": [{**CURVES, "metrics": "loss"}]}, r"figures\[f\]\.metrics=loss must be a list"),
        ({"figures": [{**CURVES, "logs": "maybe"}]}, r"figures\[f\]\.logs=maybe must be true or false"),
        (
            {"claims": [{"text": "x", "better": "a", "than": "a", "metric": "test_bpc"}]},
            "it compares row a with itself",
        ),
        (
            {"claims": [{"text": "x", "better": [], "than": "a", "metric": "test_bpc"}]},
            "write exactly one of .* with its rows",
        ),
        (
            {"claims": [{"text": "x", "better": 3, "than": "a", "metric": "test_bpc"}]},
            r"claims\[0\]\.better=3 must be a list",
        ),
        (
            {"claims": [{**AT_MOST, "metric": "test_bpc", "share": math.nan}]},
            r"claims\[0\]\.share=nan must be a finite number",
        ),
        ({"claims": "none"}, "t: claims=none must be a list"),
        ({"against": {"a": ["a"]}}, "against: row a is compared with itself"),
        ({"against": [1]}, r"t: against=\[1\] must be keys with values"),
        ({"budgets": {"paper": "gate=none"}}, r"t: budgets\.paper=gate=none must be a list"),
        ({"rounds": 10**6}, "t: rounds=1000000 is out of range; it must be from 0 to 10000"),
        ({"claims": [{**BETTER, "share": 0.1}]}, r"claims\[0\]: `share` belongs to `at_most`. Leave it out"),
        ({"claims": [{**AT_MOST, "metric": "test_accuracy"}]}, "`at_most` compares ratios of a metric of which lower"),
        ({"claims": [{"text": "x", "growing": "a", "than": "a", "metric": "test_bpc"}]}, "one gain does not grow"),
        ({"recipe": None}, "t: recipe=null must be a list"),
    ],
)
def test_what_a_table_may_have_wrong(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        parse_table(content(**changes))


def test_a_series_is_over_what_its_rows_set() -> None:
    figure = {"id": "f", "caption": "x", "kind": "series", "metrics": ["test_bpc"], "groups": {"g": ["a"]}}
    with pytest.raises(Refused, match="needs along"):
        parse_table(content(figures=[figure]))
    with pytest.raises(Refused, match="row a does not set model"):
        parse_table(content(figures=[{**figure, "along": "model.depth"}]))
    with pytest.raises(Refused, match="row a does not set gate to a number"):
        parse_table(content(figures=[{**figure, "along": "gate"}]))
    with pytest.raises(Refused, match="pairs 1 rows with 2"):
        parse_table(content(claims=[{"text": "x", "growing": "a", "than": ["a", "a"], "metric": "test_bpc"}]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("digits: 4", "digits: 99999"), "columns[0].digits=99999 is out of range; it must be from 0 to 10."),
        (("select: best", "select: best\nselect: last"), "'select' is given twice, first in line"),
        (("label: ", "labl: "), "rows[baseline].labl is not a key. Did you mean 'label'?"),
        (("than: baseline, metric: test_bpc,", "metric: test_bpc,"), "claims[0]: `than` is missing. Name the rows"),
        (
            ("baseline, metric: valid_bpc", "baseline, metric: valid_bpd"),
            "claims[3].metric=valid_bpd is unknown. Did you mean 'valid_bpc'?",
        ),
        (("select: best", "select: ["), "is not valid YAML"),
        (("select: best", "select: b\xe9st"), "is not UTF-8 text. Save the file as UTF-8."),
    ],
)
def test_a_mistake_has_a_line(
    change: tuple[str, str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (CONF / "table" / "highway_t1.yaml").read_text()
    assert change[0] in text
    monkeypatch.setattr("highway.tables.reading.conf_file", lambda name: tmp_path / Path(name).name)
    (tmp_path / "highway_t1.yaml").write_bytes(text.replace(*change, 1).encode("latin-1"))
    with pytest.raises(Refused) as refusal:
        load_table("highway_t1")
    assert sentence in str(refusal.value) and re.search(r"highway_t1\.yaml, line [0-9]+", str(refusal.value))


def test_a_table_is_called_as_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highway.tables.reading.conf_file", lambda name: tmp_path / Path(name).name)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content(id="other")))
    with pytest.raises(Refused, match=r"mine\.yaml: the id of a table must be the name of its file\. Write `id: mine`"):
        load_table("mine")


def test_a_table_of_ones_own_needs_little() -> None:
    needed = ("id", "caption", "recipe", "columns", "rows", "budgets")
    table = parse_table({key: content(columns=[{"metric": "test_bpc"}])[key] for key in needed})
    assert (table.select, table.paper, table.heading) == ("best", "", "t: c")
    (column,) = table.columns
    assert (column.title, column.better, column.digits) == ("test bits per character", "lower", 3)


def test_order_is_recipe_row_budget() -> None:
    table: Table = parse_table(content(recipe=["model.width=1", "model.heads=1"], budgets={"mini": ["model.width=2"]}))
    assert table.overrides(table.rows[0], "mini", 4) == [
        "model.heads=1",
        "gate=none",
        "model.width=2",
        "budget=mini",
        "seed=4",
    ]


def test_the_last_override_of_a_key_counts_in_its_place() -> None:
    """A whole section that is typed last wins over one of its keys that a table sets."""
    recipe, row = "dataset.train={lanes:16,window:32}", "dataset.train.lanes=32"
    typed = "dataset.train={lanes:4,window:64}"
    assert last_on_each_key([recipe, row, typed]) == [row, typed]
    assert last_on_each_key([typed, row, "seed=1", row]) == [typed, "seed=1", row]
