"""Means, orders of rows and the details of verdicts, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from highway.config.metrics import METRICS
from highway.report.claims import decide, judge_claims, offset_of, on_log_scale, test_claims
from highway.report.model import Array
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


@pytest.mark.parametrize("share", [None, 0.02])
def test_perplexities_are_compared_as_in_a_paired_t_test_of_logarithms(share: float | None) -> None:
    """A claim within 2 % has another null; both directions are tested."""
    ppl = np.exp(VALUES[:, :2] / 100)

    class Ours(Simulated):
        def values(self, metric: str, log: bool) -> Array:
            return -np.log(self.numbers[metric]) if log else -self.numbers[metric]

    kind = "within" if share else "better"
    claim = Claim("", kind, ("a",), ("b",), "test_ppl", **({"share": share} if share else {}))
    (test,) = test_claims([claim], Ours(("a", "b"), {}, {"test_ppl": ppl}))
    ratios, null = np.log(ppl[:, 1] / ppl[:, 0]), -np.log(1 + (share or 0))
    for found, side in ((test.supported, "greater"), (test.refuted, "less")):
        assert found == pytest.approx(stats.ttest_1samp(ratios, null, axis=1, alternative=side).pvalue)
