"""Each rule of statistics.py against scipy, statsmodels or sacrebleu."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from scipy import stats
from statsmodels.api import OLS
from statsmodels.stats.multitest import multipletests

from highway.config.metrics import METRICS
from highway.report.collect import Summary, summarise
from highway.report.statistics import (
    Array,
    bleu,
    bootstrap,
    compare_paired,
    compare_ranks,
    compare_rows,
    holm,
    judge,
    kendall_tau,
    mean_loss,
    on_log_scale,
    paper_word,
    parse,
    prediction_interval,
    seeds_for_ranks,
)
from highway.sweep.table import Claim
from highway.tasks.translation import scores

RNG = np.random.default_rng(5)
TABLES = 6
BETTER = Claim(text="", better=["a"], than=["b"], metric="bleu")


@dataclass
class Given:
    """Numbers of many tables, as a test gives them: row -> (B, S)."""

    rows: dict[str, Array]
    least: float = 0.0
    logs: list[bool] = field(default_factory=list)  # how `judge` asked for values

    def values(self, row: str, metric: str, log: bool) -> Array:
        self.logs.append(log)
        return self.rows[row]

    def floor(self, metric: str, log: bool) -> float:
        return self.least

    def steps(self, row: str, than: str, metric: str) -> tuple[Array, Array]:
        return self.rows[row], self.rows[than]

    def step_floor(self, metric: str) -> float:
        return self.least


def rows(names: str = "abcd", seeds: int = 4) -> dict[str, Array]:
    return {name: RNG.normal(RNG.normal(), 1, (TABLES, seeds)) for name in names}


def paired(ours: Array, theirs: Array) -> Array:
    return np.asarray(stats.ttest_rel(ours, theirs, axis=1, nan_policy="omit").pvalue)


def test_a_summary_has_mean_deviation_and_count() -> None:
    assert summarise([1.0, 4.0]) == Summary(2.5, pytest.approx(np.std([1, 4], ddof=1)), 2)
    assert summarise([3.0]) == Summary(3.0, None, 1) and summarise([]) is None


def test_values_that_grow_with_their_mean_are_compared_as_ratios() -> None:
    scaled = {name for name in METRICS if on_log_scale(name)}
    assert scaled == {
        *("train_ppl", "valid_ppl", "test_ppl", "seen_ppl", "train_seconds", "decoding_seconds", "inference_seconds"),
        *("step_seconds", "train_time_h", "peak_memory_mib", "tokens_per_second"),
    }


def test_kendalls_tau_is_scipys_and_needs_two_orders() -> None:
    assert kendall_tau([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(stats.kendalltau([1, 2, 3, 4], [1, 3, 2, 4])[0])
    assert kendall_tau([1, 1], [1, 2]) is None


def test_a_pair_is_compared_by_the_paired_t_test_and_its_interval() -> None:
    """A seed that one of the rows lacks does not count."""
    ours, theirs = rows("ab", seeds=6).values()
    ours[0, 2] = theirs[0, 5] = theirs[1, 0] = np.nan
    found = compare_rows(ours, theirs, 0.0, 5)
    assert found.p == pytest.approx(paired(ours, theirs)) and found.seeds.tolist() == [4, 5, 6, 6, 6, 6]
    for table in range(TABLES):
        both = ~np.isnan(ours[table] + theirs[table])
        test = stats.ttest_rel(ours[table, both], theirs[table, both])
        ends = found.mean[table] - found.half[table], found.mean[table] + found.half[table]
        assert ends == pytest.approx(tuple(test.confidence_interval(0.95)))
        assert (ends[0] > 0 or ends[1] < 0) == (found.p[table] < 0.05), "interval and p-value are of one test"


def test_one_seed_or_none_tests_nothing() -> None:
    found = compare_paired(np.array([[1.0, np.nan], [np.nan, np.nan]]), 0.0)
    assert found.p.tolist() == [1, 1] and np.isnan(found.half).all() and found.seeds.tolist() == [1, 0]


def test_equal_differences_have_the_deviation_that_the_metric_resolves() -> None:
    found = compare_paired(np.array([[0.2, 0.2, 0.2], [0.0, 0.0, 0.0]]), 0.05)
    t = 0.2 / (0.05 / math.sqrt(3))
    assert found.p == pytest.approx([2 * stats.t.sf(t, 2), 1.0])
    assert compare_paired(np.zeros((1, 3)), 0.0).p == 1, "rows of the same runs"


@pytest.mark.parametrize(
    "ours", [[1.0, 4, 6, 7, 8], [-np.inf, -np.inf, 9, 5, 7, 8], [-np.inf] * 5, [9.0, 8, 7, 6, 10, 11]]
)
def test_ranks_are_compared_exactly_also_with_ties(ours: list[float]) -> None:
    """Scipy draws runs into two groups in every way; failed runs are tied, and worse than all others."""
    theirs = [-np.inf, 2.0, 3.0, 5.0, 2.0]

    def rank_sum(one: Any, other: Any, axis: int = -1) -> Any:
        ranks = stats.rankdata(np.concatenate([one, other], axis=axis), axis=axis)
        return ranks[..., : one.shape[axis]].sum(axis)

    exact = stats.permutation_test((ours, theirs), rank_sum, vectorized=True, n_resamples=np.inf)
    sign, p = compare_ranks(ours, theirs)
    assert p == pytest.approx(exact.pvalue)
    assert sign == np.sign(np.mean(stats.rankdata([*ours, *theirs])[: len(ours)]) - (len(ours) + len(theirs) + 1) / 2)


def test_ranks_without_ties_are_scipys() -> None:
    ours, theirs = RNG.normal(1, 1, 6), RNG.normal(0, 1, 7)
    expected = stats.mannwhitneyu(ours, theirs, method="exact").pvalue
    assert compare_ranks(ours.tolist(), theirs.tolist())[1] == pytest.approx(expected)


def test_where_a_run_failed_all_runs_are_ranked_from_five_of_each_row_on() -> None:
    ours, theirs = np.full((2, 8), np.nan), np.full((2, 8), np.nan)
    ours[0, :5], theirs[0, 3:] = -np.inf, (1, 2, 3, 4, 5)
    ours[1, :4], theirs[1, :4] = -np.inf, (1, 2, 3, 4)
    found = compare_rows(ours, theirs, 0.0, 5)
    assert found.p == pytest.approx([2 / math.comb(10, 5), 1]) and found.sign[0] == -1
    assert found.seeds.tolist() == [5, 4] and np.isnan(found.half).all()
    assert [seeds_for_ranks([BETTER] * count) for count in (1, 6, 7, 16)] == [5, 5, 6, 6]
    assert 6 * 2 / math.comb(10, 5) < 0.05 < 7 * 2 / math.comb(10, 5), "with seven claims five runs cannot pass Holm"


def test_holms_correction() -> None:
    p = RNG.random((3, 7)) ** 3
    for row, corrected in zip(p, holm(p), strict=True):
        assert corrected == pytest.approx(multipletests(row, method="holm")[1])


def test_every_pair_has_to_hold_and_one_opposite_pair_refutes() -> None:
    given = rows()
    for name in "ab":
        given[name][:3] += 3  # all pairs hold
    claim = Claim(text="", better=["a", "b"], than=["c", "d"], metric="bleu")
    (test,) = judge([claim], Given(given))
    pairs = [(given[row], given[than]) for row, than in claim.pairs]
    assert len(pairs) == 4
    p = np.array([paired(*pair) for pair in pairs])
    ahead = np.array([(ours - theirs).mean(1) > 0 for ours, theirs in pairs])
    supported, refuted = np.where(ahead, p, 1).max(0), np.minimum(4 * np.where(ahead, 1, p).min(0), 1)
    assert test.p == pytest.approx(np.minimum(supported, refuted))
    assert {*test.sign[test.p < 1].tolist()} == {1, -1}, "the tables have claims of both kinds"
    assert (test.sign[test.p < 1] == 1).tolist() == (supported < refuted)[test.p < 1].tolist()
    for table, number in enumerate(test.decisive):
        behind = np.flatnonzero(~ahead[:, table])
        expected = behind[p[behind, table].argmin()] if len(behind) else p[:, table].argmax()
        assert number == expected


def test_pairs_in_order_and_the_correction_for_all_claims() -> None:
    given = rows()
    pairs = Claim(text="", better=["a", "b"], than=["c", "d"], metric="bleu", paired=True)
    claims = [pairs, BETTER, BETTER]
    assert claims[0].pairs == [("a", "c"), ("b", "d")]
    alone = [judge([claim], Given(given))[0].p for claim in claims]
    for table in range(2):
        corrected = multipletests([p[table] for p in alone], method="holm")[1]
        assert [test.p[table] for test in judge(claims, Given(given))] == pytest.approx(corrected)


def test_at_most_compares_log_ratios_with_the_share() -> None:
    times = {name: np.exp(values / 100) for name, values in rows("ab").items()}
    given = Given({name: -np.log(values) for name, values in times.items()})
    claim = Claim(text="", at_most=["a"], than=["b"], metric="valid_loss", share=0.02)
    (test,) = judge([claim], given)
    ratios = np.log(times["a"] / times["b"])
    tested = stats.ttest_1samp(ratios, np.log(1.02), axis=1)
    assert test.p == pytest.approx(tested.pvalue) and (test.sign == -np.sign(tested.statistic)).all()
    assert all(given.logs)


def test_growing_compares_each_gain_with_the_one_before() -> None:
    given = rows("abcdef")
    claim = Claim(text="", growing=["a", "b", "c"], than=["d", "e", "f"], metric="bleu")
    (test,) = judge([claim], Given(given))
    gains = [given[row] - given[than] for row, than in ("ad", "be", "cf")]
    for step, found in enumerate(test.pairs):
        assert found.p == pytest.approx(paired(gains[step + 1], gains[step]))
        assert found.sign == pytest.approx(np.sign((gains[step + 1] - gains[step]).mean(1)))
    given["a"][0, 0] = -np.inf
    claim = Claim(text="", growing=["a", "b"], than=["d", "e"], metric="bleu")
    (failed,) = judge([claim], Given(given))
    assert failed.p[0] == 1 and failed.p[1] < 1, "gains with a failed run have no test"


def test_sooner_compares_steps_with_the_resolution_of_validations() -> None:
    given = Given({"a": np.full((1, 3), -50.0), "b": np.full((1, 3), -100.0)}, least=12.5)
    (test,) = judge([Claim(text="", sooner=["a"], than=["b"], metric="valid_loss")], given)
    assert test.p == pytest.approx(2 * stats.t.sf(50 / (12.5 / math.sqrt(3)), 2)) and test.decision == 1


@pytest.mark.parametrize(("p", "decision"), [(0.05, 0), (0.0499, 1)])
def test_a_p_value_of_five_percent_decides_nothing(p: float, decision: int) -> None:
    """Three differences of deviation 1 whose mean has this p-value."""
    mean = stats.t.isf(p / 2, 2) / math.sqrt(3)
    given = Given({"a": np.array([[mean - 1, mean, mean + 1]]), "b": np.zeros((1, 3))})
    assert judge([BETTER], given)[0].decision == decision


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
        (2.38, 2.5, "outside"),
        (2.374, 2.5, "within"),  # 2.37 may be 2.3749
        (1.0, 2.36, "outside"),
    ],
)
def test_the_words_for_a_papers_number(low: float, high: float, word: str) -> None:
    assert paper_word(2.37, 0.005, low, high) == word


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


def test_the_bootstrap_is_scipys() -> None:
    """Units of one scored position each; scipy takes its own draws."""
    counts = np.stack([RNG.normal(2.0, 0.1, 40), np.ones(40)], axis=1)
    drawn = stats.bootstrap((counts[:, 0],), np.mean, method="percentile", rng=np.random.default_rng(7))
    expected = tuple(drawn.confidence_interval)
    assert bootstrap(counts, mean_loss) == pytest.approx(expected, abs=0.15 * drawn.standard_error)
