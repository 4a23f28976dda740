"""Verdicts on claims, and the paper's numbers, from records that the tests write."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats

from highway.cards.metrics import METRICS
from highway.report.collect import Collected, collect
from highway.report.content import build_report
from highway.report.details import details
from highway.report.render import to_markdown
from highway.report.table_block import Line
from highway.report.verdicts import Verdict, counted_numbers, paper_verdicts, tone, verdicts
from highway.tables.reading import load_table, parse_table, table_ids
from highway.tables.table import Table
from tests.support.tables import TABLE, TRANSLATION, XL, content, put

pytestmark = pytest.mark.usefixtures("no_published_records")

BASELINE = (1.49, 1.50, 1.51)  # the paper has 1.495
ORDERED = {"better": "tanh", "than": "baseline"}


def every_run(collected: Collected) -> tuple[Line, ...]:
    """Return the lines of the table of all runs."""
    return next(grid.lines for grid in details(collected) if grid.title == "Every run")


def table_of(*claims: dict[str, Any], **changes: Any) -> Table:
    """Return highway_t1 with these claims."""
    rows = [{"id": row.id, "label": row.label, "overrides": list(row.overrides)} for row in TABLE.rows[:3]]
    settings = {"recipe": list(TABLE.recipe), "columns": [{"metric": "test_bpc"}, {"metric": "valid_loss"}]}
    texts = [{"text": str(number), "metric": "test_bpc", **claim} for number, claim in enumerate(claims)]
    claims_of = parse_table(content(**settings, rows=rows, claims=texts)).claims
    return TABLE.model_copy(update={"claims": claims_of, **changes})


def write(outputs: Path, budget: str = "paper", **rows: Any) -> None:
    """Write a record for each value of each row, from seed 1 on."""
    for row, values in rows.items():
        for seed, value in enumerate(values, 1):
            put(outputs, row, seed, value, budget)


def judged(outputs: Path, *claims: dict[str, Any], budget: str = "paper", **changes: Any) -> list[Verdict]:
    collected = collect(table_of(*claims, **changes), budget, outputs)
    return verdicts(collected, paper_verdicts(collected))


@pytest.mark.parametrize(
    ("tanh", "word", "next_look"),
    [
        ((), "not run", 0),
        ((1.4,), "one run", 0),
        ((1.400, 1.401), "undecided", 3),
        ((1.40, 1.41, 1.42), "supported", 0),
        ((1.60, 1.61, 1.62), "refuted", 0),
        ((1.40, 1.60, 1.49), "undecided", 5),
        ((1.40, 1.60, 1.49, 1.49), "undecided", 5),
        ((1.40, 1.60, 1.49, 1.49, 1.48), "undecided", 0),
    ],
)
def test_words_at_paper_budget(tmp_path: Path, tanh: tuple[float, ...], word: str, next_look: int) -> None:
    """There are two looks, at three and at five runs of each row; one run has no verdict and no tick."""
    write(tmp_path, baseline=(*BASELINE, 1.50, 1.50)[: max(3, len(tanh))], tanh=tanh)
    (verdict,) = judged(tmp_path, ORDERED)
    assert (verdict.word, verdict.next_look) == (word, next_look)
    assert str(verdict) == (f"{word}; next at {next_look} runs" if next_look else word)
    assert tone(verdict.word) == {"refuted": "against", "supported": "for"}.get(word, "open")


def test_rows_need_no_seed_in_common(tmp_path: Path) -> None:
    for seed, value in enumerate(BASELINE, 1):
        put(tmp_path, "baseline", seed, value)
        put(tmp_path, "tanh", seed + 3, value - 0.1)
    (verdict,) = judged(tmp_path, ORDERED)
    assert verdict.word == "supported"


def test_the_first_runs_by_seed_number_are_looked_at(tmp_path: Path) -> None:
    """A sixth run, and a fourth of one row alone, change the interval and no verdict."""
    write(tmp_path, baseline=BASELINE, tanh=(1.40, 1.41, 1.42))
    (before,) = judged(tmp_path, ORDERED)
    put(tmp_path, "tanh", 4, 1.9)
    (after,) = judged(tmp_path, ORDERED)
    assert (before.word, after.word) == ("supported", "supported")
    assert before.detail.partition(", p ")[2] == after.detail.partition(", p ")[2] and before.detail != after.detail


def test_a_row_with_one_run_leaves_its_claim_without_a_verdict(tmp_path: Path) -> None:
    write(tmp_path, baseline=BASELINE, tanh=(1.62, 1.61, 1.63), sigmoid=(1.2,))
    (verdict,) = judged(tmp_path, {"better": ["tanh", "sigmoid"], "than": "baseline"})
    assert (verdict.word, verdict.detail) == ("one run", "")


def test_the_evidence_has_the_interval_and_the_p_value_of_one_test(tmp_path: Path) -> None:
    """In the direction in which the report compares the rows elsewhere, whatever the claim says."""
    tanh, other = np.array((1.40, 1.42, 1.41)), {**ORDERED, "better": "sigmoid"}
    write(tmp_path, baseline=BASELINE, tanh=tanh)
    test = stats.ttest_ind(tanh, BASELINE, equal_var=False)
    low, high = test.confidence_interval()
    size = tanh.mean() - np.mean(BASELINE)
    for claim, word in ((ORDERED, "supported"), ({"better": "baseline", "than": "tanh"}, "refuted")):
        verdict, _ = judged(tmp_path, claim, other)
        expected = f"+ tanh SDU against T-L3: {size:+.3f} ({low:+.3f} … {high:+.3f}), p {2 * 2 * test.pvalue:.3f}"
        assert (verdict.word, verdict.detail) == (word, expected), "corrected for two looks and the claim not run"
    report = build_report(collect(table_of(ORDERED), "paper", tmp_path))
    (difference,) = report.differences.values()
    assert difference.size is not None and difference.runs == 3
    assert (difference.size.value, difference.size.low, difference.size.high) == pytest.approx((size, low, high))
    assert str(difference) == f"{size:+.3f} ({low:+.3f} … {high:+.3f})"


@pytest.mark.parametrize(
    ("shift", "word"),
    [
        (0, "supported"),
        (0.2, "same ordering (baseline not reproduced)"),
        (-0.2, "same ordering (baseline not reproduced)"),
    ],
)
def test_a_claim_is_supported_only_if_its_baseline_is_at_the_papers_level(
    tmp_path: Path, shift: float, word: str
) -> None:
    write(tmp_path, baseline=[shift + value for value in BASELINE], tanh=(1.0, 1.01, 1.02), sigmoid=(1.0, 2.0, 3.0))
    reversed_ = {"better": "sigmoid", "than": "baseline"}
    verdict, undecided = judged(tmp_path, {**ORDERED, "metric": "valid_loss"}, reversed_)
    assert verdict.word == word, "the number on test counts, also for a claim on validation"
    assert undecided.word == "undecided"


def test_a_number_that_is_not_judged_asks_for_nothing(tmp_path: Path) -> None:
    """Those of copied and disputed rows, and times."""
    write(tmp_path, baseline=(2.0, 2.01, 2.02), tanh=(1.40, 1.41, 1.42))
    for name in ("copied", "disputed"):
        rows = [row.model_copy(update={name: "elsewhere"}) for row in TABLE.rows]
        assert judged(tmp_path, ORDERED, rows=rows)[0].word == "supported"
    for row, factor in (("baseline", 2.0), ("tanh", 1.0)):
        for seed in (1, 2, 3):
            seconds = {"train_seconds": {"best": factor * (9 + seed / 100), "last": 0.0}}
            put(tmp_path, row, seed, 1.4, metrics=seconds)
    timed = {"better": "tanh", "than": "baseline", "metric": "train_seconds"}
    assert judged(tmp_path, timed)[0].word == "supported"
    put(tmp_path, "tanh", 4, 1.4, status="diverged")
    (verdict,) = judged(tmp_path, timed)
    assert verdict.word == "supported" and "has learned" not in verdict.detail, "a run that diverged has no time"


def test_data_that_differ_leave_their_claim_without_weight_in_the_correction(tmp_path: Path) -> None:
    """It is tested no more than one that has not run."""
    write(tmp_path, baseline=BASELINE, sigmoid=(1.44, 1.45, 1.46), tanh=(1.0, 1.001, 1.002))
    two = ({**ORDERED, "better": "sigmoid"}, ORDERED)
    (alone,) = judged(tmp_path, two[0])
    (_, other) = judged(tmp_path, *two)
    assert other.word == "supported"
    data = {"source": "files", "sha256": {"train": "b"}, "vocabulary_sha256": "v", "counting_loss": 99.0}
    for seed in (1, 2, 3):
        put(tmp_path, "tanh", seed, 1.0 + seed / 1000, data=data)
    first, second = judged(tmp_path, *two)
    assert second.word == "not comparable"
    ps = [float(each.detail.rpartition("p ")[2]) for each in (first, alone)]
    assert ps[0] == pytest.approx(2 * ps[1], abs=0.001)


def test_the_baseline_of_a_pair_is_the_row_with_which_the_table_compares_the_other(tmp_path: Path) -> None:
    """Baseline is within, tanh is not: of two rows of which neither is a baseline, the second counts."""
    write(tmp_path, baseline=BASELINE, tanh=(1.0, 1.01, 1.02), sigmoid=(0.8, 0.81, 0.82))
    claims = [ORDERED, {"better": "baseline", "than": "tanh"}, {"better": "sigmoid", "than": "tanh"}]
    words = [verdict.word for verdict in judged(tmp_path, *claims)]
    assert words == ["supported", "refuted", "same ordering (baseline not reproduced)"]


def test_below_paper_budget_there_are_orderings_only(tmp_path: Path) -> None:
    write(tmp_path, "mini", baseline=BASELINE, tanh=(1.4, 1.41, 1.42), sigmoid=(1.5, 1.52, 1.51))
    write(tmp_path, "smoke", baseline=BASELINE, tanh=(1.4, 1.41, 1.42))
    claims = [ORDERED, {"better": "baseline", "than": "tanh"}, {"better": "sigmoid", "than": "baseline"}]
    words = [verdict.word for verdict in judged(tmp_path, *claims, budget="mini")]
    assert words == ["same ordering (mini)", "other ordering (mini)", "undecided (mini)"]
    assert [tone(word) for word in words] == ["for", "against", "open"]
    own = [verdict.word for verdict in judged(tmp_path, *claims, budget="mini", paper="")]
    assert own == ["better", "worse", "undecided"], "a table of one's own"
    assert judged(tmp_path, *claims, budget="smoke") == []


def test_a_claim_without_its_runs_says_why(tmp_path: Path) -> None:
    """Nothing is said of rows that have not run. A time counts only if nothing else ran beside it."""
    timed = {"better": "tanh", "than": "baseline", "metric": "train_seconds"}
    put(tmp_path, "tanh", 1, 1.4)
    assert [verdict.word for verdict in judged(tmp_path, ORDERED, timed)] == ["not run", "not run"]
    for row in ("tanh", "baseline"):
        put(tmp_path, row, 1, 1.4, metrics={"train_seconds": {"best": 9.0, "last": 9.0}}, cost={"exclusive": False})
    ordered, of_time = judged(tmp_path, ORDERED, timed)
    assert (of_time.word, ordered.word) == ("no number that counts", "one run")
    page = to_markdown(build_report(collect(table_of(ORDERED, timed), "paper", tmp_path)))
    assert page.count("Times count only where nothing else ran.") == 1


def test_generated_data_stand_in_the_word(tmp_path: Path) -> None:
    data = {"source": "sample", "sha256": {"train": "a"}, "vocabulary_sha256": "v", "counting_loss": 99.0}
    for row, values in {"tanh": (1.40, 1.41, 1.42), "baseline": BASELINE}.items():
        for seed, value in enumerate(values, 1):
            put(tmp_path, row, seed, value, data=data)
    (verdict,) = judged(tmp_path, ORDERED)
    assert verdict.word == "same ordering (paper, sample data)"


def test_the_floor_of_a_metric_is_half_of_what_it_resolves(tmp_path: Path) -> None:
    """A unit of the last digit, relative to the median on a logarithmic scale, or one example of the largest set."""
    data = {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "v", "counting_loss": 99.0}
    accuracy = {"valid_accuracy": {"best": 0.5, "last": 0.5}}
    for seed, value in enumerate((1.0, 2.0, 8.0), 1):
        sizes = {"symbols": {"valid": 10 * seed}} if seed < 3 else {}
        put(tmp_path, "tanh", seed, value, data={**data, **sizes}, metrics=accuracy)
    put(tmp_path, "tanh", 4, 99.0, status="diverged")  # a failed run does not count
    numbers = collect(TABLE, "paper", tmp_path).numbers
    digits = METRICS["test_bpc"].digits
    assert numbers.floor("test_bpc", log=False) == pytest.approx(10**-digits / 2)
    assert numbers.floor("test_bpc", log=True) == pytest.approx(10**-digits / 2 / 2.0)
    assert numbers.floor("valid_accuracy", log=False) == pytest.approx(1 / 20 / 2)


def test_all_pairs_have_to_hold_and_one_refutes(tmp_path: Path) -> None:
    every = {"better": ["tanh", "sigmoid"], "than": "baseline"}
    for sigmoid, word in ((BASELINE, "undecided"), ((1.41, 1.40, 1.42), "supported"), ((1.6, 1.61, 1.62), "refuted")):
        write(tmp_path, baseline=BASELINE, tanh=(1.40, 1.41, 1.42), sigmoid=sigmoid)
        (verdict,) = judged(tmp_path, every)
        assert verdict.word == word
        assert verdict.detail.startswith("+ sigmoid SDU against T-L3") or word == "supported"


def test_growth_is_tested_step_by_step(tmp_path: Path) -> None:
    """Each gain is compared with the one before: sigmoid over tanh by more than tanh over the baseline."""
    growth = {"growing": ["tanh", "sigmoid"], "than": ["baseline", "tanh"]}
    for sigmoid, word in (((1.20, 1.21, 1.22), "same ordering"), ((1.44, 1.45, 1.46), "other ordering")):
        write(tmp_path, baseline=(1.49, 1.50, 1.51), tanh=(1.42, 1.43, 1.44), sigmoid=sigmoid)
        (verdict,) = judged(tmp_path, growth)
        assert verdict.word == f"{word} (baseline not reproduced)", "tanh is one of its baselines"
        assert verdict.detail.startswith("gain of + sigmoid SDU against that of + tanh SDU")
    put(tmp_path, "sigmoid", 3, 1.4, status="diverged")
    (failed,) = judged(tmp_path, growth)
    assert (failed.word, failed.detail) == ("undecided", "+ sigmoid SDU has learned in 2 of 3 runs")


def test_at_most_a_share_compares_ratios(tmp_path: Path) -> None:
    claim = {"at_most": "tanh", "than": "baseline", "share": 0.04}
    for tanh, word in ((1.53, "supported"), (1.60, "refuted"), (1.56, "undecided")):
        write(tmp_path, baseline=(1.50, 1.501, 1.499), tanh=(tanh, tanh + 0.001, tanh - 0.001))
        (verdict,) = judged(tmp_path, claim)
        assert verdict.word == word
        size = f"{100 * (tanh / 1.5 - 1):+.1f} %"
        assert verdict.detail.startswith(f"+ tanh SDU against T-L3 (limit +4.0 %): {size} (")


def test_a_claim_on_convergence_compares_the_means_of_curves(tmp_path: Path) -> None:
    """In the first of two epochs tanh is lower by 1, in the second and on test the rows are equal."""
    for row, start in (("baseline", 3.0), ("tanh", 2.0)):
        for seed, value in enumerate(BASELINE, 1):
            put(tmp_path, row, seed, value, curve=[(50, start + value), (100, start + value), (200, value)])
    stretches = ["all", [1, 1], [2, 2], [1, 3]]
    claims = [{**ORDERED, "metric": "train_loss", "over": over} for over in stretches]
    every, first, second, longer, result = judged(tmp_path, *claims, ORDERED)
    assert (every.word, first.word, second.word, result.word) == ("supported", "supported", "undecided", "undecided")
    assert every.detail.startswith("+ tanh SDU against T-L3: -0.5000 (")
    assert (longer.word, longer.detail, tone(longer.word)) == ("not trained so long", "", "open")


@pytest.mark.parametrize(("failing", "word"), [(2, "undecided"), (5, "undecided"), (4, "supported")])
def test_failed_runs_are_counted_and_a_look_with_one_decides_nothing(tmp_path: Path, failing: int, word: str) -> None:
    """A fourth run that failed takes nothing back. Rows of which a run failed have no difference, and no mean."""
    clear = failing == 4
    for seed in range(1, 6):
        put(tmp_path, "baseline", seed, 1.5 + seed / 100)
        if seed == failing:
            put(tmp_path, "tanh", seed, 1.4, status="diverged")
        else:
            put(tmp_path, "tanh", seed, (1.4 if clear else 1.51) + seed / 1000)
    (verdict,) = judged(tmp_path, ORDERED, rows=[row.model_copy(update={"copied": "x"}) for row in TABLE.rows])
    assert (verdict.word, verdict.next_look) == (word, 0)
    assert verdict.detail.startswith("+ tanh SDU has learned in 4 of 5 runs") and (", p 0.0" in verdict.detail) == clear
    report = build_report(collect(table_of(), "paper", tmp_path))
    assert str(report.differences["tanh"]) == "—" and report.differences["tanh"].size is None
    texts = next(line.texts for line in report.results.lines if line.texts[0] == "+ tanh SDU")
    assert "4 of 5 (1 diverged)" in texts and any(" to " in text for text in texts)
    assert "Median (lowest to highest)" in report.results.note


def test_a_look_that_may_still_decide_is_announced_unless_a_run_failed(tmp_path: Path) -> None:
    write(tmp_path, baseline=BASELINE, tanh=BASELINE)
    assert judged(tmp_path, ORDERED)[0].next_look == 5
    put(tmp_path, "tanh", 4, 1.4, status="diverged")
    assert judged(tmp_path, ORDERED)[0].next_look == 0


def test_perplexities_are_compared_as_ratios(tmp_path: Path) -> None:
    """A claim, the table of differences and the change beside the numbers have one size, one interval and one p."""
    words = load_table("highway_t3")
    ppl = {"baseline": np.array((100.0, 110.0, 125.0)), "sigmoid": np.array((104.0, 113.0, 127.0))}
    for row, values in ppl.items():
        for seed, value in enumerate(values, 1):
            metrics = {name: {"best": value, "last": value} for name in ("test_ppl", "valid_ppl")}
            put(tmp_path, row, seed, 4.0, "mini", table=words, metrics=metrics)
    report = build_report(collect(words, "mini", tmp_path))
    test = stats.ttest_ind(np.log(ppl["sigmoid"]), np.log(ppl["baseline"]), equal_var=False)
    size = np.expm1(np.mean(np.log(ppl["sigmoid"] / ppl["baseline"])))
    low, high = np.expm1(test.confidence_interval())
    (difference,) = report.differences.values()
    assert difference.size is not None
    assert (difference.size.value, difference.size.low, difference.size.high) == pytest.approx((size, low, high))
    text = f"{100 * size:+.1f} % ({100 * low:+.1f} … {100 * high:+.1f})"
    assert str(difference) == text
    assert report.verdicts[0].detail.startswith(f"+ sigmoid SDU against T-L3: {text}, p ")


def test_rows_of_the_same_runs_do_not_differ(tmp_path: Path) -> None:
    """A gate that the released code applies to no layer makes such rows."""
    write(tmp_path, baseline=BASELINE, tanh=(1.47, 1.51, 1.48))
    (claim,) = table_of(ORDERED).claims
    copy = TABLE.row("baseline").model_copy(update={"id": "again"})
    claims = [claim.model_copy(update={"better": ["again"]}), claim]
    collected = collect(TABLE.model_copy(update={"rows": [*TABLE.rows, copy], "claims": claims}), "paper", tmp_path)
    same, _ = verdicts(collected, paper_verdicts(collected))
    assert str(same) == "same runs" and not same.detail
    assert [*build_report(collected).differences] == ["tanh"]


# Runs that have not learned


def test_a_run_must_be_below_counting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The loss of counting is that of the record, else that of the list. A run that equals it has not learned."""
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "reference")
    (tmp_path / "reference").mkdir()
    entry = {"form": "eos", "test": "t", "vocabulary": "v", "test_loss": 1.5}
    (tmp_path / "reference" / "counting.yaml").write_text(yaml.safe_dump([entry]))
    data = {
        "source": "files",
        "name": "penn_treebank",
        "form": "eos",
        "sha256": {"test": "t"},
        "vocabulary_sha256": "v",
    }
    for seed, value in enumerate((1.49, 1.5, 1.6), 1):
        put(tmp_path, "tanh", seed, value, data=data)
        put(tmp_path, "sigmoid", seed, value, data={**data, "counting_loss": 1.6})
    statuses = {line.texts[:2]: line.texts[2] for line in every_run(collect(TABLE, "paper", tmp_path))}
    bits = {loss: f"{loss / math.log(2):.4g}" for loss in (1.5, 1.6)}
    text = "worse than character frequencies ({}; this run {})"
    assert statuses["+ tanh SDU", "1"] == statuses["+ sigmoid SDU", "2"] == "finished"
    assert statuses["+ tanh SDU", "2"] == text.format(bits[1.5], bits[1.5])
    assert statuses["+ tanh SDU", "3"] == text.format(bits[1.5], bits[1.6])
    assert statuses["+ sigmoid SDU", "3"] == text.format(bits[1.6], bits[1.6])


