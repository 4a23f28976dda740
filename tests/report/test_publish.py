"""highway publish: a folder that any machine can read, thinned curves, and no finished record that is replaced."""

import csv
import math
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import highway
from highway.cli import main
from highway.config import home
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.files import read_json, write_text
from highway.ledger.record import write_record
from highway.report.collect import collect
from highway.report.curves import FIRST_ROWS, TRAINING_ROWS, Point, mean_over, read_curves, thin_curves
from highway.report.details import to_csv
from highway.report.publish import publish
from highway.report.write import write_report
from highway.tables import grid, reading
from highway.tables.rows import with_overrides
from highway.tables.table import Epochs, Table
from tests.support.tables import TABLE, put

GRID: dict[str, Any] = {
    "id": "rates",
    "caption": "two gates",
    "command": "highway train -m name=rates gate=none,sdu_tanh",
    "recipe": ["model=transformer", "dataset=ptb_char", "layers=all"],
    "columns": [{"metric": "test_bpc"}],
    "rows": [{"id": f"gate={gate}", "label": gate, "overrides": [f"gate={gate}"]} for gate in ("none", "sdu_tanh")],
    "budgets": {"paper": []},
}
pytestmark = pytest.mark.usefixtures("no_published_records")


def numbers(table: Table, outputs: Path) -> str:
    return to_csv(collect(table, "paper", outputs))


def test_a_table_is_read_wherever_its_folder_is_moved_to(tmp_path: Path) -> None:
    here, moved = tmp_path / "here", tmp_path / "moved"
    for row, value in (("baseline", 1.5), ("tanh", 1.4)):
        run = put(here, row, 1, value)
        write_text(run / "config.yaml", "seed: 1\n")
        write_text(run / "checkpoints" / "best.safetensors", "weights")
    write_text(put(here, "tanh", 2, 1.4, status="diverged") / "config.yaml", "seed: 2\n")
    changed = with_overrides(TABLE, ["paper"], ["model.dropout=0.3"])
    write_text(put(here, changed.rows[-1].id, 1, 1.3, table=changed) / "config.yaml", "seed: 1\n")
    grid.keep_overrides(TABLE.id, "paper", ["model.dropout=0.3"], here)
    publication = publish(TABLE, None, here, tmp_path / "published")
    assert (len(publication.copied), publication.published_before) == (4, [])
    assert tmp_path / "published" / "report" / "highway_t1" / "paper" / "table.md" in publication.reports
    (tmp_path / "published").rename(moved)
    assert numbers(TABLE, moved) == numbers(TABLE, here)
    assert numbers(changed, moved) == numbers(changed, here)
    assert grid.swept_with_overrides(moved) == grid.swept_with_overrides(here) != []
    assert not list(moved.rglob("checkpoints"))
    again = publish(TABLE, "paper", here, moved)
    assert (again.copied, len(again.published_before), again.differing) == ([], 4, [])
    shutil.copytree(moved / "cells", tmp_path / "other" / "cells")
    assert numbers(TABLE, tmp_path / "other") == numbers(TABLE, here), "runs that are copied into cells/ are there"


