"""How many seeds would decide a claim: against simulation, and in words."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import optimize, stats
from statsmodels.stats.power import TTestPower

from highway.config.metrics import METRICS
from highway.report.claims import contrasts_of, decide, judge_claims
from highway.report.collect import collect
from highway.report.formats import to_markdown
from highway.report.model import Array, contrast_deviations
from highway.report.power import (
    EXPLAINED,
    FAILED,
    MOST_SEEDS,
    NO_EFFECT,
    NO_SPREAD,
    NOT_DECIDABLE,
    SMOKE,
    UNRANKED,
    Trial,
    foresee,
    printed_effects,
    seeds_needed,
)
from highway.report.report import build_report
from highway.report.simulation import Simulated
from highway.report.verdicts import POWER, Records
from highway.sweep.reading import load_table
from highway.sweep.table import Claim, Table
from tests.support.tables import TABLE, put

ROWS = ("baseline", "sigmoid", "tanh")
BEATS = Claim("tanh beats no gate", "better", ("tanh",), ("baseline",), "test_bpc")


@pytest.fixture(autouse=True)
def _no_published_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")


def table_with(*claims: Claim) -> Table:
    return dataclasses.replace(TABLE, claims=claims)


def share_decided(claim: Claim, effects: list[float], seeds: int, word: int, count: int = 3000) -> float:
    """Return how often reports would give the verdict, by the rules that they use."""
    numbers = np.random.default_rng(seeds).normal(size=(count, len(ROWS), seeds)) + np.array(effects)[:, None]
    _, supported, refuted = judge_claims([claim], Simulated(ROWS, {}, {claim.metric: numbers}))
    return float((decide(supported, refuted) == word).mean())


def trial(*effects: float, own: bool = False) -> Trial:
    """Return the trial of pairs of rows of spread 1, in a table of one claim."""
    return Trial(np.array(effects), np.full(len(effects), np.sqrt(2)), np.full(len(effects), own), len(ROWS), 0.05 / 2)


@pytest.mark.parametrize("effect", [1.0, 2.0])
def test_a_claim_on_one_pair_needs_what_simulation_says(effect: float) -> None:
    seeds = trial(effect).seeds()
    assert seeds is not None and seeds > 3
    assert share_decided(BEATS, [0, 0, effect], seeds, 1) > 0.77
    assert share_decided(BEATS, [0, 0, effect], seeds - 1, 1) < 0.83
    assert share_decided(BEATS, [0, 0, effect], max(seeds - 3, 3), 1) < 0.8


def test_a_claim_on_two_pairs_needs_both_and_one_refutes() -> None:
    every = dataclasses.replace(BEATS, rows=("tanh", "sigmoid"))
    seeds, one = trial(1.5, 1.5).seeds(), trial(1.5).seeds()
    assert seeds is not None and one is not None and seeds > one
    assert 0.78 < share_decided(every, [0, 1.5, 1.5], seeds, 1) < 0.92, "Boole's bound is on the safe side"
    against = trial(-1.5, 1.5).seeds()
    assert against is not None and share_decided(every, [0, 1.5, -1.5], against, -1) == pytest.approx(0.8, abs=0.05)


def test_power_is_that_of_the_noncentral_t_test() -> None:
    for own, freedom in ((False, 8), (True, 4)):
        expected = stats.nct.sf(stats.t.isf(0.025, freedom), freedom, 2 / np.sqrt(2 / 5))
        assert trial(2, own=own).power(5) == pytest.approx(expected)
    paired = TTestPower().power(2 / np.sqrt(2), 5, 0.025, alternative="larger")
    assert trial(2, own=True).power(5) == pytest.approx(paired)
    assert trial(1e-9).seeds() is None
    assert trial(1e3).seeds() == 3, "no claim is decided with fewer"


def test_the_last_number_of_seeds_that_is_looked_at_is_a_thousand() -> None:
    """By scipy's root of the power at a thousand seeds; a little less takes one more, which is too many."""
    enough = optimize.brentq(lambda effect: trial(effect).power(MOST_SEEDS) - POWER, 0.01, 1)
    assert trial(enough * (1 + 1e-6)).seeds() == 1000
    assert trial(enough * (1 - 1e-6)).seeds() is None and trial(enough * (1 - 1e-6)).power(1001) > POWER


