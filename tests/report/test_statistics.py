"""Each rule of statistics.py against scipy, statsmodels or a naive version."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.api import OLS
from statsmodels.stats.multitest import multipletests

from highway.cards.metrics import METRICS
from highway.report.collect import Summary, summarise
from highway.report.statistics import (
    Array,
    Comparison,
    assess,
    compare,
    comparisons,
    decisions,
    effect_word,
    holm,
    judge,
    on_log_scale,
    paper_word,
    prediction_interval,
)
from highway.tables.table import Claim, Epochs

RNG = np.random.default_rng(5)
TABLES = 6
NAN, FAILED = np.nan, -np.inf
BETTER = Claim(text="", better=["a"], than=["b"], metric="bleu")
GROWING = Claim(text="", growing=["a", "b", "c"], than=["d", "e", "f"], metric="bleu")


@dataclass
class Given:
    """Numbers of many tables, as a test gives them: row -> (B, S)."""

    rows: dict[str, Array]
    least: float = 0.0
    same: dict[str, str] = field(default_factory=dict)  # row -> the row whose runs it has
    alike: bool = True  # whether rows have the same data
    logs: list[bool] = field(default_factory=list)  # how values were asked for

    def values(self, row: str, metric: str, log: bool, over: Epochs | None = None) -> Array:
        self.logs.append(log)
        return self.rows[row]

    def floor(self, metric: str, log: bool) -> float:
        return self.least

    def twin(self, row: str) -> str:
        return self.same.get(row, row)

    def comparable(self, *rows: str) -> bool:
        return self.alike


def rows(names: str = "abcd", seeds: int = 3) -> dict[str, Array]:
    return {name: RNG.normal(RNG.normal(), RNG.uniform(0.5, 2), (TABLES, seeds)) for name in names}


def welch(ours: Array, theirs: Array) -> Any:
    return stats.ttest_ind(ours, theirs, axis=-1, equal_var=False)


def test_a_summary_has_mean_deviation_and_count() -> None:
    assert summarise([10.0, 10.4]) == Summary(10.2, pytest.approx(np.std([10, 10.4], ddof=1)), 2)
    assert summarise([3.0]) == Summary(3.0, None, 1) and summarise([]) is None


@pytest.mark.parametrize(
    ("values", "failed", "shown"),
    [
        ([2.39, 3.47, 3.52, 3.57, 3.80, 3.92], False, "3.54 (2.39 to 3.92)"),
        ([-1.0, -1.2], False, "-1.10 (-1.20 to -1.00)"),
        ([1.0, 1.06], False, "1.03 ± 0.04"),
        ([1.0, 1.08], False, "1.04 (1.00 to 1.08)"),
        ([1.0, 1.01], True, "1.00 (1.00 to 1.01)"),
        ([1.0], True, "1.00"),
    ],
)
def test_a_mean_that_would_mislead_is_replaced_by_the_spread(values: list[float], failed: bool, shown: str) -> None:
    """The deviation is above 5 % of the mean, or another run failed."""
    summary = summarise(values, failed)
    assert summary is not None and summary.text(2) == shown


def test_values_that_grow_with_their_mean_are_compared_as_ratios() -> None:
    scaled = {name for name in METRICS if on_log_scale(name)}
    assert scaled == {
        *("train_ppl", "valid_ppl", "test_ppl", "seen_ppl", "train_seconds", "decoding_seconds", "inference_seconds"),
        *("step_seconds", "train_time_h", "peak_memory_mib", "tokens_per_second"),
    }


def test_two_rows_are_compared_by_welchs_test_and_its_interval() -> None:
    """Rows may differ in their number of runs and in their spread."""
    ours, theirs = rows("a", seeds=6)["a"], rows("b", seeds=4)["b"]
    ours[0, 3:], theirs[1, 2:] = NAN, NAN
    found = compare([(1.0, ours), (-1.0, theirs)], 0.0)
    for table in range(TABLES):
        first, second = (runs[table][~np.isnan(runs[table])] for runs in (ours, theirs))
        test = welch(first, second)
        assert found.p[table] == pytest.approx(test.pvalue)
        ends = found.size[table] - found.half[table], found.size[table] + found.half[table]
        assert ends == pytest.approx(tuple(test.confidence_interval(0.95)))
        assert (ends[0] > 0 or ends[1] < 0) == (found.p[table] < 0.05), "interval and p-value are of one test"


def test_one_run_or_none_or_a_failed_one_tests_nothing() -> None:
    ours = np.array([[1.0, NAN, NAN], [NAN, NAN, NAN], [1.0, 2.0, FAILED]])
    found = compare([(1.0, ours), (-1.0, np.zeros((3, 3)))], 0.1)
    assert found.p.tolist() == [1, 1, 1] and np.isnan(found.half).all()
    assert found.size[0] == 1 and np.isnan(found.size[1:]).all()


def test_each_row_has_at_least_the_deviation_that_the_metric_resolves() -> None:
    ours, theirs = np.full((1, 3), 0.2), np.array([[0.0, 0.1, -0.1]])
    found = compare([(1.0, ours), (-1.0, theirs)], 0.05)
    raised = np.array([[0.15, 0.2, 0.25]])  # a deviation of 0.05
    assert found.p == pytest.approx(welch(raised, theirs).pvalue)


def test_a_contrast_of_four_means_has_satterthwaites_degrees_of_freedom() -> None:
    """With as many runs a row, it is Welch's test of two rows if the other two have no spread."""
    given = rows("abcd", seeds=5)
    found = compare([(1.0, given["a"]), (-1.0, given["b"]), (-1.0, given["c"]), (1.0, given["d"])], 0.0)
    for table in range(TABLES):
        runs = [values[table] for values in given.values()]
        errors = [run.var(ddof=1) / 5 for run in runs]
        freedom = sum(errors) ** 2 / sum(error**2 / 4 for error in errors)
        t = (runs[0].mean() - runs[1].mean() - runs[2].mean() + runs[3].mean()) / math.sqrt(sum(errors))
        assert found.p[table] == pytest.approx(2 * stats.t.sf(abs(t), freedom))
        assert found.half[table] == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(sum(errors)))


