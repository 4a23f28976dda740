"""Reports from records that the tests write: statistics, verdicts, renderings, figures."""

import csv
import dataclasses
import io
import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from highway.compose import experiment
from highway.files import write_json, write_text
from highway.report import collect as collecting
from highway.report.collect import collect
from highway.report.render import build_report, to_csv, to_latex, to_markdown
from highway.report.statistics import interval, summarise
from highway.report.write import write_report
from highway.sweep.cell import Cell
from highway.sweep.table import load_table

TABLE = load_table("highway_t1")
METRICS = ("valid_loss", "valid_bpc", "test_loss", "test_bpc")


@pytest.fixture(autouse=True)
def _no_published_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(collecting, "REFERENCE", tmp_path / "none")


def put(outputs: Path, row_id: str, seed: int, value: float, budget: str = "paper", **changes: Any) -> Path:
    """A record as a run leaves it; `value` is the test bpc, and the curve falls to it over 100 steps."""
    words = [*TABLE.overrides(TABLE.row(row_id), budget, seed), f"outputs_dir={outputs}"]
    folder = Cell.of(experiment(words)).directory
    curve = changes.pop("curve", [(step, value + (100 - step) / 100) for step in (25, 50, 75, 100)])
    rows = [
        f"{s},{s / 100},1.0,{s},{split},{metric},{v}"
        for split in ("train", "valid")
        for s, v in curve
        for metric in ("loss", "bpc")
    ]
    write_text(folder / "curves.csv", "\n".join(["step,epoch,seconds,tokens,split,metric,value", *rows]) + "\n")
    record = {
        "cell": folder.parent.name,
        "seed": seed,
        "budget": budget,
        "status": "finished",
        "metrics": {metric: {"best": value, "last": value + 1} for metric in METRICS},
        "data": {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "v"},
        "cost": {"device": "a device"},
        "environment": {"versions": {"torch": "2"}, "precision": "32", "git_commit": "abc"},
    }
    write_json(folder / "result.json", {**record, **changes})
    return folder


def verdict(outputs: Path, text: str, budget: str = "paper") -> str:
    return {v.claim.text: v.word for v in build_report(collect(TABLE, budget, outputs)).verdicts}[text]


BEATS = "tanh SDU beats no gate on test bpc"
SOONER = "tanh SDU reaches the baseline's final validation loss in fewer steps"


@pytest.mark.parametrize(
    ("tanh", "baseline", "word"),
    [
        ([], [1.5], "not run"),
        ([1.4], [1.5], "one seed agrees"),
        ([1.6], [1.5], "one seed disagrees"),
        ([1.4, 1.6], [1.5, 1.5], "1 of 2 seeds agree"),
        ([1.40, 1.41, 1.42], [1.50, 1.51, 1.53], "supported"),
        ([1.60, 1.61, 1.62], [1.50, 1.51, 1.53], "refuted"),
        ([1.40, 1.60, 1.49], [1.50, 1.50, 1.50], "undecided"),
    ],
)
def test_verdicts_at_paper_budget(tmp_path: Path, tanh: list[float], baseline: list[float], word: str) -> None:
    for seed, value in enumerate(tanh, 1):
        put(tmp_path, "tanh", seed, value)
    for seed, value in enumerate(baseline, 1):
        put(tmp_path, "baseline", seed, value)
    assert verdict(tmp_path, BEATS) == word


def test_seeds_are_paired(tmp_path: Path) -> None:
    """Seeds differ by far more than the rows do; pairs agree all the same. Seeds that only one row has do not count."""
    for seed, level in enumerate([1.0, 2.0, 3.0], 1):
        put(tmp_path, "baseline", seed, level)
        put(tmp_path, "tanh", seed, level - 0.1 - seed / 1000)
    put(tmp_path, "tanh", 4, 9.0)
    assert verdict(tmp_path, BEATS) == "supported"


@pytest.mark.parametrize("budget", ["mini", "smoke"])
def test_smaller_budgets_claim_ordering_only(tmp_path: Path, budget: str) -> None:
    for seed in (1, 2, 3):
        put(tmp_path, "tanh", seed, 1.4, budget)
        put(tmp_path, "baseline", seed, 1.5, budget)
    assert verdict(tmp_path, BEATS, budget) == f"same ordering ({budget})"
    assert verdict(tmp_path, "tanh SDU beats sigmoid SDU on test bpc", budget) == "not run"


def test_sample_data_is_named_in_the_verdict(tmp_path: Path) -> None:
    sample = {"source": "sample", "sha256": {}, "vocabulary_sha256": "v"}
    put(tmp_path, "tanh", 1, 1.6, "smoke", data=sample)
    put(tmp_path, "baseline", 1, 1.5, "smoke", data=sample)
    assert verdict(tmp_path, BEATS, "smoke") == "other ordering (smoke, sample data)"


