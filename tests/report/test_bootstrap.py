"""Translations compared on their test sentences."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from scipy import stats

from highway.files.writing import read_json
from highway.ledger.record import write_record
from highway.report.bootstrap import (
    _units,
    bleu,
    compare,
    interval,
    mean_loss,
    parse,
    randomisation,
    resampled,
)
from highway.report.collect import collect
from highway.report.formats import to_markdown
from highway.report.report import build_report
from highway.tasks.scoring import scores
from tests.support.tables import TABLE, TRANSLATION, XL, put, put_translation

RNG = np.random.default_rng(3)
WORDS = ["a", "b", "c", "d"]
LONG = [" ".join(RNG.choice(WORDS, 12)) for _ in range(300)]

NONE, APART = ["e f g h"] * 300, ["a e b e c e d"] * 300  # no n-gram matches; words do, and no two in a row


def translated(changed: int, seed: int) -> list[str]:
    """Return the references with a word replaced in some of them."""
    rng = np.random.default_rng(seed)
    lines = [line.split() for line in LONG]
    for number in rng.choice(len(lines), changed, replace=False):
        lines[number][rng.integers(12)] = "e"
    return [" ".join(line) for line in lines]


@pytest.mark.parametrize("outputs", [translated(250, 1), [line[:9] for line in LONG], ["a b"] * 300, NONE, APART])
def test_bleu_of_counts_is_sacrebleus(outputs: list[str]) -> None:
    counts = parse(scores(outputs, LONG)[1]["bleu_counts"])
    expected = BLEU(tokenize="none", force=True).corpus_score(outputs, [LONG]).score
    assert bleu(counts.sum(0)) == pytest.approx(expected)


def test_bleu_of_several_draws_at_once() -> None:
    """Each by itself: with one match of four words, with one match at all, of the shortest sentence, with none."""
    outputs = [["a b c d e f"], ["a x y z"], ["a b c d"], ["x y z w"], ["a b"]]
    drawn = [parse(scores(output, ["a b c d g h"])[1]["bleu_counts"]).sum(0) for output in outputs]
    assert [counts[2:6].tolist() for counts in drawn[:2]] == [[4, 3, 2, 1], [1, 0, 0, 0]] and drawn[2][9] == 1
    lists = [counts.astype(int).tolist() for counts in drawn]
    expected = [BLEU.compute_bleu(of_all[2:6], of_all[6:], *of_all[:2], "exp").score for of_all in lists]
    assert bleu(np.stack(drawn)) == pytest.approx(np.array(expected)) and expected[3:] == [0, 0]


def test_losses_are_compared_as_scipy_compares_them() -> None:
    """Scipy exchanges the units in every way, and takes its own draws for the interval."""
    rng = np.random.default_rng(6)
    ours, theirs = (np.stack([rng.normal(mean, 0.1, 12), np.ones(12)], axis=1) for mean in (2.0, 2.06))
    losses = ours[:, 0], theirs[:, 0]

    def difference(one: Any, other: Any, axis: int = -1) -> Any:
        return one.mean(axis) - other.mean(axis)

    exact = stats.permutation_test(losses, difference, permutation_type="samples", vectorized=True).pvalue
    assert 0.02 < exact < 0.5
    found = randomisation(ours, theirs, mean_loss)
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 10_000))
    for count in (1, 5):
        level = 1 - 0.05 / count
        about: dict[str, Any] = {"paired": True, "confidence_level": level, "method": "percentile", "random_state": 7}
        drawn = stats.bootstrap(losses, difference, **about)
        ends = interval(resampled(ours, theirs, mean_loss), count)
        assert ends == pytest.approx(tuple(drawn.confidence_interval), abs=0.15 * drawn.standard_error)


def record(nats: list[float], test: str = "t", train: str = "t", counts: list[str] | None = None) -> Any:
    """Return what `_units` reads of a record, whose units have one scored position each."""
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
    found = _units(record([1, 2]), other, "last")
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
    worse, same = report.compared
    assert (worse.row.id, worse.base.id, same.row.id) == ("r_e4h6", "t_e4h6", "g1_e4h6")
    assert worse.difference < -10 and worse.p < 0.01 and worse.high < 0
    assert same.p == 1
    ours, theirs = (
        parse(collected.finished(row.id)[0].result["notes"]["bleu_counts"]) for row in (worse.row, worse.base)
    )
    assert worse.p == pytest.approx(2 * randomisation(ours, theirs)), "two pairs are compared"
    assert (worse.low, worse.high) == interval(resampled(ours, theirs), count=2)
    markdown = to_markdown(report)
    assert "| G1, 4 layers, 6 heads | T, 4 layers, 6 heads | 1 |" in markdown
    assert "| +0.00 | +0.00 … +0.00 |" in markdown


def put_units(outputs: Path, row: str, seed: int, nats: Any, budget: str = "paper", bpc: float = 1.4) -> None:
    """Write a record of highway_t1 whose test units have one scored position each; None: without units."""
    folder = put(outputs, row, seed, bpc, budget)
    if nats is not None:
        (folder / "probes").mkdir(exist_ok=True)
        np.savez(folder / "probes" / "test_units_best.npz", nats=nats, scored=np.ones(len(nats), int))
        write_record(folder, read_json(folder / "result.json"))


@pytest.mark.usefixtures("no_published_records")
def test_runs_of_a_shared_seed_are_compared_and_else_the_first_two(tmp_path: Path) -> None:
    """Two trained models need no seed in common; the report names both seeds."""
    nats = RNG.normal(2, 1, (4, 50))
    for seed, units in ((1, None), (2, nats[0]), (3, nats[1]), (4, None)):
        put_units(tmp_path, "baseline", seed, units)
    for seed, units in ((1, nats[2]), (2, None), (3, nats[3])):
        put_units(tmp_path, "tanh", seed, units)
    put_units(tmp_path, "sigmoid", 1, nats[2])
    put_units(tmp_path, "sigmoid", 4, nats[3])
    report = build_report(collect(TABLE, "paper", tmp_path))
    assert [(pair.row.id, pair.seed, pair.base_seed) for pair in report.compared] == [("sigmoid", 1, 2), ("tanh", 3, 3)]
    assert report.compared[0].value == pytest.approx(nats[2].mean())
    assert report.compared[1].difference == pytest.approx(nats[3].mean() - nats[1].mean())
    assert report.compared[0].difference == pytest.approx(nats[2].mean() - nats[0].mean())
    assert " | 1, baseline's 2 | " in to_markdown(report)


@pytest.mark.usefixtures("no_published_records")
def test_rows_that_are_the_same_runs_are_not_compared(tmp_path: Path) -> None:
    """A gate that the released code applies to no layer makes such rows; to compare them would widen every interval."""
    for name, nats in (("baseline", RNG.normal(2, 1, 50)), ("tanh", RNG.normal(2, 1, 50))):
        folder = put(tmp_path, name, 1, 1.0, table=XL)
        (folder / "probes").mkdir()
        np.savez(folder / "probes" / "test_units_best.npz", nats=nats, scored=np.ones(50, int))
        write_record(folder, read_json(folder / "result.json"))
    collected = collect(XL, "paper", tmp_path)
    assert sum(len(runs) for runs in collected.samples.values()) > 2, "a row of the table has the baseline's runs"
    assert [pair.row.id for pair in compare(collected)] == ["tanh"]