def test_a_grid_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --to, the runs and the name of the grid go to outputs/reference/, where every report finds them."""
    here, reference = tmp_path / "outputs", tmp_path / "reference"
    monkeypatch.setattr(home, "REFERENCE", reference)
    grid.keep(GRID, here)
    table = reading.find("rates", here)
    for row in table.rows:
        write_text(put(here, row.id, 1, 1.5, table=table) / "config.yaml", "seed: 1\n")
    expected = numbers(table, here)
    monkeypatch.setattr(sys, "argv", ["highway", "publish", "rates"])
    main()
    assert f"{reference}: 2 runs published, 0 runs published before" in capsys.readouterr().out
    shutil.rmtree(here)
    assert "rates" in reading.grid_names(here) and numbers(reading.find("rates", here), here) == expected


@pytest.mark.parametrize(
    ("local", "published", "replaced"),
    [("finished", "diverged", True), ("diverged", "interrupted", True), ("diverged", "finished", False)],
)
def test_a_published_run_is_replaced_only_by_one_that_ended_better(
    tmp_path: Path, local: str, published: str, replaced: bool
) -> None:
    run = put(tmp_path / "here", "tanh", 1, 1.4, status=local)
    write_text(run / "config.yaml", "seed: 1\n")
    there = tmp_path / "there" / "cells" / run.parent.name / run.name
    shutil.copytree(run, there)
    write_record(
        there, {**read_json(run / "result.json"), "status": published, "metrics": {"other": {"best": 1, "last": 1}}}
    )
    publication = publish(TABLE, "paper", tmp_path / "here", tmp_path / "there")
    assert RunDirectory(there).status == (local if replaced else published)
    assert publication.differing == ([] if replaced else [RunDirectory(run).id])
    assert [path.name for path in there.parent.iterdir()] == ["seed1"], "no half of a copy"


def test_a_run_at_the_target_keeps_its_lease_and_what_was_set_aside(tmp_path: Path) -> None:
    run = put(tmp_path / "here", "tanh", 1, 1.4)
    write_text(run / "config.yaml", "seed: 1\n")
    there = RunDirectory(tmp_path / "there" / "cells" / run.parent.name / run.name)
    shutil.copytree(run, there.path)
    there.set_aside()
    with there.leased(), pytest.raises(Refused, match=r"seed1 is being trained\. Type this again when it has ended"):
        publish(TABLE, "paper", tmp_path / "here", tmp_path / "there")
    publish(TABLE, "paper", tmp_path / "here", tmp_path / "there")
    assert there.done and read_json(there.path / "earlier" / "1" / "result.json") == read_json(run / "result.json")


@pytest.mark.parametrize(
    ("words", "checkout", "sentence"),
    [
        (["--budget", "mini"], True, "no finished or diverged run at mini, so"),
        ([], False, "only highway's own checkout has a folder of published runs. Name one"),
    ],
)
def test_what_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    checkout: bool,
    sentence: str,
) -> None:
    if not checkout:
        monkeypatch.setattr(home, "SHIPPED", tmp_path)
    monkeypatch.setattr(sys, "argv", ["highway", "publish", "highway_t1", *words])
    with pytest.raises(SystemExit):
        main()
    assert sentence in capsys.readouterr().err


def test_thinned_curves_keep_every_validation_and_what_a_report_reads() -> None:
    lines = []
    for step in range(1, 3001):
        rate = 0.1 if step < 1703 else 0.01
        lines += [f"{step},{step / 100},1.0,{step},train,loss,{5 / step}"]
        lines += [f"{step},{step / 100},1.0,{step},train,learning_rate,{rate}"]
        lines += [f"{step},{step / 100},1.0,{step},valid,loss,{6 / step}"]
    curves = "\n".join(["step,epoch,seconds,tokens,split,metric,value", *lines]) + "\n"
    rows = list(csv.DictReader(thin_curves(curves).splitlines()))
    assert sum(row["split"] == "valid" for row in rows) == 3000
    for metric in ("loss", "learning_rate"):
        steps = [int(row["step"]) for row in rows if (row["split"], row["metric"]) == ("train", metric)]
        assert steps[:FIRST_ROWS] == list(range(1, FIRST_ROWS + 1)) and steps[-1] == 3000
        assert 250 <= len(steps) <= TRAINING_ROWS
    assert 1703 in steps, "the step at which validation divided the rate"
    assert thin_curves(thin_curves(curves)) == thin_curves(curves)


def test_a_mean_over_epochs_hardly_changes_with_thinning(tmp_path: Path) -> None:
    """The curve is like one of highway_t3: 100 epochs of 1,452 steps, of which every fiftieth is written."""
    rng, whole = np.random.default_rng(1), []
    for step in range(50, 145_201, 50):
        value = 4.4 + 3 * math.exp(-step / 1452 / 4) + rng.normal(0, 0.1)
        whole.append(f"{step},{step / 1452:.6f},1.0,{step},train,loss,{value}")
    lines = "\n".join(["step,epoch,seconds,tokens,split,metric,value", *whole]) + "\n"
    curves = []
    for name, text in (("whole", lines), ("thinned", thin_curves(lines))):
        write_text(tmp_path / f"{name}.csv", text)
        curves.append(read_curves(tmp_path / f"{name}.csv")[""]["train", "loss"])
    before, after = curves
    assert len(after) < TRAINING_ROWS < len(before)
    for epochs in (Epochs(1, 30), Epochs(1, None)):
        assert mean_over(after, epochs) == pytest.approx(mean_over(before, epochs), abs=0.02)
    by_row = statistics.fmean(point.value for point in after if point.epoch <= 30)
    assert by_row > mean_over(after, Epochs(1, 30)) + 0.3, "its first epochs have more rows"


@pytest.mark.parametrize(
    ("epochs", "mean"),
    [
        (Epochs(1, None), (2.5 + 5) / 2),
        (Epochs(1, 2), (2.5 + 5) / 2),
        (Epochs(2, 2), 5),
        (Epochs(1, 3), math.nan),
        (Epochs(3, 3), math.nan),
        (Epochs(4, None), math.nan),
    ],
)
def test_a_mean_over_epochs_is_of_the_means_of_epochs(epochs: Epochs, mean: float) -> None:
    """The first epoch has 2 and 3, the second 5, as what is measured at its end belongs to it; the third ends early."""
    measured = [(0.5, 2.0), (1.0, 3.0), (2.0, 5.0), (2.1, 6.0)]
    curve = [Point(100 * epoch, epoch, value, 0, 0) for epoch, value in measured]
    assert mean_over(curve, epochs) == pytest.approx(mean, nan_ok=True)
    assert math.isnan(mean_over([], epochs))
    assert mean_over(curve[:1], Epochs(1, None)) == 2, "of an unfinished first epoch, what there is"


def test_every_published_curve_is_thinned() -> None:
    reference = Path(__file__).parents[2] / "outputs" / "reference"
    paths = list(reference.glob("cells/*/seed*/curves.csv"))
    assert len(paths) > 100
    for path in paths:
        curves = path.read_text()
        assert thin_curves(curves) == curves, path


def test_a_run_of_another_project_names_it(tmp_path: Path) -> None:
    run = put(tmp_path, "tanh", 1, 1.4, environment={"project": {"package": "my_gates", "version": "1"}})
    config = "model: {name: my_model}\ndataset: {name: penn_treebank}\n"
    write_text(run / "config.yaml", config)
    with pytest.raises(Refused, match=r"needs the project my_gates, .*my_model is unknown.* set HIGHWAY_PROJECT to"):
        highway.load(run)
    theirs = {**GRID, "project": "my_gates"}
    grid.keep(theirs, tmp_path)
    assert reading.find("rates", tmp_path).project == "my_gates", "this grid can be read without it"
    theirs["recipe"] = ["optimizer=mine"]
    write_text(tmp_path / "grids" / "rates" / "table.yaml", yaml.safe_dump(theirs))
    with pytest.raises(Refused, match="the grid rates needs the project my_gates"):
        reading.find("rates", tmp_path)


def test_the_report_at_the_target_is_that_of_its_records(tmp_path: Path) -> None:
    """A local run that diverged does not hide the finished run that is published."""
    run = put(tmp_path / "here", "tanh", 1, 1.4, status="diverged")
    write_text(run / "config.yaml", "seed: 1\n")
    put(tmp_path / "there", "tanh", 1, 1.2)
    publish(TABLE, "paper", tmp_path / "here", tmp_path / "there")
    _, paths = write_report(collect(TABLE, "paper", tmp_path / "there"), tmp_path / "report")
    published = tmp_path / "there" / "report" / TABLE.id / "paper"
    assert (published / "table.csv").read_text() == next(p for p in paths if p.name == "table.csv").read_text()
    assert "1.2" in (published / "table.csv").read_text()