@pytest.mark.parametrize(
    ("table", "claim", "expected"),
    [
        ("highway_t1", Claim("", "better", ("tanh",), ("baseline",), "test_bpc"), 1.495 - 1.364),
        ("highway_t3", Claim("", "better", ("tanh",), ("baseline",), "test_ppl"), math.log(130.43 / 139.53)),
        ("hsg_t1", Claim("", "within", ("rhn_20",), ("hsg_20",), "test_ppl", share=0.01), math.log(1.01 * 62.9 / 63.2)),
        ("gated_resnet_t1", Claim("", "better", ("g1_e4h6",), ("t_e4h6",), "bleu"), 25.41 - 16.52),
    ],
)
def test_the_effect_that_a_paper_prints(tmp_path: Path, table: str, claim: Claim, expected: float) -> None:
    records = Records(collect(load_table(table), "paper", tmp_path))
    found = printed_effects(claim, records, contrasts_of(claim, records.rows))
    assert found is not None and found.tolist() == pytest.approx([expected])


def naive_seeds(effect: float, deviation: float, rows: int, level: float) -> int:
    """Return the least number of seeds for which the t-test of a pair has 80 % power, by trying each."""
    for seeds in range(3, 1000):
        freedom = (rows - 1) * (seeds - 1)
        if stats.nct.sf(stats.t.isf(level, freedom), freedom, effect / deviation * math.sqrt(seeds)) >= 0.8:
            return seeds
    raise AssertionError


def test_seeds_for_perplexities_are_counted_on_logarithms(tmp_path: Path) -> None:
    """Rows that are not in the paper add nothing to the degrees of freedom."""
    words = load_table("highway_t3")
    claim = Claim("tanh is worse", "better", ("baseline",), ("tanh",), "test_ppl")
    table = dataclasses.replace(words, claims=(claim, dataclasses.replace(claim, text="again")))
    ours = {"baseline": (127.0, 131.0, 125.0), "tanh": (135.0, 130.0, 131.0)}
    for row, values in ours.items():
        for seed, value in enumerate(values, 1):
            metrics = {"test_ppl": {"best": value, "last": 1.0}}
            put(tmp_path, row, seed, 1.0, table=words, metrics=metrics)
    apart = np.diff(np.log([ours["baseline"], ours["tanh"]]), axis=0)
    effect, extra = math.log(139.53 / 130.43), sum(row.extra for row in table.rows)
    expected = naive_seeds(effect, apart.std(ddof=1), rows=3, level=0.05 / 4)
    assert expected != naive_seeds(effect, apart.std(ddof=1), rows=extra, level=0.05 / 4)
    largest = apart.std(ddof=1) * math.sqrt(2 / stats.chi2.ppf(0.1, 2))
    bound = naive_seeds(effect, largest, rows=3, level=0.05 / 4)
    said = f"about {expected} seeds, up to {bound} (the paper's gap: {math.expm1(effect):+.1%})"
    assert bound < 100 and seeds_needed(collect(table, "paper", tmp_path))[claim] == said


def test_no_spread_is_below_the_resolution_of_a_perplexity(tmp_path: Path) -> None:
    """Half a unit of the last digit of 1.3: the paper's difference of 0.13 of 130 is 0.26 of the spread."""
    claim = Claim("sigmoid is better", "better", ("sigmoid",), ("baseline",), "test_ppl")
    table = dataclasses.replace(load_table("highway_t3"), claims=(claim,))
    for row in ("baseline", "sigmoid"):
        for seed in (1, 2, 3):
            put(tmp_path, row, seed, 1.0, table=table, metrics={"test_ppl": {"best": 1.3, "last": 1.0}})
    spread = 0.5 * 10.0 ** -METRICS["test_ppl"].digits / 1.3
    expected = naive_seeds(math.log(130.43 / 130.3), spread * math.sqrt(2), rows=3, level=0.05 / 2)
    said = f"about {int(float(f'{expected:.2g}'))} seeds, perhaps over 1,000 (the paper's gap: +0.1%)"
    assert expected % 10 and seeds_needed(collect(table, "paper", tmp_path))[claim] == said


