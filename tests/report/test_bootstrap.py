"""Translations compared on their test sentences."""

from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from highway.report.bootstrap import bleu, interval, parse, randomisation, resampled
from highway.report.collect import collect
from highway.report.formats import to_markdown
from highway.report.report import build_report
from highway.sweep.reading import load_table
from highway.tasks.scoring import scores
from tests.support.tables import TRANSLATION, put_translation

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


@pytest.mark.parametrize(
    "outputs", [translated(250, 1), [line[:9] for line in LONG], ["e f g"] * 300, ["a b"] * 300, NONE, APART]
)
def test_bleu_of_counts_is_sacrebleus(outputs: list[str]) -> None:
    counts = parse(scores(outputs, LONG)[1]["bleu_counts"])
    expected = BLEU(tokenize="none", force=True).corpus_score(outputs, [LONG]).score
    assert bleu(counts.sum(0)) == pytest.approx(expected)


@pytest.mark.parametrize("others", [180, 200, 230])
def test_randomisation_agrees_with_a_centred_bootstrap(others: int) -> None:
    """sacreBLEU centres absolute differences, which gives a p-value of about 0.4 where there is no difference."""
    ours, theirs = (parse(scores(translated(*each), LONG)[1]["bleu_counts"]) for each in ((200, 1), (others, 2)))
    differences = resampled(ours, theirs)
    observed = bleu(ours.sum(0)) - bleu(theirs.sum(0))
    centred = np.mean(np.abs(differences - differences.mean()) >= abs(observed))
    assert randomisation(ours, theirs) == pytest.approx(centred, abs=0.02)
    low, high = interval(differences)
    assert low < observed < high and (low <= 0 <= high) == (centred > 0.05)


def test_equal_translations_have_a_p_value_of_one_and_none_is_zero() -> None:
    counts = parse(scores(translated(100, 1), LONG)[1]["bleu_counts"])
    assert randomisation(counts, counts) == 1
    bad = parse(scores([line[:7] for line in LONG], LONG)[1]["bleu_counts"])
    assert randomisation(counts, bad, draws=1000) == pytest.approx(1 / 1001)


def test_rows_are_compared_on_their_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")
    for row, wrong in (("t_e4h6", 2), ("r_e4h6", 30), ("m2_e4h6", 3), ("g1_e4h6", 2)):
        put_translation(tmp_path, row, wrong=wrong)
    put_translation(tmp_path, "g1_e4h8", wrong=9)  # its baseline has not been run
    report = build_report(collect(TRANSLATION, "paper", tmp_path))
    worse, like, same = report.compared
    assert (worse.row.id, worse.base.id, like.row.id, same.row.id) == ("r_e4h6", "t_e4h6", "m2_e4h6", "g1_e4h6")
    assert worse.difference < -10 and worse.p < 0.01 and worse.high < 0
    assert -5 < like.difference < 0 and like.p > 0.05 and same.p == 1
    markdown = to_markdown(report)
    assert "| G1, 4 layers, 6 heads | T, 4 layers, 6 heads | 1 |" in markdown
    assert "| +0.00 | +0.00 … +0.00 |" in markdown


def test_the_published_differences_of_gated_resnet_t1(tmp_path: Path) -> None:
    """G1 with 8 heads is +0.01 BLEU from its baseline; sacreBLEU gave it a p-value of 0.384."""
    report = build_report(collect(load_table("gated_resnet_t1"), "mini", tmp_path))
    p = {pair.row.id: pair.p for pair in report.compared}
    assert len(p) == 12 and p["g1_e4h8"] > 0.9
