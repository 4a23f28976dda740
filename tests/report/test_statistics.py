"""Means, orders of rows and the details of verdicts, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from highway.report import across
from highway.report.claims import judge_claims, order_of
from highway.report.model import one_sample, rank_test
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


def test_the_ends_of_the_rules_for_a_papers_number() -> None:
    """A mean exactly as far off as the margin is not beyond it, and a p-value of 5 % is not below 5 %."""
    found = compare_numbers(np.array([[[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]]]), np.array([[1.5, 3.0]]), 0.5, 0.0, floor=1.0)
    assert not found.beyond.any()
    yes, no = np.array([[True]]), np.array([[False]])
    corrected = np.array([[0.05]])
    assert words(Compared(no, yes, corrected), corrected)[0, 0] == "inconclusive"
    assert words(Compared(no, yes, corrected), corrected - 1e-9)[0, 0] == "different"


def test_a_small_p_value_is_said_to_be_small() -> None:
    assert p_text(0.0004) == "below 0.001" and p_text(0.001) == "0.001" and p_text(0.0405) in ("0.040", "0.041")


def test_the_page_over_tables_has_columns_of_numbers() -> None:
    grid = across._grid([across.Pair("t", "r", "sdu", 1.0, 3)])
    assert [(head.title, head.numeric) for head in grid.heads] == [
        ("of", False),
        *((title, True) for title in ("tables", "rows", "probability", "95 % interval")),
    ]
    assert across._explained().style == "note"