def test_holms_correction_ranks_claims_by_the_smaller_of_both_p_values() -> None:
    p = RNG.random((7, 2, 3)) ** 3
    corrected = holm(p)
    for table in range(3):
        expected = multipletests(p[:, :, table].min(1), method="holm")[1]
        assert corrected[:, :, table].min(1) == pytest.approx(expected)
        factors = 7 - stats.rankdata(p[:, :, table].min(1)) + 1
        larger = np.minimum(np.maximum(p[:, :, table].max(1) * factors, expected), 1)
        assert corrected[:, :, table].max(1) == pytest.approx(larger)


def test_two_looks_cost_a_factor_of_two_and_take_the_first_runs() -> None:
    """With three runs there is one look, with four the same; with five the clearer of both counts."""
    given = rows("ab", seeds=7)
    at = {look: welch(given["a"][:, :look], given["b"][:, :look]) for look in (3, 5)}
    ahead = {look: np.where(test.statistic > 0, test.pvalue, 1) for look, test in at.items()}
    behind = {look: np.where(test.statistic < 0, test.pvalue, 1) for look, test in at.items()}
    for runs, looks in ((2, ()), (3, (3,)), (4, (3,)), (5, (3, 5)), (7, (3, 5))):
        found = assess(BETTER, Given({name: values[:, :runs] for name, values in given.items()}))
        for side, tested in zip(found, (ahead, behind), strict=True):
            best = np.min([np.ones(TABLES), *(tested[look] for look in looks)], axis=0)
            assert side == pytest.approx(np.minimum(2 * best, 1))


def test_a_look_needs_the_runs_of_every_row_and_none_that_failed() -> None:
    given = rows("abc", seeds=5)
    claim = Claim(text="", better=["a"], than=["b", "c"], metric="bleu")
    first = assess(claim, Given({name: values[:, :3] for name, values in given.items()}))
    assert (first < 1).any()
    given["c"][:, 3:] = NAN
    assert assess(claim, Given(given)) == pytest.approx(first), "the second look waits for c"
    given["c"][:, 3:] = FAILED
    assert assess(claim, Given(given)) == pytest.approx(first), "what is decided stays"
    given["b"][:, 0] = FAILED
    assert (assess(claim, Given(given)) == 1).all()


def test_both_directions_decide_nothing() -> None:
    """The first three runs speak for the claim, and the first five against it."""
    p_values = np.array([[[0.01], [0.04]], [[0.01], [0.06]], [[0.06], [0.01]], [[0.05], [1.0]]])
    assert decisions(p_values).tolist() == [[0], [1], [-1], [0]]


def test_every_pair_has_to_hold_and_one_opposite_pair_refutes() -> None:
    given = rows()
    for name in "ab":
        given[name][:3] += 3  # all pairs hold
    claim = Claim(text="", better=["a", "b"], than=["c", "d"], metric="bleu")
    found = assess(claim, Given(given))
    tests = [welch(given[row], given[than]) for row, than in claim.pairs]
    assert len(tests) == 4
    p, ahead = np.array([test.pvalue for test in tests]), np.array([test.statistic > 0 for test in tests])
    assert found[0] == pytest.approx(np.minimum(2 * np.where(ahead, p, 1).max(0), 1))
    assert found[1] == pytest.approx(np.minimum(2 * 4 * np.where(ahead, 1, p).min(0), 1))


