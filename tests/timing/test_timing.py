"""Tables of `kind: timing`: the rounds, what disturbs them, the single run of all rows, and its report."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest

from highway import timing
from highway.commands import cli
from highway.config.compose import experiment
from highway.errors import Refused
from highway.files.writing import read_json
from highway.report.collect import collect
from highway.report.formats import to_markdown
from highway.report.report import build_report
from highway.report.write import write_report
from highway.run import machine
from highway.sweep import timed
from highway.sweep.reading import load_table
from tests.support.stand_ins import BATCH, NoLease, contender

WORDS = ("table=highway_t7", "budget=smoke", "trainer.threads=1", "trainer.accelerator=cpu")


def others(monkeypatch: pytest.MonkeyPatch, *processors: float) -> None:
    """Pretend that other processes use these processors, round by round, over and over again."""
    loads = cycle(processors)
    monkeypatch.setattr(machine.Neighbours, "processors", lambda self: next(loads))


def test_every_row_is_in_every_round_and_another_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    others(monkeypatch, 0.0)
    monkeypatch.setattr(timing, "BLOCK_SECONDS", 1e-9)
    log: list[str] = []
    contenders = {name: contender(name, log) for name in "abc"}
    seconds = timing.measure(contenders, BATCH, 4, "cpu", NoLease())  # type: ignore[arg-type]
    assert [len(values) for values in seconds.values()] == [4, 4, 4]
    assert "".join(log[:9]) == "aaabbbccc", "the warm-up"
    assert "".join(log[9:]) == "a" + "abc" + "bca" + "cab" + "abc", "a step that says how long a block is"


def test_disturbed_rounds_are_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    others(monkeypatch, 0.1, 1.0)
    contenders = {name: contender(name, []) for name in "ab"}
    monkeypatch.setattr(timing, "seconds_of", lambda work, device: 1.0)
    seconds = timing.measure(contenders, BATCH, 20, "cpu", NoLease())  # type: ignore[arg-type]
    assert [len(values) for values in seconds.values()] == [20, 20]


def test_a_busy_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    others(monkeypatch, 1.5)
    monkeypatch.setattr(timing, "seconds_of", lambda work, device: 1.0)
    with pytest.raises(Refused, match=r"kept 1\.5 processors busy in 6 rounds of 6; a timing needs an idle machine"):
        timing.measure({"a": contender("a", [])}, BATCH, 20, "cpu", NoLease())  # type: ignore[arg-type]


def test_neighbours_are_other_peoples_processes() -> None:
    """Neither this process nor its child counts; the child of its child counts as a stranger's would."""
    spin = f"{sys.executable} -c 'while True: pass' & echo $!; wait"
    with subprocess.Popen(["sh", "-c", spin], stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            assert child.stdout
            grandchild = child.stdout.readline().strip()
            first = _seconds(grandchild)
            deadline = time.monotonic() + 30
            while _seconds(grandchild) < first + 0.05 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert _seconds(grandchild) >= first + 0.05
            seen = {number for number, _ in machine._seconds_of_others()}
            assert grandchild in seen and not {str(os.getpid()), str(child.pid)} & seen
        finally:
            os.killpg(child.pid, 9)


def test_processes_that_srun_has_started_with_this_one_are_no_neighbours() -> None:
    look = (
        "import os; from highway.run import machine\n"
        "for step in {}, {'SLURM_STEP_ID': '0', 'SLURM_STEP_NUM_TASKS': '2'}:\n"
        "    os.environ.update(step); print(*{number for number, _ in machine._seconds_of_others()})"
    )
    pair = subprocess.run(
        ["sh", "-c", 'sleep 600 & echo $!; "$0" -c "$1"; kill $!', sys.executable, look],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("SLURM_")},
    )
    sleeper, alone, with_srun = pair.stdout.splitlines()
    assert sleeper in alone.split() and sleeper not in with_srun.split()
    assert "1" in with_srun.split()