def test_a_run_that_nothing_compares_with_counting_says_so(tmp_path: Path) -> None:
    """It counts as one that has learned. A diverged run failed anyway."""
    data = {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "v"}
    put(tmp_path, "tanh", 1, 1.4, data=data)
    put(tmp_path, "tanh", 2, 1.4)
    put(tmp_path, "tanh", 3, math.nan, data=data, status="diverged")
    collected = collect(TABLE, "paper", tmp_path)
    assert [line.texts[2] for line in every_run(collected)] == [
        "finished, not compared with counting",
        "finished",
        "diverged",
    ]
    assert "|+ tanh SDU|1.364|1.400 (1.400 to 1.400)|2 of 3 (1 diverged)|" in to_markdown(build_report(collected))


# The paper's numbers


def test_runs_that_learned_are_compared_with_the_paper_and_only_at_its_budget(tmp_path: Path) -> None:
    data = {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "v", "counting_loss": 5.0}
    values = (1.5, 1.6, 1.7)
    for seed, value in enumerate((*values, 5.5), 1):
        put(tmp_path, "tanh", seed, value, data=data)
        put(tmp_path, "tanh", seed, value, budget="mini", data=data)
    assert paper_verdicts(collect(TABLE, "mini", tmp_path)) == {}
    found = paper_verdicts(collect(TABLE, "paper", tmp_path))["tanh", "test_bpc"]
    half = stats.t.ppf(0.975, 2) * np.std(values, ddof=1) * math.sqrt(4 / 3)
    assert (found.word, found.low, found.high) == ("too wide", pytest.approx(1.6 - half), pytest.approx(1.6 + half))


