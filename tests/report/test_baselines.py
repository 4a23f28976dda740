"""Rows beside their baselines, on the units of the test set if they share one seed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from highway.files.writing import read_json
from highway.ledger.record import write_record
from highway.report.baselines import differences, on_test_set, units_of
from highway.report.collect import collect
from highway.report.formats import to_markdown
from highway.report.report import build_report
from highway.report.statistics import bleu, bootstrap, parse
from tests.support.tables import TABLE, TRANSLATION, XL, put, put_translation

RNG = np.random.default_rng(3)


def record(nats: list[float], test: str = "t", train: str = "t", counts: list[str] | None = None) -> Any:
    """Return what `units_of` reads of a record, whose units have one scored position each."""
    arrays = {"nats": np.array(nats), "scored": np.ones(len(nats), int)} if nats else {}
    result = {"data": {"sha256": {"test": test, "train": train}}, "notes": {"bleu_counts": counts} if counts else {}}
    return SimpleNamespace(result=result, probe=lambda name: arrays if name == "test_units_last" else {})


@pytest.mark.parametrize(
    ("other", "metric"),
    [
        (record([3, 4], train="other"), "test_loss"),
        (record([3, 4], test="other"), None),
        (record([3, 4, 5]), None),
        (record([]), None),
        (record([3, 4], counts=["1 2 3"]), "test_loss"),
    ],
)
def test_units_are_compared_only_on_the_same_test_set(other: Any, metric: str | None) -> None:
    found = units_of(record([1, 2]), other, "last")
    assert (found and found[0]) == metric
    if found:
        assert [part.tolist() for part in found[1:]] == [[[1, 1], [2, 1]], [[3, 1], [4, 1]]]


def test_rows_are_compared_on_their_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")
    for row, wrong in (("t_e4h6", 2), ("r_e4h6", 30), ("g1_e4h6", 2)):
        put_translation(tmp_path, row, wrong=wrong)
    put_translation(tmp_path, "g1_e4h8", wrong=9)  # its baseline has not been run
    collected = collect(TRANSLATION, "paper", tmp_path)
    report = build_report(collected)
    worse, same = report.on_test_set
    assert (worse.row.id, worse.base.id, same.row.id) == ("r_e4h6", "t_e4h6", "g1_e4h6")
    ours, theirs = (
        parse(collected.finished(row.id)[0].result["notes"]["bleu_counts"]) for row in (worse.row, worse.base)
    )
    assert worse.difference == pytest.approx(bleu(ours.sum(0)) - bleu(theirs.sum(0))) and worse.difference < -10
    both = np.concatenate([ours, theirs], axis=1)
    assert (worse.low, worse.high) == bootstrap(both, lambda counts: bleu(counts[:, :10]) - bleu(counts[:, 10:]))
    markdown = to_markdown(report)
    assert "| G1, 4 layers, 6 heads | T, 4 layers, 6 heads | BLEU | 1 |" in markdown
    assert "| +0.00 | +0.00 … +0.00 |" in markdown and "Compared by bleu" not in markdown, "no spread over seeds"


def put_units(outputs: Path, row: str, seed: int, nats: Any, bpc: float = 1.4, **changes: Any) -> None:
    """Write a record whose test units have one scored position each."""
    folder = put(outputs, row, seed, bpc, **changes)
    (folder / "probes").mkdir(exist_ok=True)
    np.savez(folder / "probes" / "test_units_best.npz", nats=nats, scored=np.ones(len(nats), int))
    write_record(folder, read_json(folder / "result.json"))


@pytest.mark.usefixtures("no_published_records")
def test_the_test_set_is_shown_where_rows_share_one_seed(tmp_path: Path) -> None:
    """With two shared seeds there is a spread over seeds; with none, nothing is compared."""
    nats = RNG.normal(2, 1, (4, 50))
    for seed in (1, 2):
        put_units(tmp_path, "baseline", seed, nats[seed], bpc=1.5 + seed / 100)
    put_units(tmp_path, "tanh", 2, nats[0])
    collected = collect(TABLE, "paper", tmp_path)
    (pair,) = on_test_set(collected)
    assert (pair.row.id, pair.seed, pair.metric) == ("tanh", 2, "test_loss") and differences(collected) == []
    assert pair.value == pytest.approx(nats[0].mean())
    assert pair.difference == pytest.approx(nats[0].mean() - nats[2].mean())
    assert pair.low < pair.difference < pair.high
    put(tmp_path, "tanh", 3, 1.4, status="diverged")
    assert on_test_set(collect(TABLE, "paper", tmp_path)) == [pair], "a run that failed hides no other one"
    put_units(tmp_path, "tanh", 1, nats[3])
    put(tmp_path, "tanh", 3, 1.4)
    put_units(tmp_path, "sigmoid", 3, nats[3])
    collected = collect(TABLE, "paper", tmp_path)
    assert on_test_set(collected) == [] and [each.row.id for each in differences(collected)] == ["tanh"]


@pytest.mark.usefixtures("no_published_records")
def test_rows_that_are_the_same_runs_are_not_compared(tmp_path: Path) -> None:
    """A gate that the released code applies to no layer makes such rows."""
    put_units(tmp_path, "baseline", 1, RNG.normal(2, 1, 50), table=XL)
    put_units(tmp_path, "tanh", 1, RNG.normal(2, 1, 50), table=XL)
    collected = collect(XL, "paper", tmp_path)
    assert sum(len(runs) for runs in collected.samples.values()) > 2, "a row of the table has the baseline's runs"
    assert [pair.row.id for pair in on_test_set(collected)] == ["tanh"]
