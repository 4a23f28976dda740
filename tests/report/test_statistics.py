"""Means, orders of rows and the details of verdicts, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from highway.config.metrics import METRICS
from highway.report.claims import decide, judge_claims, offset_of, on_log_scale, pairs_of, test_claims
from highway.report.model import Array, test_contrasts
from highway.report.reproduction import compare_numbers, words
from highway.report.simulation import Simulated
from highway.report.statistics import Summary, summarise
from highway.sweep.table import Claim

ROWS = ("a", "b", "c", "d")
RNG = np.random.default_rng(5)
MEANS = RNG.normal(size=(6, len(ROWS), 1)) * 10
VALUES = MEANS + RNG.normal(size=(6, len(ROWS), 3))  # tables, rows, seeds


def test_a_summary_has_mean_deviation_and_count() -> None:
    assert summarise([1.0, 4.0]) == Summary(2.5, pytest.approx(np.std([1, 4], ddof=1)), 2)
    assert summarise([3.0]) == Summary(3.0, None, 1) and summarise([]) is None


class Scaled(Simulated):
    """Tables whose values and whose least spread depend on the scale that is asked for."""

    def values(self, metric: str, log: bool) -> Array:
        return np.log(self.numbers[metric]) if log else -self.numbers[metric]

    def floor(self, metric: str, log: bool) -> float:
        return 7.0 if log else 20.0


@pytest.mark.parametrize(("metric", "log"), [("test_ppl", True), ("test_loss", False)])
def test_claims_are_tested_on_the_scale_of_their_metric_with_its_least_spread(metric: str, log: bool) -> None:
    """Two claims of one metric and one of ratios are tested together, and each gets its own pairs."""
    source = Scaled(ROWS, {}, {metric: np.exp(VALUES / 10)})
    claims = [
        Claim("", "better", ("a",), ("b", "c"), metric),
        Claim("", "within", ("b",), ("d",), metric, share=0.02),
        Claim("", "better", ("d",), ("a",), metric),
    ]
    found = test_claims(claims, source)
    for claim, test, scale in zip(claims, found, (log, True, log), strict=True):
        contrasts = np.array([[(name == row) * 1.0 - (name == than) for name in ROWS] for row, than in pairs_of(claim)])
        expected = test_contrasts(
            source.values(metric, scale), contrasts, offset_of(claim), source.floor(metric, scale)
        )
        np.testing.assert_allclose(test.supported, expected.above.max(1))
        np.testing.assert_allclose(test.refuted, np.minimum(len(contrasts) * expected.below.min(1), 1))
        assert test.pairs and test.pairs.error == pytest.approx(expected.error)
    assert max(test.refuted.max() for test in found) == 1


def test_values_that_grow_with_their_mean_are_compared_as_ratios() -> None:
    scaled = {name for name in METRICS if on_log_scale(name)}
    assert scaled == {
        *("train_ppl", "valid_ppl", "test_ppl", "train_seconds", "decoding_seconds", "inference_seconds"),
        *("step_seconds", "train_time_h", "peak_memory_mib", "tokens_per_second"),
    }


@pytest.mark.parametrize(("metric", "sign"), [("valid_accuracy", -1), ("valid_loss", 1)])
def test_a_claim_allows_its_share_in_the_direction_of_the_metric(metric: str, sign: int) -> None:
    assert offset_of(Claim("", "within", ("a",), ("b",), metric, share=0.01)) == pytest.approx(sign * np.log(1.01))


def test_a_p_value_of_five_percent_decides_nothing() -> None:
    p = np.array([0.05, 0.0499, 1.0, 1.0])
    assert decide(p, p[::-1]).tolist() == [0, 1, -1, 0]


def test_a_share_is_allowed_as_in_a_t_test_of_ratios() -> None:
    """With two rows, whose seeds are shared, a claim within 2 % is a t-test of logarithms with another null."""
    ppl = np.exp(VALUES[:, :2] / 100)

    class Logarithms(Simulated):
        def values(self, metric: str, log: bool) -> Array:
            return -np.log(self.numbers[metric])

    (test,) = test_claims(
        [Claim("", "within", ("a",), ("b",), "test_ppl", share=0.02)], Logarithms(("a", "b"), {}, {"test_ppl": ppl})
    )
    ratios = np.log(ppl[:, 1] / ppl[:, 0])
    expected = stats.ttest_1samp(ratios, -np.log(1.02), axis=1, alternative="greater").pvalue
    assert test.supported == pytest.approx(expected)


def test_orders_are_judged_by_kendalls_exact_test() -> None:
    """An absent relation is refuted by both directions together, an opposed one by each."""
    other = RNG.normal(size=(6, len(ROWS), 3))
    source = Simulated(ROWS, {}, {"valid_accuracy": VALUES, "bleu": other})
    unrelated, opposed = (Claim("", kind, ROWS, (), "bleu", to="valid_accuracy") for kind in ("unrelated", "opposed"))
    tests, _, _ = judge_claims([unrelated, opposed], source)
    for number in range(6):
        means = other[number].mean(1), VALUES[number].mean(1)
        greater, less = (
            stats.kendalltau(*means, method="exact", alternative=side).pvalue for side in ("greater", "less")
        )
        assert tests[0].supported[number] == 1
        assert tests[0].refuted[number] == pytest.approx(min(1, 2 * min(greater, less)))
        assert tests[1].supported[number] == pytest.approx(less)
        assert tests[1].refuted[number] == pytest.approx(greater)


def test_runs_of_two_kinds_make_different_false_as_often_as_documented() -> None:
    """The paper's number is a run like ours, and some runs lie 15 deviations off; docs/STATISTICS.md has the shares."""
    tables, seeds, share_of_kind, wrong = 20_000, 3, 0.3, 0.13
    runs = RNG.normal(size=(tables, 1, seeds + 1))
    runs += 15 * (RNG.random(runs.shape) < share_of_kind)
    found = compare_numbers(runs[..., 1:], runs[..., 0], 0.5, 0.0)
    assert (words(found, found.p) == "different").mean() == pytest.approx(wrong, abs=0.01)
