"""How many seeds would decide a claim: against simulation, and in words."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats
from statsmodels.stats.power import TTestPower

from highway.report.claims import decide, judge_claims
from highway.report.collect import collect
from highway.report.formats import to_markdown
from highway.report.power import (
    EXPLAINED,
    FAILED,
    NO_EFFECT,
    NO_SPREAD,
    NOT_DECIDABLE,
    SMOKE,
    Trial,
    foresee,
    seeds_needed,
)
from highway.report.report import build_report
from highway.report.simulation import Simulated
from highway.sweep.reading import load_table
from highway.sweep.table import Claim, Table
from tests.support.tables import TABLE, put

pytestmark = pytest.mark.usefixtures("no_published_records")

ROWS = ("baseline", "sigmoid", "tanh")
BEATS = Claim("tanh beats no gate", "better", ("tanh",), ("baseline",), "test_bpc")


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


def naive_seeds(effect: float, deviation: float, rows: int, level: float) -> int:
    """Return the least number of seeds for which the t-test of a pair has 80 % power, by trying each."""
    for seeds in range(3, 1000):
        freedom = (rows - 1) * (seeds - 1)
        if stats.nct.sf(stats.t.isf(level, freedom), freedom, effect / deviation * math.sqrt(seeds)) >= 0.8:
            return seeds
    raise AssertionError


def test_seeds_for_perplexities_are_counted_on_logarithms(tmp_path: Path) -> None:
    words = load_table("highway_t3")
    claim = Claim("tanh is worse", "better", ("baseline",), ("tanh",), "test_ppl")
    table = dataclasses.replace(words, claims=(claim, dataclasses.replace(claim, text="again")))
    ours = {"baseline": (127.0, 131.0, 125.0), "tanh": (135.0, 130.0, 131.0)}
    for row, values in ours.items():
        for seed, value in enumerate(values, 1):
            put(tmp_path, row, seed, 1.0, table=words, metrics={"test_ppl": {"best": value, "last": 1.0}})
    deviation = np.diff(np.log([ours["baseline"], ours["tanh"]]), axis=0).std(ddof=1)
    effect = math.log(139.53 / 130.43)
    expected = naive_seeds(effect, deviation, rows=3, level=0.05 / 4)
    bound = naive_seeds(effect, deviation * math.sqrt(2 / stats.chi2.ppf(0.1, 2)), rows=3, level=0.05 / 4)
    said = f"about {expected} seeds, up to {bound} (the paper's gap: {math.expm1(effect):+.1%})"
    assert seeds_needed(collect(table, "paper", tmp_path))[claim] == said


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
    for seed, rest in enumerate((-0.001, 0.0, 0.0015), 1):
        put(tmp_path, "baseline", seed, 1.5 + 1.5 * rest)
        put(tmp_path, "tanh", seed, 1.4 + rest)
    far = dataclasses.replace(BEATS, text="open", rows=("sigmoid",), than=("highway",))
    report = build_report(collect(table_with(BEATS, far), "paper", tmp_path))
    assert [verdict.word for verdict in report.verdicts] == ["supported", "not run"]
    lines = [line for line in to_markdown(report).splitlines() if "**" in line and line.startswith("| ")]
    assert [line.endswith("| decided |") for line in lines] == [True, False]


def test_plan_says_it_and_smoke_runs_say_why_not(tmp_path: Path) -> None:
    """The text of a claim is printed as it is: no markup, and a line as long as it is."""
    console = Console(record=True, width=20)
    claim = dataclasses.replace(BEATS, text="[bold]tanh[/bold] beats 1.5 and 'none' at http://a.b")
    table = table_with(claim)
    foresee([(table_with(), "paper", ()), (table, "paper", ()), (table, "smoke", ())], tmp_path, console)
    said = console.export_text().splitlines()
    assert said == [f"highway_t1, paper. {EXPLAINED}", f"  {claim.text}: {NO_SPREAD}", f"highway_t1: {SMOKE}"]
    put(tmp_path, "baseline", 1, 1.5, budget="smoke")
    text = to_markdown(build_report(collect(table, "smoke", tmp_path)))
    assert SMOKE in text and "beats 1.5" in text


@pytest.mark.parametrize(("claims", "seeds"), [(6, 5), (7, 6)])
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
