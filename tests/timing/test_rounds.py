"""Tables whose rows are timed: the rounds, times.csv, its report, and what is refused."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from highway.cli import main
from highway.errors import Refused
from highway.report.collect import Collected, collect
from highway.report.content import build_report
from highway.report.publish import publish
from highway.report.times import COLUMNS
from highway.report.write import write_report
from highway.run import resources
from highway.tables.reading import load_table
from highway.timing import rounds
from tests.support.stand_ins import BATCH, contender

TABLE = load_table("highway_t7")
SMALL = ("--budget", "smoke", "--rounds", "3", "trainer.threads=1", "trainer.accelerator=cpu")
Typed = Callable[..., int]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Time one step a block on a quiet machine, and publish nothing."""
    monkeypatch.setattr(rounds, "BLOCK_SECONDS", 1e-9)
    monkeypatch.setattr(rounds, "peak_memory", lambda entry, threads: 2**20)
    monkeypatch.setattr(resources, "load_average", lambda: 1.0)
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Return a function that runs `highway table` in this process; it returns the exit code."""

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["highway table", *arguments])
        try:
            main("table")
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    return run


def times(folder: Path, outputs: str = "outputs") -> pd.DataFrame:
    return pd.read_csv(folder / outputs / "highway_t7" / "smoke" / "times.csv")


def smoke(folder: Path) -> Collected:
    return collect(TABLE, "smoke", folder / "outputs")


def test_every_row_is_in_every_round_and_another_one_first() -> None:
    log: list[str] = []
    seconds, loads = rounds.measure({name: contender(name, log) for name in "abc"}, BATCH, 4, "cpu")
    assert [len(values) for values in seconds.values()] == [4, 4, 4] and loads == [1.0] * 4
    assert "".join(log[:9]) == "aaabbbccc", "the warm-up"
    assert "".join(log[9:]) == "a" + "abc" + "bca" + "cab" + "abc", "a step that says how long a block is"


def test_measurements_and_their_report(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command adds a measurement; a report shows those of the newest setting, and marks other work."""
    monkeypatch.setattr(rounds, "device_name", lambda kind: "card A")
    assert typed("time", "highway_t7", *SMALL) == 0
    printed = capsys.readouterr()
    assert "round 3 of 3, 0:00 left" in printed.err
    assert "highway_t7/smoke/times.csv" in printed.out and "highway report highway_t7 --budget smoke" in printed.out
    frame = times(tmp_path)
    assert tuple(frame.columns) == COLUMNS
    assert list(zip(frame["row"], frame["round"], strict=True)) == [
        (row.id, number) for row in TABLE.rows for number in (1, 2, 3)
    ]
    about = frame.iloc[0]
    assert (about["threads"], about["precision"], about["load_average"]) == (1, 32, 1.0)
    assert about[["measured", "device", "torch", "python"]].astype(bool).all()
    by_row = {row: lines.reset_index() for row, lines in frame.groupby("row")}
    ratio = by_row["tanh"]["step_seconds"] / by_row["baseline"]["step_seconds"]
    assert by_row["tanh"]["relative_time"].tolist() == pytest.approx(ratio.tolist())

    collected = smoke(tmp_path)
    (sample,) = collected.samples["tanh"]
    median = by_row["tanh"]["step_seconds"].median()
    assert sample.value("step_seconds", "last") == pytest.approx(median)
    assert sample.value("train_time_h", "last") == pytest.approx(median * 200 / 3600)
    assert sample.value("relative_time", "last") == pytest.approx(ratio.median())
    report, paths = write_report(collected, tmp_path / "report")
    assert "medians over 3 interleaved rounds on card A, 1 thread, precision 32." in report.origin
    assert all(path.stat().st_size > 0 for path in paths)

    before = (tmp_path / "outputs/highway_t7/smoke/times.csv").read_text()
    monkeypatch.setattr(rounds, "device_name", lambda kind: "card B")
    assert typed("time", "highway_t7", "tanh", *SMALL) == 0
    monkeypatch.setattr(resources, "load_average", lambda: 3.0)
    assert typed("time", "highway_t7", "tanh", *SMALL) == 0
    assert (tmp_path / "outputs/highway_t7/smoke/times.csv").read_text().startswith(before)
    frame = times(tmp_path)
    assert frame["measured"].nunique() == 3
    again = {"baseline": 9, "tanh": 9}  # the baseline is timed beside the row that was named
    assert frame["row"].value_counts().to_dict() == {**{row.id: 3 for row in TABLE.rows}, **again}
    collected = smoke(tmp_path)
    assert {sample.result["cost"]["device"] for sample in collected.every} == {"card B"}
    (tanh,) = (line for line in build_report(collected).results.lines if line.texts[0] == "+ tanh SDU")
    assert "1 of 2 (1 beside other work)" in tanh.texts
    assert build_report(collected).origin.partition(", medians ")[2] == (
        "over 3 interleaved rounds on card B, 1 thread, precision 32; each measurement counts as a seed; "
        "1 measurement with other devices or settings is only in times.csv; "
        "other work ran beside measurement 2, so these times do not count."
    )
    publications = [publish(TABLE, "smoke", tmp_path / "outputs", tmp_path / "published") for _ in range(2)]
    assert [(len(each.copied), len(each.published_before)) for each in publications] == [(3, 0), (0, 3)]
    assert times(tmp_path, "published").equals(frame)
    capsys.readouterr()
    assert typed("status", "highway_t7") == 0
    paper, _, *lines = capsys.readouterr().out.splitlines()
    assert paper == "highway_t7 paper: not measured yet. Type highway table time highway_t7 --budget paper"
    assert [line.partition(" rows, ")[2] for line in lines] == [
        "3 rounds, on card A, 1 thread, precision 32",
        "3 rounds, on card B, 1 thread, precision 32",
        "3 rounds, on card B, 1 thread, precision 32, beside other work",
    ]