def test_pairs_in_order_and_the_correction_for_all_claims() -> None:
    given = rows()
    pairs = Claim(text="", better=["a", "b"], than=["c", "d"], metric="bleu", paired=True)
    claims = [pairs, BETTER, BETTER]
    assert claims[0].pairs == [("a", "c"), ("b", "d")]
    alone = np.stack([assess(claim, Given(given)) for claim in claims])
    assert judge(claims, Given(given)) == pytest.approx(holm(alone))
    not_run = Claim(text="", better=["e"], than=["b"], metric="bleu")
    more = judge([BETTER, not_run], Given({**given, "e": np.empty((TABLES, 0))}))
    assert more[0] == pytest.approx(np.minimum(2 * alone[1], 1)), "a claim that has not run counts"
    assert (more[1] == 1).all()


def test_rows_that_are_the_same_runs_do_not_differ() -> None:
    """Whatever a claim allows; and in a growth the row that two gains share counts twice."""
    given = rows("abc")
    twins = Given({**given, "b": given["a"]}, same={"b": "a"})
    limit = Claim(text="", at_most=["a"], than=["b"], metric="valid_loss", share=0.5)
    assert (assess(BETTER, twins) == 1).all() and (assess(limit, twins) == 1).all()
    growth = Claim(text="", growing=["a", "c"], than=["b", "a"], metric="bleu")
    (step,) = comparisons(growth, Given(given))
    expected = compare([(1.0, given["c"]), (-2.0, given["a"]), (1.0, given["b"])], 0.0)
    assert step.p == pytest.approx(expected.p) and step.size == pytest.approx(expected.size)


def test_at_most_compares_log_ratios_with_the_share() -> None:
    times = {name: np.exp(values / 100) for name, values in rows("ab").items()}
    given = Given({name: -np.log(values) for name, values in times.items()})
    claim = Claim(text="", at_most=["a"], than=["b"], metric="valid_loss", share=0.02)
    (found,) = comparisons(claim, given)
    tested = welch(np.log(times["a"]), np.log(1.02 * times["b"]))
    assert found.p == pytest.approx(tested.pvalue) and (np.sign(found.size) == -np.sign(tested.statistic)).all()
    assert all(given.logs)


def test_growing_compares_each_gain_with_the_one_before() -> None:
    given = rows("abcdef")
    found = comparisons(GROWING, Given(given))
    gains = [given[row] - given[than] for row, than in ("ad", "be", "cf")]
    for step, gain in enumerate(found):
        assert gain.size == pytest.approx((gains[step + 1] - gains[step]).mean(1))
        names = [*GROWING.pairs[step + 1], *GROWING.pairs[step]]
        weighted = [(weight, given[name]) for weight, name in zip((1.0, -1.0, -1.0, 1.0), names, strict=True)]
        assert gain.p == pytest.approx(compare(weighted, 0.0).p)
    p, ahead = np.array([gain.p for gain in found]), np.array([gain.size > 0 for gain in found])
    assert assess(GROWING, Given(given))[0] == pytest.approx(np.minimum(2 * np.where(ahead, p, 1).max(0), 1))


def test_rows_on_other_data_are_not_tested() -> None:
    assert (assess(BETTER, Given(rows("ab"), alike=False)) == 1).all()


def test_claims_have_the_floor_of_their_metric() -> None:
    given = Given({"a": np.full((1, 3), 0.2), "b": np.zeros((1, 3))}, least=0.05)
    spread = np.array([[-0.05, 0.0, 0.05]])
    assert assess(BETTER, given)[0] == pytest.approx(2 * welch(0.2 + spread, spread).pvalue)


@pytest.mark.parametrize(("p", "decision"), [(0.02501, 0), (0.02499, 1)])
def test_a_corrected_p_value_of_five_percent_decides_nothing(p: float, decision: int) -> None:
    """Three runs of deviation 1 in each row, whose difference has this p-value at the first look."""
    gap = stats.t.isf(p / 2, 4) * math.sqrt(2 / 3)
    given = Given({"a": np.array([[gap - 1, gap, gap + 1]]), "b": np.array([[-1.0, 0.0, 1.0]])})
    assert decisions(judge([BETTER], given)).tolist() == [[decision]]