def test_neighbours_that_came_and_went_count() -> None:
    """Neighbours count that are gone when the measurement ends, such as those of a test runner."""
    spin = f'{sys.executable} -c "sum(range(30_000_000))"'
    with subprocess.Popen(
        ["sh", "-c", f"sh -c 'echo $$; read go; {spin}; echo done; sleep 60' <&0 & wait"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            assert child.stdin and child.stdout
            grandchild = child.stdout.readline().strip()
            before = _seconds(grandchild)
            print("go", file=child.stdin, flush=True)
            assert child.stdout.readline() == "done\n"
            assert _seconds(grandchild) >= before + 0.1, "a tenth of a second of what has ended"
        finally:
            os.killpg(child.pid, 9)


def _seconds(process: str) -> float:
    others = machine._seconds_of_others() or {}
    return sum(seconds for (number, _), seconds in others.items() if number == process)


Typed = Callable[..., int]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Typed:
    """Return a function that runs `highway train` in this process, on a quiet machine; it returns the exit code."""
    others(monkeypatch, 0.0)
    monkeypatch.setattr(timing, "BLOCK_SECONDS", 1e-9)
    monkeypatch.setattr(timing, "peak_memory", lambda entry, threads: 2**20)
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")
    monkeypatch.setattr("highway.sweep.timed.load_table", lambda name: replace(load_table(name), rounds=3))

    def run(*overrides: str) -> int:
        monkeypatch.setattr(sys, "argv", ["train.py", *overrides])
        try:
            cli.train()
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    return run


def test_a_timing_is_one_cell_with_its_report(typed: Typed, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outputs = tmp_path / "outputs"
    assert typed(*WORDS) == 0
    (path,) = outputs.glob("cells/timing-*/seed1/result.json")
    result = read_json(path)
    assert result["command"] == f"highway train {' '.join(WORDS)}"
    assert len(result["rows"]) == 5 and result["cost"]["exclusive"]
    assert result["environment"]["threads"] == 1
    collected = collect(load_table("highway_t7"), "smoke", outputs)
    values = {row: samples[0].result["metrics"] for row, samples in collected.samples.items()}
    assert values["baseline"]["relative_time"]["last"] == 1
    for row, metrics in values.items():
        assert metrics["train_time_h"]["last"] == pytest.approx(metrics["step_seconds"]["last"] * 200 / 3600), row
        assert len(collected.samples[row][0].relative_times) == 3
    report, paths = write_report(collected, tmp_path / "report")
    assert "medians over interleaved rounds" in report.origin
    assert not report.verdicts, "smoke runs give none"
    assert all(path.stat().st_size > 0 for path in paths)

    assert typed(*WORDS) == 0
    assert "finished already: nothing to measure" in caplog.text


def test_a_sweep_runs_it_alone_and_links_every_row(typed: Typed, tmp_path: Path) -> None:
    assert typed("-m", *WORDS, "seeds=1,2", "hydra/launcher=inline") == 0
    outputs = tmp_path / "outputs"
    assert len(list(outputs.glob("cells/timing-*/seed*/result.json"))) == 2
    assert typed("-m", *WORDS[:2], "seeds=1", "hydra/launcher=inline") == 0
    links = {path.resolve() for path in outputs.glob("highway_t7/smoke/*/seed1")}
    assert len(list(outputs.glob("highway_t7/smoke/*/seed1"))) == 5 and len(links) == 1


def test_devices_are_kept_apart(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("card A", "card B"):
        for module in ("highway.ledger.together", "highway.timing"):
            monkeypatch.setattr(f"{module}.device_name", lambda kind, name=name: name)
        assert typed(*WORDS) == 0
    collected = collect(load_table("highway_t7"), "smoke", tmp_path / "outputs")
    text = to_markdown(build_report(collected))
    assert len(collected.table.rows) == 10
    assert "| + tanh SDU (card A, 1 thread) | seed 1" in text
    assert "no gate adds 4 % to the training time (card B, 1 thread)" in {
        claim.text for claim in collected.table.claims
    }
    assert all(len(samples) == 1 for samples in collected.samples.values())


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["table=highway_t7", "budget=tiny"], "highway_t7 has no budget 'tiny'; it has paper, mini, smoke."),
        (["table=highway_t7", "seed=one"], "seed=one is not a whole number"),
        (["table=highway_t7", "trainer.precision=64"], "trainer.precision=64 cannot be timed"),
        (["table=highway_t7", "gate.kernel=0"], "gate.kernel=0 is out of range"),
        (["-m", "table=highway_t7", "rows=tanh"], "highway_t7 times all its rows together"),
    ],
)
def test_what_a_timing_refuses(
    typed: Typed, overrides: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert typed(*overrides) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("trainer.precision=bf16", r"trainer\.precision \(32 and bf16\)"),
        ("trainer.compile=default", r"trainer\.compile \(None and default\)"),
        ("trainer.threads=999", r"trainer\.threads \(\d+ and 999\)"),
        ("dataset.train.lanes=8", "dataset, so"),
    ],
)
def test_rows_that_are_timed_together_share_data_and_arithmetic(
    override: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = load_table("highway_t7")
    first, second, *others = table.rows
    changed = replace(table, rows=(first, replace(second, overrides=(*second.overrides, override)), *others))
    monkeypatch.setattr("highway.sweep.timed.load_table", lambda name: changed)
    with pytest.raises(Refused, match=f"'baseline' and 'tanh' of a timing differ in {told}"):
        timed.timing(["table=highway_t7"], experiment)


@pytest.mark.slow
def test_a_timing_in_a_process_of_its_own(tmp_path: Path) -> None:
    """A timing starts as in `make highway_t7`. If others use the machine, it says so and leaves no record."""
    train = Path(__file__).parents[2] / "scripts" / "train.py"
    command = [sys.executable, str(train), "-m", "table=highway_t7", "budget=smoke"]
    environment = {**os.environ, "HIGHWAY_OUTPUTS": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    records = list(tmp_path.glob("cells/timing-*/seed1/result.json"))
    if done.returncode == 0:
        rows = read_json(records[0])["rows"].values()
        assert all(math.isfinite(row["metrics"]["relative_time"]["last"]) for row in rows)
    else:
        assert "a timing needs an idle machine" in done.stderr and not records
