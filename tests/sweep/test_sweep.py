"""Sweeps through the real command line: tables and grids, in processes of their own and inline."""

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from highway.cli import main
from highway.config import compose
from highway.config.compose import experiment
from highway.errors import Refused
from highway.ledger.directory import RunDirectory
from highway.ledger.files import read_json
from highway.machine import cores
from highway.report.write import show_reports
from highway.sweep.launcher import Launcher
from highway.sweep.planned_run import Planned
from highway.tables import grid, reading
from highway.tables.reading import load_table
from highway.tables.typed import Typed
from highway.testing.runs import same_weights
from tests.support.commands import TRAIN, typed
from tests.support.overrides import FEW, TINY
from tests.support.sweeps import inline, results, sweep
from tests.support.tables import write_ended
from tests.support.waiting import wait_for

QUICK = (*FEW, "trainer.threads=1")
TABLE = load_table("highway_t1")


@pytest.mark.slow
def test_a_table_in_processes_of_its_own(tmp_path: Path) -> None:
    """Two of these overrides make new rows, and one does not."""
    arguments = ("table=highway_t1", "budget=smoke", "seeds=2", "rows=baseline,tanh", *FEW)
    done = sweep(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    assert "2 runs: 0 finished already, 2 to train." in done.stderr
    assert len(results(tmp_path)) == 2
    links = sorted(tmp_path.glob("highway_t1/smoke/*/*"))
    rows = [",".join((row, *FEW[:2])) for row in ("baseline", "tanh")]
    assert [str(link.relative_to(tmp_path / "highway_t1/smoke")) for link in links] == [f"{row}/seed2" for row in rows]
    result = read_json(links[1] / "result.json")
    assert (result["seed"], result["status"], result["environment"]["threads"]) == (
        2,
        "finished",
        max(cores() // min(cores(), 4), 1),
    )
    assert result["command"].startswith("highway train model=transformer layers=all")
    assert str(tmp_path) not in result["command"]

    again = sweep(tmp_path, *arguments)
    assert again.returncode == 0
    assert "2 runs: 2 finished already, 0 to train." in again.stderr


def test_a_grid_inline(tmp_path: Path) -> None:
    overrides = ("gate=none,highway", "layers=l1,all", "seed=1,2", *TINY, *FEW)
    done = sweep(tmp_path, "hydra/launcher=inline", "name=layers_study", *overrides)
    assert done.returncode == 0, done.stderr
    assert len(results(tmp_path)) == 6  # no gate on layer 1 and no gate on all layers are one experiment
    assert "layers_study: gate (none, highway) and layers (l1, all)" in " ".join(done.stdout.split())
    assert "gate=highway" in done.stdout and " ± " in done.stdout
    assert (tmp_path / "report" / "layers_study" / "smoke" / "curves.svg").exists()
    table = reading.find("layers_study", tmp_path)
    assert table.command.startswith("highway train -m gate=none,highway layers=l1,all seed=1,2")
    assert [row.label for row in table.rows] == [
        f"gate={gate} layers={layers}" for gate in ("none", "highway") for layers in ("l1", "all")
    ]
    views = sorted(path for path in tmp_path.glob("layers_study/smoke/*/seed*"))
    assert len(views) == 8 and all((view / "result.json").exists() for view in views)
    assert len({view.resolve() for view in views}) == 6
    (tmp_path / "report" / "layers_study" / "smoke" / "table.md").unlink()
    assert len(show_reports([(table, "smoke", ())], tmp_path, Console(file=(messages := io.StringIO()), width=80))) == 1
    assert "±" in messages.getvalue()
    assert (tmp_path / "report" / "layers_study" / "smoke" / "table.md").exists()
    text = (tmp_path / "report" / "layers_study" / "smoke" / "table.csv").read_text()
    assert all(f",{metric}," in text for metric in ("parameters", "gate_parameters", "tokens_per_second"))


def test_a_sweep_with_a_title_and_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = (r"title='Do $\alpha$ gates help?'", "columns=test_bpc,parameters")
    typed = ("gate=none,highway", "seed=1", *TINY, *FEW, *heads)
    code, text = inline(monkeypatch, tmp_path, *typed, "name=mine")
    assert code == 0, text
    page = (tmp_path / "report" / "mine" / "smoke" / "table.md").read_text()
    assert r"# mine: Do $\\alpha$ gates help?" in page and "|model|test bits per character|parameters|n|" in page
    table = reading.find("mine", tmp_path)
    assert shlex.split(table.command)[-2:] == [*heads], "the command of the page gives the page again"
    assert inline(monkeypatch, tmp_path, "table=highway_t1", heads[0])[0] == 2, "a table's file has its caption"


def test_grids_have_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, sentence in (
        ("highway_t1", "is the name of a table"),
        ("cells", "is the name of another folder of outputs/"),
        ("../x", "cannot name a folder"),
    ):
        with pytest.raises(Refused, match=sentence):
            grid.as_table(Typed(name=name, overrides={"gate": ["none"]}))
    first, second, other = (
        grid.as_table(Typed(overrides={"gate": ["none"], "seed": seeds, "optimizer.lr": rates}))
        for seeds, rates in ((["1"], ["1", "2"]), (["2"], ["1", "2"]), (["1"], ["1", "3"]))
    )
    assert first["id"] == second["id"] != other["id"], "more seeds are the same grid"
    with pytest.raises(Refused, match="there is no table or grid 'layer_study'"):
        reading.find("layer_study", tmp_path)
    code, _ = inline(monkeypatch, tmp_path, "table=highway_t1", "name=mine")
    assert code == 2


def test_a_grid_tells_which_other_grid_of_its_name_it_replaces(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def keep(gate: str, rates: list[str], **seeds: list[str]) -> str:
        caplog.clear()
        choices = {"gate": [gate], "optimizer.lr": rates, **seeds}
        grid.keep(grid.as_table(Typed(name="mine", overrides=choices)), tmp_path)
        return caplog.text

    assert keep("none", ["1", "2"]) == ""
    assert keep("none", ["1", "2", "3"], seed=["1", "2"]) == "", "all rows are shown"
    before = "another name: highway train -m gate=none optimizer.lr=1,2,3 seed=1,2"
    assert f"see them again, give its command with {before}" in keep("none", ["1"])
    assert "another name: highway train -m gate=none optimizer.lr=1" in keep("highway", ["1", "2"])
    (tmp_path / "grids" / "mine" / "table.yaml").write_text("nothing: [")
    assert keep("none", ["1"]) == ""
    assert reading.find("mine", tmp_path).command == "highway train -m gate=none optimizer.lr=1"


@pytest.mark.parametrize("launcher", ["local", "slurm"])
def test_every_launcher_hands_on_the_folder_of_options(
    launcher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "mine.yaml").write_text("defaults: [_neutral, _self_]\nresidual: sdu\n")
    commands: list[list[str]] = []

    def launch(self: Launcher, to_run: list[Planned], *_: object) -> None:
        self.threads = 1
        commands.extend(map(self.command, to_run))

    monkeypatch.setattr(Launcher, "launch_runs", launch)
    words = ("-m", f"hydra/launcher={launcher}", *TINY, "dataset.source=sample", "gate=mine", "-cd", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    with pytest.raises(SystemExit):
        main("train")
    assert [f"hydra.searchpath=['file://{tmp_path}']" in command for command in commands] == [True]


def test_a_failing_run_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    overrides = (*TINY, "gate=none", "optimizer.clip=null", "trainer.max_steps=10", "trainer.log_every=1")
    code, _ = inline(monkeypatch, tmp_path, *overrides, "model.width=16,18", "optimizer.lr=0.1,1e9")
    assert code == 1 and "2 of 4 runs did not finish" in capsys.readouterr().err
    assert sorted(read_json(path)["status"] for path in results(tmp_path)) == ["diverged"] * 2 + ["finished"] * 2


def views(folder: Path, table: str = "highway_t1") -> list[str]:
    return sorted(str(path.relative_to(folder / table)) for path in folder.glob(f"{table}/*/*/*"))


def test_what_the_command_line_adds_stands_in_views_and_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ("table=highway_t1", "budget=smoke", "rows=baseline,tanh", *QUICK)
    assert inline(monkeypatch, tmp_path, *overrides, "gate.reads=stream,normalised")[0] == 0
    changed = ",".join(word for word in QUICK if word.startswith("trainer.max") or word.startswith("trainer.val"))
    plain = [f"smoke/{row},{changed},gate.reads=stream/seed1" for row in ("baseline", "tanh")]
    assert set(plain) < set(views(tmp_path))
    other = f"smoke/tanh,{changed},gate.reads=normalised/seed1"
    assert other in views(tmp_path)
    assert (tmp_path / "highway_t1" / other).resolve() != (tmp_path / "highway_t1" / plain[1]).resolve()
    assert len(results(tmp_path)) == 3, "no gate reads nothing"
    written = [path.parent.relative_to(tmp_path / "report").as_posix() for path in tmp_path.rglob("table.md")]
    assert sorted(written) == [f"highway_t1,{changed},gate.reads={reads}/smoke" for reads in ("normalised", "stream")]
    assert "|*+ tanh SDU*|" in (tmp_path / "report" / min(written) / "table.md").read_text()


def test_what_changes_no_cell_leaves_the_views_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep is only planned here: its runs have failed before, and are not run again."""
    arguments = ("table=highway_t1", "budget=smoke", "rows=baseline,tanh")
    for row in ("baseline", "tanh"):
        directory = RunDirectory.of(
            experiment([*TABLE.overrides(TABLE.row(row), "smoke", 1), f"outputs_dir={tmp_path}"])
        )
        write_ended(directory.path, "failed", error="x")
    inline(monkeypatch, tmp_path, *arguments, "trainer.threads=1", "trainer.log_every=7", "logger=wandb")
    assert views(tmp_path) == ["smoke/baseline/seed1", "smoke/tanh/seed1"]
    inline(monkeypatch, tmp_path, *arguments, "gate.kernel=5")  # neither row reads it
    assert views(tmp_path) == ["smoke/baseline/seed1", "smoke/tanh/seed1"]


def test_a_printed_command_can_be_pasted(tmp_path: Path) -> None:
    """Braces, brackets and blanks survive a shell: the pasted command is the same run, already done."""
    overrides = (*TINY, *FEW, "logger.run='a b'")
    assert typed("train", *overrides, HIGHWAY_OUTPUTS=str(tmp_path)).returncode == 0
    (path,) = results(tmp_path)
    command = read_json(path)["command"]
    assert "'dataset.train={lanes:4,window:24,stride:20,scored:20}'" in command
    again = typed("train", *shlex.split(command)[2:], HIGHWAY_OUTPUTS=str(tmp_path))
    assert again.returncode == 0 and "is finished already: nothing to run." in again.stderr


def test_finished_runs_are_trained_again_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ("gate=none", "seed=1", *TINY, *FEW)
    assert inline(monkeypatch, tmp_path, *overrides)[0] == 0
    (path,) = results(tmp_path)
    record = read_json(path)
    assert "0 to train" in inline(monkeypatch, tmp_path, *overrides)[1]
    with RunDirectory(path.parent).leased():
        assert "0 to train" in inline(monkeypatch, tmp_path, *overrides, "rerun=true")[1]
        assert read_json(path) == record, "its process has not ended yet"
    code, said = inline(monkeypatch, tmp_path, *overrides, "rerun=true")
    assert code == 0 and "is trained again; its record is now in" in said
    assert read_json(path.parent / "earlier" / "1" / "result.json") == record
    assert read_json(path)["sha256"] != record["sha256"], "the clock is another one"
    last = Path("checkpoints", "last.safetensors")
    assert same_weights(path.parent / last, path.parent / "earlier" / "1" / last)


@pytest.mark.slow
def test_ctrl_c_stops_the_cells_and_the_same_command_goes_on(tmp_path: Path) -> None:
    overrides = (
        "table=highway_t1",
        "budget=smoke",
        "rows=baseline,tanh",
        "trainer.max_steps=150",
        "hydra.launcher.slots=2",
    )
    environment = {**os.environ, "HIGHWAY_OUTPUTS": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, str(TRAIN), "-m", *overrides], env=environment, stderr=subprocess.PIPE, text=True
    )
    wait_for(lambda: len([p for p in tmp_path.glob("cells/*/*/curves.csv") if p.stat().st_size > 200]) == 2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Type the same command again to resume" in errors
    assert [read_json(path)["status"] for path in results(tmp_path)] == ["interrupted", "interrupted"]
    done = sweep(tmp_path, *overrides)
    assert done.returncode == 0, done.stderr
    assert [read_json(path)["status"] for path in results(tmp_path)] == ["finished", "finished"]


@pytest.mark.parametrize("flag", ["-cd", "--config-dir", "hydra.searchpath"])
def test_a_folder_of_options_goes_with_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    """A sweep hands its folder of options to its runs and its grid; reports leave a grid without its folder out."""
    theirs, outputs = tmp_path / "their's" / "conf", tmp_path / "outputs"
    (theirs / "gate").mkdir(parents=True)
    (theirs / "gate" / "mine.yaml").write_text("defaults: [_neutral, _self_]\nresidual: sdu_conv\nkernel: 5\n")
    monkeypatch.chdir(tmp_path)
    arguments = ["hydra.searchpath=['their\\'s/conf']"] if flag == "hydra.searchpath" else [flag, "their's/conf"]
    commands: list[str] = []

    def run(experiment: Any, directory: Any, command: str) -> str:
        commands.append(command)
        return "failed"

    monkeypatch.setattr("highway.training.run", run)
    code, text = inline(monkeypatch, outputs, *TINY, "dataset.source=sample", "gate=none,mine", "name=ours", *arguments)
    added = f"hydra.searchpath=['file://{theirs}']".replace("their's", "their\\'s")
    assert code == 1, text
    assert [shlex.split(command)[2] for command in commands] == [added, added]
    table = reading.find("ours", outputs)
    assert added in table.overrides(table.rows[1], "smoke", 1)
    assert experiment(table.overrides(table.rows[1], "smoke", 1)).gate.kernel == 5
    shutil.rmtree(theirs)
    compose._of_options.cache_clear()
    with reading.left_out("ours"):
        experiment(table.overrides(table.rows[1], "smoke", 1))
        raise AssertionError
    with pytest.raises(Refused), reading.left_out("highway_t1"):
        raise Refused("a table")
