"""Rows beside their baselines, on the units of the test set if they share one seed."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from highway.ledger.files import read_json
from highway.ledger.record import write_record
from highway.report.baselines import differences, units_of
from highway.report.collect import collect
from highway.report.report import build_report
from highway.report.statistics import bleu, bootstrap, parse
from highway.sweep.reading import load_table
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
    found = differences(collected)
    worse, same = (found[row] for row in ("r_e4h6", "g1_e4h6"))
    ours, theirs = (parse(collected.finished(row)[0].result["notes"]["bleu_counts"]) for row in ("r_e4h6", "t_e4h6"))
    assert worse.size == pytest.approx(bleu(ours.sum(0)) - bleu(theirs.sum(0))) and worse.size < -10
    both = np.concatenate([ours, theirs], axis=1)
    assert (worse.low, worse.high) == bootstrap(both, lambda counts: bleu(counts[:, :10]) - bleu(counts[:, 10:]))
    assert str(same) == "+0.00 (+0.00 … +0.00)*" and "g1_e4h8" not in found
    assert "*: one seed in common, interval over the test set." in build_report(collected).results.note


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
    (pair,) = differences(collect(TABLE, "paper", tmp_path)).values()
    assert (pair.row.id, pair.seeds, pair.on_test_set) == ("tanh", 1, True)
    assert pair.size == pytest.approx((nats[0].mean() - nats[2].mean()) / math.log(2)), "bits, as the metric is bpc"
    assert pair.low < pair.size < pair.high and str(pair).endswith(")*")
    put(tmp_path, "tanh", 3, 1.4, status="diverged")
    (with_failed,) = differences(collect(TABLE, "paper", tmp_path)).values()
    assert str(with_failed) == str(pair), "a run that failed hides no other one"
    put_units(tmp_path, "tanh", 1, nats[3])
    put(tmp_path, "tanh", 3, 1.4)
    put_units(tmp_path, "sigmoid", 3, nats[3])
    found = differences(collect(TABLE, "paper", tmp_path))
    assert found["tanh"].seeds == 2 and not found["tanh"].on_test_set
    assert str(found["sigmoid"]) == "", "no seed in common"


@pytest.mark.usefixtures("no_published_records")
def test_a_perplexity_on_the_test_set_differs_by_a_share(tmp_path: Path) -> None:
    words, nats = load_table("highway_t3"), RNG.normal(4, 1, (2, 50))
    ppl = {"test_ppl": {"best": 60.0, "last": 60.0}}
    for row, of_row in (("baseline", nats[0]), ("tanh", nats[1])):
        put_units(tmp_path, row, 1, of_row, table=words, metrics=ppl)
    (pair,) = differences(collect(words, "paper", tmp_path)).values()
    assert pair.size == pytest.approx(math.expm1(nats[1].mean() - nats[0].mean()))
    assert str(pair).startswith(f"{100 * pair.size:+.1f} % (")


@pytest.mark.usefixtures("no_published_records")
def test_rows_that_are_the_same_runs_are_not_compared(tmp_path: Path) -> None:
    """A gate that the released code applies to no layer makes such rows."""
    put_units(tmp_path, "baseline", 1, RNG.normal(2, 1, 50), table=XL)
    put_units(tmp_path, "tanh", 1, RNG.normal(2, 1, 50), table=XL)
    collected = collect(XL, "paper", tmp_path)
    assert sum(len(runs) for runs in collected.samples.values()) > 2, "a row of the table has the baseline's runs"
    assert [row for row, found in differences(collected).items() if found.has_size] == ["tanh"]