def test_rows_on_other_vocabularies_are_not_compared(tmp_path: Path) -> None:
    put(tmp_path, "tanh", 1, 1.4, data={"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "other"})
    put(tmp_path, "baseline", 1, 1.5)
    assert verdict(tmp_path, BEATS) == "not comparable"


@pytest.mark.parametrize(
    ("curve", "word"),
    [
        ([(25, 2.0), (50, 1.5), (100, 1.2)], "one seed agrees"),  # the baseline ends with 1.5 at step 100
        ([(25, 2.0), (50, 1.8), (100, 1.5)], "one seed disagrees"),  # at the same step: not sooner
        ([(25, 2.0), (50, 1.8), (100, 1.7)], "one seed disagrees"),  # never
    ],
)
def test_sooner(tmp_path: Path, curve: list[tuple[int, float]], word: str) -> None:
    put(tmp_path, "baseline", 1, 1.5)
    put(tmp_path, "tanh", 1, 1.4, curve=curve)
    assert verdict(tmp_path, SOONER) == word


def test_diverged_cells_are_shown_and_not_counted(tmp_path: Path) -> None:
    put(tmp_path, "tanh", 1, 1.4)
    put(tmp_path, "tanh", 2, math.nan, status="diverged")
    line = build_report(collect(TABLE, "paper", tmp_path)).lines[2]
    assert line.status == "seed 1, 1 diverged"
    assert line.entries[3].ours_text() == "1.400"


@pytest.mark.parametrize(
    ("group", "name"), [("MODELS", "transformer"), ("GATES", "sdu"), ("DATASETS", "penn_treebank")]
)
def test_older_revisions_are_found_and_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, name: str
) -> None:
    from highway import catalogue

    put(tmp_path, "tanh", 1, 1.4)
    entries = getattr(catalogue, group)
    monkeypatch.setitem(entries, name, dataclasses.replace(entries[name], revision=3))
    assert build_report(collect(TABLE, "paper", tmp_path)).lines[2].status == "seed 1, older revision"
    put(tmp_path, "tanh", 1, 1.3)
    line = build_report(collect(TABLE, "paper", tmp_path)).lines[2]
    assert (line.status, line.entries[3].ours_text()) == ("seed 1", "1.300")


def test_statistics() -> None:
    values = [1.0, 1.5, 2.5]
    summary = summarise(values)
    assert summary is not None
    assert (summary.mean, summary.deviation) == (pytest.approx(5 / 3), pytest.approx(statistics.stdev(values)))
    assert summarise([2.0]).deviation is None  # type: ignore[union-attr]
    low, high = interval(values)  # t with 2 degrees of freedom: 4.303
    assert high - low == pytest.approx(2 * 4.303 * statistics.stdev(values) / math.sqrt(3))


def test_renderings(tmp_path: Path) -> None:
    for seed, (ours, base) in enumerate([(1.40, 1.5), (1.42, 1.5)], 1):
        put(tmp_path, "tanh", seed, ours)
        put(tmp_path, "baseline", seed, base)
    put(tmp_path, "highway", 1, 1.3)
    report = build_report(collect(TABLE, "paper", tmp_path))
    assert [line.row.id for line in report.lines] == ["baseline", "sigmoid", "tanh", "highway"]  # arms that ran
    markdown = to_markdown(report, ["convergence"])
    assert "| + tanh SDU | seeds 1, 2 |" in markdown
    assert "| 1.410 ± 0.014 | 1.364 | +0.046 |" in markdown
    assert "Budget paper; full data" in markdown
    assert "## Arms" in markdown
    assert "![convergence](convergence.svg)" in markdown
    rows = {(row["row"], row["metric"]): row for row in csv.DictReader(io.StringIO(to_csv(report)))}
    assert float(rows["tanh", "test_bpc"]["mean"]) == pytest.approx(1.41)
    assert rows["sigmoid", "test_bpc"]["mean"] == ""
    assert float(rows["sigmoid", "test_bpc"]["paper"]) == 1.371
    latex = to_latex(report)
    assert "$1.410 \\pm 0.014$ & 1.364 \\\\" in latex
    assert latex.count("&") == 1 * 4 + 8 + 8 * 4


def test_written_files_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    for row, value in (("baseline", 1.5), ("tanh", 1.4)):
        put(tmp_path, row, 1, value)
        put(tmp_path, row, 2, value + 0.01)
    _, first = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "first")
    _, second = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "second")
    assert [path.name for path in first] == ["table.md", "table.csv", "table.tex", "convergence.svg", "convergence.png"]
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
    assert "T-L3" in (tmp_path / "first" / "convergence.svg").read_text()


def test_local_records_come_before_published_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = put(tmp_path / "published", "tanh", 1, 1.9)
    monkeypatch.setattr(collecting, "REFERENCE", tmp_path / "published")
    assert collect(TABLE, "paper", tmp_path / "mine").samples["tanh"][0].directory == published
    mine = put(tmp_path / "mine", "tanh", 1, 1.4)
    assert collect(TABLE, "paper", tmp_path / "mine").samples["tanh"][0].directory == mine
