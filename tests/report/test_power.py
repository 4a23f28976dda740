"""How many seeds would decide a claim: against simulation, and in words."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from highway.report.claims import decide, judge_claims
from highway.report.collect import collect
from highway.report.formats import to_markdown
from highway.report.model import Array, contrast_deviations
from highway.report.power import EXPLAINED, NO_EFFECT, NO_SPREAD, NOT_DECIDABLE, SMOKE, Trial, foresee, seeds_needed
from highway.report.report import build_report
from highway.report.simulation import Simulated
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
    assert trial(1e-9).seeds() is None
    assert trial(1e3).seeds() == 3, "no claim is decided with fewer"


def test_the_deviation_of_a_pair_is_pooled_unless_a_row_is_wide() -> None:
    values = np.random.default_rng(0).normal(size=(1, 3, 4))
    residuals = values[0] - values[0].mean(1, keepdims=True) - values[0].mean(0) + values[0].mean()
    expected = np.sqrt(2 * np.square(residuals).sum() / 6)
    pairs = np.array([[1.0, -1, 0], [0, 1, -1]])

    def measured(values: Array, floor: float = 0.0) -> tuple[list[float], list[bool]]:
        rows = np.pad(pairs, ((0, 1), (0, values.shape[1] - 3)))
        rows[2, [0, -1]] = (1, -1)
        found = contrast_deviations(values, rows, floor)
        assert found is not None
        return found[0].tolist(), found[1].tolist()

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
    assert needed[BEATS].startswith("about ") and needed[BEATS].endswith(" seeds")
    assert needed[wrong] == f"{needed[BEATS]} (against it, as the paper's numbers are)"
    assert needed[close] == NOT_DECIDABLE or int(needed[close].split()[1]) > 100
    assert needed[sooner] == NO_EFFECT and "rows" in needed[order]
    text = to_markdown(build_report(collect(table, "paper", tmp_path)))
    assert EXPLAINED[1:] in text and f"| {needed[BEATS]} |" in text


def test_plan_says_it_and_smoke_runs_say_why_not(tmp_path: Path) -> None:
    console = Console(record=True, width=200)
    table = table_with(BEATS)
    foresee([(table_with(), "paper", ()), (table, "paper", ()), (table, "smoke", ())], tmp_path, console)
    said = console.export_text().splitlines()
    assert said == [f"highway_t1, paper. {EXPLAINED}", f"  {NO_SPREAD}: {BEATS.text}", f"highway_t1: {SMOKE}"]
    put(tmp_path, "baseline", 1, 1.5, budget="smoke")
    text = to_markdown(build_report(collect(table, "smoke", tmp_path)))
    assert SMOKE in text and BEATS.text in text


def test_a_plan_prints_texts_as_they_are(tmp_path: Path) -> None:
    """No markup, no colours, and lines as long as they are; smoke ends no list of tables."""
    claim = dataclasses.replace(BEATS, text="[bold]tanh[/bold] beats 1.5 and 'none' at http://a.b")
    console = Console(record=True, width=20, force_terminal=True, color_system="truecolor")
    foresee([(TABLE, "smoke", ()), (table_with(claim), "paper", ())], tmp_path, console)
    expected = [f"highway_t1: {SMOKE}", f"highway_t1, paper. {EXPLAINED}", f"  {NO_SPREAD}: {claim.text}"]
    assert console.export_text(styles=True).splitlines() == expected
