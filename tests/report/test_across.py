"""How often a gate beats no gate: against a naive computation, and how often its interval covers the truth."""

from pathlib import Path

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from highway.config.compose import experiment
from highway.dashboard.mirror import tags
from highway.report.across import (
    EXPLAINED,
    Pair,
    across,
    binomial_interval,
    gate_of,
    improvement,
    probability_of_improvement,
)
from highway.report.collect import collect
from highway.report.style import PLAIN, gate_colour
from tests.support.tables import TABLE, put

pytestmark = pytest.mark.usefixtures("no_published_records")


def test_the_share_of_wins_is_counted_pair_by_pair() -> None:
    rng = np.random.default_rng(0)
    row, base = rng.integers(0, 5, 4).astype(float), rng.integers(0, 5, 3).astype(float)
    wins = sum(1.0 if ours > other else 0.5 if ours == other else 0.0 for ours in row for other in base)
    assert probability_of_improvement(row, base) == pytest.approx(wins / 12)
    assert probability_of_improvement(np.array([-np.inf]), base) == 0


def test_tables_count_the_same_and_so_do_rows_of_a_table() -> None:
    found = [Pair("a", "1", "sdu", 1.0, 3), Pair("a", "2", "sdu", 0.0, 3), Pair("b", "1", "sdu", 1.0, 3)]
    whole = improvement(found)
    assert whole.probability == pytest.approx((0.5 + 1) / 2) and (whole.tables, whole.rows) == (2, 3)
    expected = proportion_confint(4.5, 6, 0.05, method="beta")
    assert (whole.low, whole.high) == pytest.approx(expected), "two tables of three seeds"


def test_a_section_tells_of_any_gate_of_each_gate_and_of_each_table(tmp_path: Path) -> None:
    for row, value in (("baseline", 1.5), ("tanh", 1.4), ("sigmoid", 1.6)):
        put(tmp_path, row, 1, value, "mini")
    (section,) = across(collect(TABLE, budget, tmp_path) for budget in ("mini", "paper"))
    assert (section.key, section.title) == ("across-mini", "How often a gate beats no gate (mini)")
    note, grid = section.blocks
    assert note.sentences[0] == (EXPLAINED,)  # type: ignore[union-attr]
    expected = []
    for name, rows, won in (
        ("any gate", 2, 0.5),
        ("sdu sigmoid", 1, 0.0),
        ("sdu tanh", 1, 1.0),
        ("highway_t1", 2, 0.5),
    ):
        low, high = binomial_interval(won, 1)
        expected.append([name, "1", str(rows), f"{won:.2f}", f"{low:.2f} … {high:.2f}"])
    assert [[str(cell) for cell in row.cells] for row in grid.rows] == expected  # type: ignore[union-attr]


def test_a_gate_on_no_layer_is_no_gate() -> None:
    released = ["model=transformer_xl", "dataset=enwik8", "gate=sdu_tanh", "layers=l3-6"]
    none = experiment([*released, "layers.as_released=true"])
    assert gate_of(experiment(released)) == "sdu tanh" and not gate_of(none)
    assert gate_colour(none) == PLAIN and "no gate" in tags(none, None, "row")
    assert not gate_of(experiment(["gate=none"]))
    both = ["model=encoder_decoder", "dataset=iwslt_pt_en", "gate=g1", "gate.residual=sdu", "layers=all"]
    assert gate_of(experiment(both)) == "sdu sigmoid + gated tanh"