def test_the_interval_of_a_perplexity_is_that_of_its_logarithm(tmp_path: Path) -> None:
    words = load_table("highway_t3")
    values = np.array((100.0, 130.0, 200.0))
    for seed, value in enumerate(values, 1):
        metrics = {"test_ppl": {"best": value, "last": value}, "valid_ppl": {"best": value, "last": value}}
        put(tmp_path, "tanh", seed, 4.0, table=words, metrics=metrics)
    found = paper_verdicts(collect(words, "paper", tmp_path))["tanh", "test_ppl"]
    half = stats.t.ppf(0.975, 2) * np.log(values).std(ddof=1) * math.sqrt(4 / 3)
    ends = np.exp(np.log(values).mean() + np.array((-half, half)))
    assert (found.low, found.high) == pytest.approx(tuple(ends))


def test_the_report_counts_each_number_once(tmp_path: Path) -> None:
    """Loss and bpc, on validation and on test, are one number. The paper has 1.364 for tanh."""
    assert [(row, column.metric) for row, column in counted_numbers(TABLE)] == [
        (row, "test_bpc") for row in ("baseline", "sigmoid", "tanh")
    ]
    write(tmp_path, tanh=(1.363, 1.364, 1.365), baseline=(1.07, 1.071, 1.069), sigmoid=(1.36,))
    report = build_report(collect(TABLE, "paper", tmp_path))
    texts = {line.texts[0]: line.texts[-1] for line in report.results.lines}
    half = stats.t.ppf(0.975, 2) * 0.001 * math.sqrt(4 / 3)
    assert texts["+ tanh SDU"] == f"within: {1.364 - half:.3f} … {1.364 + half:.3f}" and not texts["+ sigmoid SDU"]
    assert texts["T-L3"] == f"outside: {1.07 - half:.3f} … {1.07 + half:.3f}"
    assert report.answered.startswith("Of 3 numbers of the paper: 1 within, 1 outside, 0 too wide")
    assert report.answered in to_markdown(report)


