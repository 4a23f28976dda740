"""Means, orders of rows and the details of verdicts, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

from highway.config.metrics import METRICS
from highway.report import across
from highway.report.claims import decide, judge_claims, offset_of, on_log_scale, order_of, pairs_of, test_claims
from highway.report.model import Array, one_sample, rank_test, test_contrasts
from highway.report.reproduction import Compared, compare_numbers, words
from highway.report.simulation import Simulated
from highway.report.statistics import Summary, kendall_tau, summarise
from highway.report.verdicts import p_text
from highway.sweep.table import Claim

ROWS = ("a", "b", "c", "d")
RNG = np.random.default_rng(5)
MEANS = RNG.normal(size=(6, len(ROWS), 1)) * 10
VALUES = MEANS + RNG.normal(size=(6, len(ROWS), 3))  # tables, rows, seeds


def test_a_summary_has_mean_deviation_and_count() -> None:
    assert summarise([1.0, 4.0]) == Summary(2.5, pytest.approx(np.std([1, 4], ddof=1)), 2)
    assert summarise([3.0]) == Summary(3.0, None, 1) and summarise([]) is None


def test_two_rows_have_an_order_and_equal_rows_have_none() -> None:
    assert kendall_tau([1, 2], [3, 4]) == 1 and kendall_tau([1, 2], [4, 3]) == -1
    assert kendall_tau([1, 1], [3, 4]) is None and kendall_tau([3, 4], [1, 1]) is None


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


def test_paired_rows_must_be_as_many() -> None:
    with pytest.raises(ValueError):
        pairs_of(Claim("", "better", ("a", "b"), ("c",), "valid_loss", paired=True))


def test_a_p_value_of_five_percent_decides_nothing() -> None:
    p = np.array([0.05, 0.0499, 1.0, 1.0])
    assert decide(p, p[::-1]).tolist() == [0, 1, -1, 0]


def test_both_p_values_of_all_claims_are_corrected_together() -> None:
    source = Simulated(ROWS, {}, {"test_loss": MEANS / 10 + VALUES - MEANS})
    claims = [Claim("", "better", ("a",), ("b", "c"), "test_loss"), Claim("", "better", ("d",), ("c",), "test_loss")]
    tests, supported, refuted = judge_claims(claims, source)
    for number in range(len(VALUES)):
        pairs = [test.pairs for test in tests if test.pairs]
        sides = [
            [pair.above[number].max(), min(multipletests(pair.below[number], method="bonferroni")[1])] for pair in pairs
        ]
        corrected = multipletests(np.concatenate(sides), method="holm")[1]
        found = [p for of_claim in zip(supported[number], refuted[number], strict=True) for p in of_claim]
        assert found == pytest.approx(corrected)


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


def test_an_order_is_of_the_runs_that_each_row_has() -> None:
    """Means are taken on the scale of the model; a failed run does not count, and a row without any has no place."""
    ppl = np.array([[[1.0, 100.0, np.nan], [8.0, 9.0, 10.0], [np.inf, 12.0, 30.0], [np.inf, np.nan, np.nan]]])
    log = np.array([np.log([1, 100]).mean(), np.log([8, 9, 10]).mean(), np.log([12, 30]).mean(), np.nan])

    class Failing(Simulated):
        def values(self, metric: str, log: bool) -> Array:
            return -np.log(self.numbers[metric]) if log else -self.numbers[metric]

    np.testing.assert_allclose(order_of(Failing(ROWS, {}, {"test_ppl": ppl}), "test_ppl", ROWS)[0], log)


@pytest.mark.parametrize(("metric", "sign"), [("valid_accuracy", 1), ("valid_loss", -1)])
def test_an_order_is_that_of_means_from_worse_to_better(metric: str, sign: int) -> None:
    source = Simulated(ROWS, {}, {metric: VALUES})
    picked = order_of(source, metric, ("d", "b"))
    np.testing.assert_allclose(picked, sign * VALUES.mean(2)[:, [3, 1]])


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


def test_differences_are_judged_by_the_one_sample_t_test() -> None:
    differences = RNG.normal(size=(3, 2, 5))
    mean, error, freedom = one_sample(differences, 0.0)
    expected = stats.ttest_1samp(differences, 0, axis=-1).statistic
    np.testing.assert_allclose(mean / error, expected)
    assert freedom == 4


def test_p_values_of_ranks_are_at_most_one() -> None:
    for sides in (rank_test(np.ones((1, 5)), np.ones((1, 5))), rank_test(np.zeros((1, 6)), np.zeros((1, 7)))):
        assert all(side[0] <= 1 for side in sides)
        assert all(side[0] == pytest.approx(1) for side in sides)


def test_a_papers_number_is_judged_by_two_one_sided_tests_and_a_prediction_interval() -> None:
    """By statsmodels: a mean is equivalent if both tests reject; p is the level whose interval ends at the number."""
    runs = RNG.normal(size=5)
    mean, margin, decided = runs.mean(), 1.5, set()
    for paper in mean + np.array([0.0, 0.4, -0.6, 0.9, 2.5]):
        found = compare_numbers(runs[None, None], np.array([[paper]]), margin, 0.0)
        both = DescrStatsW(runs).ttost_mean(paper - margin, paper + margin)[0]
        decided.add(bool(found.equivalent[0, 0]))
        assert found.equivalent[0, 0] == (both < 0.05) and found.beyond[0, 0] == (abs(mean - paper) > margin)
        if paper != mean:
            predicted = OLS(runs, np.ones(5)).fit().get_prediction(np.ones(1))
            ends = predicted.conf_int(obs=True, alpha=found.p[0, 0])[0]
            assert ends[0 if paper < mean else 1] == pytest.approx(paper)
    assert decided == {True, False}


@pytest.mark.parametrize(("seeds", "share_of_kind", "wrong"), [(3, 0.3, 0.13), (4, 0.2, 0.10), (10, 0.1, 0.085)])
def test_runs_of_two_kinds_make_different_false_as_often_as_documented(
    seeds: int, share_of_kind: float, wrong: float
) -> None:
    """The paper's number is a run like ours, and some runs lie 15 deviations off; docs/STATISTICS.md has the shares."""
    tables = 20_000
    runs = RNG.normal(size=(tables, 1, seeds + 1))
    runs += 15 * (RNG.random(runs.shape) < share_of_kind)
    found = compare_numbers(runs[..., 1:], runs[..., 0], 0.5, 0.0)
    assert (words(found, found.p) == "different").mean() == pytest.approx(wrong, abs=0.01)


def test_the_ends_of_the_rules_for_a_papers_number() -> None:
    """A mean exactly as far off as the margin is not beyond it, and a p-value of 5 % is not below 5 %."""
    found = compare_numbers(np.array([[[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]]]), np.array([[1.5, 3.0]]), 0.5, 0.0, floor=1.0)
    assert not found.beyond.any()
    yes, no = np.array([[True]]), np.array([[False]])
    corrected = np.array([[0.05]])
    assert words(Compared(no, yes, corrected, corrected), corrected)[0, 0] == "inconclusive"
    assert words(Compared(no, yes, corrected, corrected), corrected - 1e-9)[0, 0] == "different"


def test_a_small_p_value_is_said_to_be_small() -> None:
    assert p_text(0.0004) == "below 0.001" and p_text(0.001) == "0.001" and p_text(0.0405) in ("0.040", "0.041")


def test_the_page_over_tables_has_columns_of_numbers() -> None:
    grid = across._grid([across.Pair("t", "r", "sdu", 1.0, 3)])
    assert [(head.title, head.numeric) for head in grid.heads] == [
        ("of", False),
        *((title, True) for title in ("tables", "rows", "probability", "95 % interval")),
    ]