def test_the_published_times_are_shown_where_nothing_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    collected = collect(TABLE, "mini", tmp_path)
    assert [len(samples) for samples in collected.samples.values()] == [1] * 5
    assert collected.values("tanh", "step_seconds") == [0.13638348549966395]
    assert collected.values("tanh", "relative_time") == [1.1626374406998687]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["highway_t1"], "highway_t1 is trained, not timed: its file has no `rounds`. Type highway train -m table=hi"),
        (["highway_t7", "nothing"], "highway_t7 has no row 'nothing'"),
        (["highway_t7", "model.width=3"], "model.width=3 cannot be set for a timing. It takes only trainer.acc"),
        (["highway_t7", "trainer.precision=64"], "trainer.precision=64 cannot be timed"),
        (["highway_t7", "trainer.threads=0"], "trainer.threads=0 is out of range"),
        (["highway_t7", "trainer.accelerator=gpu"], "trainer.accelerator=gpu is set, but torch sees no GPU here."),
        (["trainer.threads=1"], "trainer.threads=1 is an override. Name a table first."),
        (["highway_t7", "--with", "trainer.threads=1"], "--with is no option of highway table time."),
        (["highway_t7", "--rounds", "1"], "'--rounds': '1' is not a whole number from 2 to 10000"),
    ],
)
def test_what_is_refused(
    typed: Typed,
    words: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert typed("time", *words) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("override", "difference"),
    [
        ("trainer.precision=bf16", r"trainer\.precision \(32 and bf16\)"),
        ("trainer.compile=default", r"trainer\.compile \(auto and default\)"),
        ("trainer.threads=999", r"trainer\.threads \(\d+ and 999\)"),
        ("dataset.train.lanes=8", "dataset, so"),
    ],
)
def test_rows_share_data_and_arithmetic(override: str, difference: str) -> None:
    first, second, *others = TABLE.rows
    second = second.model_copy(update={"overrides": [*second.overrides, override]})
    changed = TABLE.model_copy(update={"rows": [first, second, *others]})
    with pytest.raises(Refused, match=f"'baseline' and 'tanh' of a timing differ in {difference}"):
        rounds.compose_rows(changed, [], "paper", [])


def test_a_file_that_cannot_be_read_is_refused_before_the_measurement(
    typed: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "outputs/highway_t7/smoke/times.csv"
    path.parent.mkdir(parents=True)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, ["2026-11-21", "tanh", "one"]])
    assert typed("time", "highway_t7", *SMALL) == 2
    printed = capsys.readouterr().err
    assert f"{path} cannot be read as times.csv" in printed and "round 1" not in printed