def test_a_number_one_percent_from_our_mean_is_within_of_an_accuracy_one_percent_of_the_error(tmp_path: Path) -> None:
    """However little our runs spread."""
    paper = TABLE.row("tanh").paper["test_bpc"]
    for factor, word in ((1.009, "within"), (0.991, "within"), (1.012, "outside")):
        write(tmp_path, tanh=[paper * factor + spread for spread in (-0.0001, 0, 0.0001)])
        assert paper_verdicts(collect(TABLE, "paper", tmp_path))["tanh", "test_bpc"].word == word
    pixels = load_table("r_transformer_t1")
    paper = pixels.row("r_transformer").paper["test_accuracy"]
    for error, word in ((1.005, "within"), (1.1, "outside")):
        for seed in (1, 2, 3):
            value = 1 - (1 - paper) * error
            accuracy = {"test_accuracy": {"best": value, "last": value}}
            put(tmp_path, "r_transformer", seed, 1.0, table=pixels, metrics=accuracy)
        assert paper_verdicts(collect(pixels, "paper", tmp_path))["r_transformer", "test_accuracy"].word == word


def test_a_column_that_the_paper_lacks_is_no_number_of_it(tmp_path: Path) -> None:
    seen = {"metric": "seen_bpc"}
    table = parse_table(content(recipe=list(TABLE.recipe), columns=[{"metric": "test_bpc"}, seen], paper=""))
    put(tmp_path, "a", 1, 1.4, table=table, metrics={"seen_bpc": {"best": 1.2, "last": 1.1}})
    assert counted_numbers(table) == [] and build_report(collect(table, "paper", tmp_path)).results.lines


def test_numbers_that_our_runs_cannot_answer_are_not_counted() -> None:
    """Copied numbers, rows that were something else, times and sparsities."""
    assert {row for row, _ in counted_numbers(load_table("r_transformer_t2"))} == {"transformer", "r_transformer"}
    assert {column.metric for _, column in counted_numbers(TRANSLATION)} == {"valid_accuracy", "valid_loss", "bleu"}
    assert counted_numbers(load_table("highway_t7")) == []
    assert "tanh_l3_6" not in {row for row, _ in counted_numbers(XL)}
    assert sum(len(counted_numbers(load_table(name))) for name in table_ids()) == 98
