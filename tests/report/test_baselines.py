"""Rows beside their baselines."""

import math
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from highway.report.baselines import differences
from highway.report.collect import collect
from highway.report.content import build_report
from highway.tables.reading import load_table
from tests.support.tables import TABLE, XL, put

pytestmark = pytest.mark.usefixtures("no_published_records")


def test_a_difference_takes_all_runs_of_both_rows(tmp_path: Path) -> None:
    """One run of a row shows a size and no interval; rows need neither the same seeds nor as many runs."""
    for seed, value in enumerate((1.50, 1.52, 1.51, 1.53), 1):
        put(tmp_path, "baseline", seed, value)
    put(tmp_path, "tanh", 7, 1.4)
    (pair,) = differences(collect(TABLE, "paper", tmp_path)).values()
    assert (pair.row.id, pair.runs, str(pair)) == ("tanh", 1, "-0.115 (one run)")
    assert pair.in_words == "+ tanh SDU is better than T-L3 by 0.115 (1 run)"
    put(tmp_path, "tanh", 8, 1.42)
    (pair,) = differences(collect(TABLE, "paper", tmp_path)).values()
    low, high = stats.ttest_ind((1.4, 1.42), (1.50, 1.52, 1.51, 1.53), equal_var=False).confidence_interval()
    assert pair.size is not None and (pair.size.low, pair.size.high) == pytest.approx((low, high))
    assert str(pair) == f"-0.105 ({low:+.3f} … {high:+.3f})" and pair.magnitude == "0.105" and pair.runs == 2


def test_rows_of_which_a_run_failed_have_no_difference(tmp_path: Path) -> None:
    put(tmp_path, "baseline", 1, 1.5)
    put(tmp_path, "tanh", 1, 1.4)
    put(tmp_path, "tanh", 2, 1.4, status="diverged")
    collected = collect(TABLE, "paper", tmp_path)
    (pair,) = differences(collected).values()
    assert (str(pair), pair.magnitude, pair.in_words) == ("—", "", "")
    assert "—: a run of the row or its baseline failed." in build_report(collected).results.note


def test_a_time_beside_other_work_is_no_difference(tmp_path: Path) -> None:
    timed: dict[str, Any] = {"metrics": {"train_seconds": {"best": 9.0, "last": 9.0}}, "cost": {"exclusive": False}}
    claim = TABLE.claims[0].model_copy(update={"metric": "train_seconds"})
    for row in ("tanh", "baseline"):
        put(tmp_path, row, 1, 1.4, **timed)
    assert differences(collect(TABLE.model_copy(update={"claims": [claim]}), "paper", tmp_path)) == {}


def test_perplexities_differ_by_a_share(tmp_path: Path) -> None:
    words = load_table("highway_t3")
    for row, value in (("baseline", 60.0), ("tanh", 66.0)):
        put(tmp_path, row, 1, 4.0, table=words, metrics={"test_ppl": {"best": value, "last": value}})
    (pair,) = differences(collect(words, "paper", tmp_path)).values()
    assert pair.size is not None and pair.size.value == pytest.approx(0.1) and math.isnan(pair.size.low)
    assert (str(pair), pair.magnitude) == ("+10.0 % (one run)", "10.0 %")


def test_rows_that_are_the_same_runs_are_not_compared(tmp_path: Path) -> None:
    """A gate that the released code applies to no layer makes such rows."""
    put(tmp_path, "baseline", 1, 1.5, table=XL)
    put(tmp_path, "tanh", 1, 1.4, table=XL)
    collected = collect(XL, "paper", tmp_path)
    assert sum(len(runs) for runs in collected.samples.values()) > 2, "a row of the table has the baseline's runs"
    assert [*differences(collected)] == ["tanh"]