def test_the_deviation_of_a_pair_is_pooled_unless_a_row_is_wide() -> None:
    values = np.random.default_rng(0).normal(size=(1, 3, 4))
    residuals = values[0] - values[0].mean(1, keepdims=True) - values[0].mean(0) + values[0].mean()
    expected = np.sqrt(2 * np.square(residuals).sum() / 6)
    pairs, degrees = np.array([[1.0, -1, 0], [0, 1, -1]]), list[list[float]]()

    def measured(values: Array, floor: float = 0.0) -> tuple[list[float], list[bool]]:
        rows = np.pad(pairs, ((0, 1), (0, values.shape[1] - 3)))
        rows[2, [0, -1]] = (1, -1)
        found = contrast_deviations(values, rows, floor)
        assert found is not None
        degrees.append(found[1].tolist())
        return found[0].tolist(), found[2].tolist()

    assert measured(values)[0] == pytest.approx([expected] * 3)
    assert measured(values, floor=9.0)[0] == pytest.approx([9 * np.sqrt(2)] * 3)
    failed = np.concatenate([values, np.full((1, 1, 4), -np.inf)], axis=1)
    assert measured(failed) == (pytest.approx([expected] * 3), [False] * 3)
    wide = np.concatenate([values, 1000 * np.array([[[1.0, -1, 2, 0]]])], axis=1)
    own = (values[0, 0] - wide[0, 3]).std(ddof=1)
    assert measured(wide) == (pytest.approx([expected, expected, own]), [False, False, True])
    apart = np.full((1, 4, 16), np.nan)  # seeds that no two rows share: Welch's deviation
    for row in range(4):
        apart[0, row, 4 * row : 4 * row + 4] = wide[0, row]
    welch = np.sqrt(values[0, 0].var(ddof=1) + wide[0, 3].var(ddof=1))
    assert measured(apart)[0][2] == pytest.approx(welch)
    satterthwaite = stats.ttest_ind(values[0, 0], wide[0, 3], equal_var=False).df
    assert degrees[0] == [6, 6, 6] and degrees[3] == [6, 6, 3] and degrees[4] == [9, 9, pytest.approx(satterthwaite)]
    assert contrast_deviations(values[:, :, :1], pairs, 0.0) is None


def test_words(tmp_path: Path) -> None:
    """The paper prints 1.495 without a gate and 1.364 with tanh; sigmoid has 1.371."""
    close = dataclasses.replace(BEATS, than=("sigmoid",))
    wrong = dataclasses.replace(BEATS, rows=("baseline",), than=("tanh",))
    sooner = dataclasses.replace(BEATS, kind="sooner", metric="valid_loss")
    order = Claim("unrelated", "unrelated", ROWS, (), "test_bpc", to="valid_loss")
    table = table_with(BEATS, close, wrong, sooner, order)
    assert seeds_needed(collect(table, "paper", tmp_path))[BEATS] == NO_SPREAD
    for row, values in {"baseline": (1.5, 1.6, 1.4), "tanh": (1.41, 1.39, 1.5)}.items():
        for seed, value in enumerate(values, 1):
            put(tmp_path, row, seed, value)
    needed = seeds_needed(collect(table, "paper", tmp_path))
    assert needed[BEATS].startswith("about ") and needed[BEATS].endswith(" (the paper's gap: +0.131)")
    assert needed[wrong] == needed[BEATS].replace(" (", " to refute it (").replace("+", "-")
    assert needed[close] == f"{NOT_DECIDABLE} (the paper's gap: +0.007)"
    assert needed[sooner] == NO_EFFECT and "rows" in needed[order]
    text = to_markdown(build_report(collect(table, "paper", tmp_path)))
    assert EXPLAINED[1:] in text and f"| {needed[BEATS]} |" in text


