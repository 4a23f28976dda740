"""`import highway`: the page docs/PYTHON.md, the frames, the comparison and the errors."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import highway
from highway.cli import main
from highway.config.compose import experiment
from highway.config.home import REFERENCE
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.python.train import as_overrides, bar
from highway.report.details import write_frame
from highway.testing.runs import same_weights
from tests.support.commands import ROOT
from tests.support.overrides import FEW, TINY
from tests.support.sweeps import inline
from tests.support.tables import write_ended

PAGE = (ROOT / "docs" / "PYTHON.md").read_text()
T3 = {"table": "highway_t3", "budget": "mini"}


@pytest.mark.slow
def test_every_line_of_the_page_runs() -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.S):
        exec(block, names)
    run, again, last = names["run"], names["again"], names["last"]
    assert run.metrics == again.metrics == last.metrics and run.metrics["test_bpc"]["best"] > 0
    assert names["logits"].shape[0] == 3 and len(names["steps"]) == len(names["values"]) == 2
    assert names["published"].metrics["test_ppl"]["best"] == names["best"].iloc[0].value
    assert set(names["best"].gate) == {"none", "sdu_tanh", "sdu_sigmoid"}


def test_every_function_is_on_the_page() -> None:
    assert set(re.findall(r"`highway\.(\w+)`", PAGE)) == set(highway.__all__)


def test_importing_highway_imports_nothing_large() -> None:
    code = (
        "import sys, highway; print(sorted({'torch', 'pandas', 'numpy', 'hydra', 'rich', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("settings", "overrides"),
    [
        (["gate=sdu_tanh", "seed=1"], ["gate=sdu_tanh", "seed=1"]),
        ({"a": None, "b": True, "c": 1e-5, "d": 3}, ["a=null", "b=true", "c=1e-05", "d=3"]),
        ({"a": {"b": {"c": [1, "x y"]}}}, ["a.b.c=[1,'x y']"]),
        ({"data_dir": "/a b/c,d"}, ["data_dir='/a b/c,d'"]),
    ],
)
def test_settings_become_overrides(settings: Any, overrides: list[str]) -> None:
    assert as_overrides(settings) == overrides


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("seed=1", "several overrides are a list"),
        ({"gate.strength": -1}, r"^gate\.strength is not a key\. gate has "),
        ([*TINY, "trainer.max_steps=2", "optimizer.lr=1e30"], "is diverged: "),
        ([*TINY, "trainer.accelerator=gpu"], r"^trainer\.accelerator=gpu is set, but torch sees no GPU"),
    ],
)
def test_a_run_that_is_refused_or_fails_raises_one_sentence(settings: Any, sentence: str) -> None:
    """The sentence is that of the command line."""
    if "torch sees no GPU" in sentence and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(Refused, match=sentence):
        highway.train(settings, progress=False)


def test_the_error_of_an_earlier_start_is_not_reported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = RunDirectory.of(experiment(TINY))
    write_ended(directory.path, status="failed", error="an old error")
    monkeypatch.setattr("highway.python.train.sys.executable", "/bin/false")
    with pytest.raises(Refused, match="the run ended without a message"):
        highway.train(TINY, progress=False)


def test_python_and_the_command_line_train_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [*TINY, "trainer.max_steps=2", "trainer.validate_every=1"]
    first = highway.train([*settings, f"outputs_dir={tmp_path / 'python'}"]).directory
    typed = {setting.split("=", 1)[0]: setting for setting in (*settings, f"outputs_dir={tmp_path / 'typed'}")}
    monkeypatch.setattr(sys, "argv", ["train.py", *typed.values()])
    with pytest.raises(SystemExit) as end:
        main("train")
    assert not end.value.code
    second = RunDirectory(tmp_path / "typed" / "cells" / first.id)
    assert same_weights(first.last, second.last)


def test_progress_is_one_line() -> None:
    numbers = {"step": 5, "steps": 20, "tokens_per_second": 9.0, "seconds_left": 61.0, "train_loss": 1.5}
    assert bar({}) == "starting"
    assert bar(numbers).startswith("██████" + "░" * 18 + "  25%  step 5/20  train loss 1.5000  1:01 left")


def test_a_frame_has_every_number_of_every_run() -> None:
    frame = highway.runs(**T3)
    for run, lines in frame.groupby("run"):
        result = RunDirectory(REFERENCE / "cells" / str(run)).result()
        assert result is not None
        metrics = {(line.metric, line.checkpoint): line.value for line in lines.itertuples()}
        expected = {(name, which): value for name, both in result["metrics"].items() for which, value in both.items()}
        assert metrics == expected
    assert set(frame.table) == {"highway_t3"} and set(frame.status) == {"finished"}
    gates = frame.groupby("row").gate.first()
    assert gates[["baseline", "matched", "sigmoid", "tanh"]].to_list() == ["none", "none", "sdu_sigmoid", "sdu_tanh"]
    windows = frame.groupby("row")["dataset.evaluation"].first()
    assert windows.baseline.startswith("{lanes: 10, window: 80,") and windows.whole.startswith("{window:80,")


def test_the_frame_of_a_table_without_runs_is_empty() -> None:
    frame = highway.runs("highway_t3", "smoke")
    assert frame.empty and list(frame.columns[:4]) == ["run", "directory", "table", "budget"]


def test_numbers_among_the_swept_settings_are_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    swept = (*TINY, *FEW, "optimizer.lr=0.5,1.0", "name=rates")
    assert inline(monkeypatch, tmp_path / "outputs", *swept)[0] == 0
    assert sorted(set(highway.runs("rates")["optimizer.lr"])) == [0.5, 1.0]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_report_writes_the_frame(ending: str, tmp_path: Path) -> None:
    frame = highway.runs(**T3)
    write_frame(frame, path := tmp_path / f"runs.{ending}")
    texts = dict.fromkeys(frame.select_dtypes(exclude="number"), str)  # else "false" is read as a truth value
    written = pd.read_parquet(path) if ending == "parquet" else pd.read_csv(path, dtype=texts)
    pd.testing.assert_frame_equal(written, frame, check_dtype=False)


def test_no_cell_of_the_frame_is_a_formula(tmp_path: Path) -> None:
    write_frame(pd.DataFrame({"row": ["=1+1", "tanh"], "value": [-1.5, 2.0]}), tmp_path / "runs.csv")
    assert (tmp_path / "runs.csv").read_text() == "row,value\n'=1+1,-1.5\ntanh,2.0\n"


def test_curves_are_those_of_the_runs() -> None:
    frame = highway.curves(**T3, split="valid", metric="loss")
    run = highway.load(highway.runs(**T3).iloc[0])
    steps, values = run.curve("valid", "loss")
    lines = frame[frame.run == run.directory.id]
    assert lines.step.tolist() == steps.tolist() and lines.value.tolist() == values.tolist()


class _Tags(HTMLParser):
    """Checks that every tag is closed, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_comparison_prints_and_is_shown_as_html() -> None:
    comparison = highway.compare("highway_t3", "mini")
    html, tags = comparison._repr_html_(), _Tags()
    tags.feed(html)
    assert not tags.open and tags.seen.count("table") >= 2
    for row in comparison.report.rows:
        assert row.label in str(comparison) and row.label.replace("&", "&amp;") in html
    assert comparison.to_markdown().startswith("# ")