def test_the_prediction_interval_is_that_of_least_squares() -> None:
    values = RNG.normal(3, 0.2, 5)
    expected = OLS(values, np.ones(5)).fit().get_prediction([[1.0]]).summary_frame(alpha=0.05)
    ends = prediction_interval(values.tolist(), 0.0)
    assert ends == pytest.approx((expected["obs_ci_lower"][0], expected["obs_ci_upper"][0]))
    wider = prediction_interval([3.0, 3.0, 3.0], 0.05)
    assert wider[1] - 3 == pytest.approx(stats.t.ppf(0.975, 2) * 0.05 * math.sqrt(4 / 3))


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (2.3, 2.5, "within"),
        (2.2, 2.43, "within"),
        (2.2, 2.45, "too wide"),  # half of it is 0.125, and 5 % of the number 0.1185
        (1.93, 4.96, "too wide"),
        (2.5, 4.5, "too wide"),  # also where the number is outside
        (2.38, 2.5, "outside"),
        (2.374, 2.5, "within"),  # 2.37 may be 2.3749
        (2.2, 2.36, "outside"),
    ],
)
def test_the_words_for_a_papers_number(low: float, high: float, word: str) -> None:
    assert paper_word(2.37, 0.005, (low, high), (9.0, 9.1)) == word


@pytest.mark.parametrize(("near", "word"), [((2.3, 2.36), "outside"), ((2.3, 2.365), "within"), ((2.375, 3), "within")])
def test_a_number_near_our_mean_is_within_however_little_our_runs_spread(near: tuple[float, float], word: str) -> None:
    assert paper_word(2.37, 0.005, (2.34, 2.345), near) == word


@pytest.mark.parametrize("counts", [(3, 3), (4, 6)])
def test_one_more_run_of_each_row_lies_in_its_interval(counts: tuple[int, int]) -> None:
    """In 95 % of cases, also if rows differ in their number of runs."""
    rng = np.random.default_rng(3)
    ours, theirs = (rng.normal(0, 1, (40_000, count)) for count in counts)
    found = compare([(1.0, ours), (-1.0, theirs)], 0.0)
    following = rng.normal(0, np.sqrt(2), 40_000)
    assert np.mean(np.abs(following - found.size) < found.reach) == pytest.approx(0.95, abs=0.02)
    assert (found.reach > found.half).all()


def word(size: float, half: float, paper: float, rounding: float = 0.0) -> str:
    """Return the word for an effect; one more run of each row reaches twice as far as the interval of the means."""
    ours = Comparison(np.array([size]), np.array([half]), np.array([2 * half]), np.ones(1))
    return effect_word(ours, paper, rounding)


@pytest.mark.parametrize(
    ("size", "half", "paper", "expected"),
    [
        (1.0, 0.5, 1.2, "agrees"),
        (-1.0, 0.5, -1.2, "agrees"),
        (1.0, 0.4, 1.8, "agrees"),
        (1.0, 0.3, 1.7, "smaller"),
        (0.1, 0.5, 1.2, "smaller"),
        (-0.1, 0.5, 1.0, "smaller"),
        (1.0, 0.25, 0.4, "larger"),
        (-1.0, 0.5, 0.4, "opposite"),
        (-1.0, 0.25, -0.4, "larger"),
        (0.4, 0.5, 1.2, "too wide"),
        (2.0, 0.8, 1.0, "too wide"),
        (1.0, 0.5, 1.0, "too wide"),
        (0.5, 0.5, 1.4, "too wide"),
        (1.0, 0.25, 0.0, "larger"),
        (0.1, 0.5, 0.0, "too wide"),
    ],
)
def test_the_word_for_an_effect(size: float, half: float, paper: float, expected: str) -> None:
    """An effect `agrees` if one more run of each row may have the paper's, their reach is below it, and zero is not in
    the interval."""
    assert word(size, half, paper) == expected


def test_the_rounding_of_the_papers_effect_is_allowed_for() -> None:
    assert word(1.0, 0.3, 1.7) == "smaller" and word(1.0, 0.3, 1.7, rounding=0.11) == "agrees"


@pytest.mark.parametrize("runs", [3, 5])
@pytest.mark.parametrize("paper", [2.0, 4.0, 8.0])
def test_words_for_effects_are_seldom_wrong(runs: int, paper: float) -> None:
    """The paper has one run a row, and a true effect of so many deviations of a run; 4,000 tables each."""
    rng = np.random.default_rng([runs, int(paper)])

    def share(effect: float, *wrong: str) -> float:
        ours, theirs = rng.normal(effect, 1, (4000, runs)), rng.normal(0, 1, (4000, runs))
        compared = compare([(1.0, ours), (-1.0, theirs)], 0.0)
        stated = paper + rng.normal(0, np.sqrt(2), 4000)
        tables = zip(*compared, stated, strict=True)
        found = [effect_word(Comparison(*(np.array([each]) for each in table)), one, 0.0) for *table, one in tables]
        return sum(found.count(each) for each in wrong) / len(found)

    assert share(0.0, "agrees") < 0.025 and share(0.0, "opposite") < 0.03
    assert share(paper, "smaller", "larger", "opposite") < 0.06
    assert share(-paper, "agrees", "larger") < 0.01