def test_a_decided_claim_needs_no_seeds(tmp_path: Path) -> None:
    for row, mean in {"baseline": 1.5, "tanh": 1.4}.items():
        for seed, rest in enumerate((-0.001, 0.0, 0.0015), 1):
            put(tmp_path, row, seed, mean + rest * (1 if row == "tanh" else 1.5))
    other = dataclasses.replace(BEATS, text="other", rows=("baseline",), than=("tanh",), metric="valid_loss")
    far = dataclasses.replace(BEATS, text="open", rows=("sigmoid",), than=("highway",))
    report = build_report(collect(table_with(BEATS, other, far), "paper", tmp_path))
    assert [verdict.word for verdict in report.verdicts] == ["supported", "refuted", "not run"]
    lines = [line for line in to_markdown(report).splitlines() if "**" in line and line.startswith("| ")]
    assert [line.endswith("| decided |") for line in lines] == [True, True, False]


def test_plan_says_it_and_smoke_runs_say_why_not(tmp_path: Path) -> None:
    console = Console(record=True, width=200)
    table = table_with(BEATS)
    foresee([(table_with(), "paper", ()), (table, "paper", ()), (table, "smoke", ())], tmp_path, console)
    said = console.export_text().splitlines()
    assert said == [f"highway_t1, paper. {EXPLAINED}", f"  {BEATS.text}: {NO_SPREAD}", f"highway_t1: {SMOKE}"]
    put(tmp_path, "baseline", 1, 1.5, budget="smoke")
    text = to_markdown(build_report(collect(table, "smoke", tmp_path)))
    assert SMOKE in text and BEATS.text in text


def test_a_plan_prints_texts_as_they_are(tmp_path: Path) -> None:
    """No markup, no colours, and lines as long as they are; smoke ends no list of tables."""
    claim = dataclasses.replace(BEATS, text="[bold]tanh[/bold] beats 1.5 and 'none' at http://a.b")
    console = Console(record=True, width=20, force_terminal=True, color_system="truecolor")
    foresee([(TABLE, "smoke", ()), (table_with(claim), "paper", ())], tmp_path, console)
    expected = [f"highway_t1: {SMOKE}", f"highway_t1, paper. {EXPLAINED}", f"  {claim.text}: {NO_SPREAD}"]
    assert console.export_text(styles=True).splitlines() == expected


@pytest.mark.parametrize(("claims", "seeds"), [(1, 5), (6, 5), (7, 6), (10, 6)])
def test_where_runs_failed_ranks_say_how_many_seeds_decide(tmp_path: Path, claims: int, seeds: int) -> None:
    """With one seed less not even the clearest ranks give a verdict."""
    table = table_with(BEATS, *(dataclasses.replace(BEATS, text=str(number)) for number in range(1, claims)))
    put(tmp_path, "tanh", 1, 1.4)
    put(tmp_path, "baseline", 1, math.nan, status="diverged")
    assert seeds_needed(collect(table, "paper", tmp_path))[BEATS] == f"at least {seeds} {FAILED}"
    for count in range(1, seeds + 1):
        put(tmp_path, "tanh", count, 1.4 + count / 100)
        put(tmp_path, "baseline", count, 1.5, status="finished" if count % 2 else "diverged")
        if count >= 3:
            word = build_report(collect(table, "paper", tmp_path)).verdicts[0].word
            assert word == ("supported" if count == seeds else "undecided")


def test_no_number_of_seeds_where_ranks_have_no_test(tmp_path: Path) -> None:
    """Neither a growth over two baselines nor a row within a share of another has ranks."""
    pair = {"rows": ("tanh",), "than": ("baseline",), "metric": "test_bpc"}
    growth = Claim("the gain grows", "growing", ("sigmoid", "tanh"), ("tanh", "baseline"), "test_bpc")
    within = Claim("within 1 %", "within", **pair, share=0.01)
    put(tmp_path, "baseline", 1, 1.5)
    table = table_with(growth, within, Claim("better", "better", **pair))
    assert set(seeds_needed(collect(table, "paper", tmp_path)).values()) == {NO_SPREAD}
    put(tmp_path, "tanh", 1, math.nan, status="diverged")
    needed = [*seeds_needed(collect(table, "paper", tmp_path)).values()]
    assert needed == [UNRANKED, UNRANKED, f"at least 5 {FAILED}"]
