"""Verdicts on claims, and the paper's numbers, from records that the tests write."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats

from highway.config.metrics import METRICS
from highway.report.collect import Collected, collect
from highway.report.details import details
from highway.report.evidence import Verdict, tone, verdicts
from highway.report.numbers import Numbers
from highway.report.paper_verdicts import compared_columns, counted, paper_verdicts
from highway.report.render import to_markdown
from highway.report.report import build_report
from highway.report.table_block import Line
from highway.sweep.reading import load_table, parse_table, table_ids
from highway.sweep.table import Table
from tests.support.tables import TABLE, TRANSLATION, XL, content, put, put_translation

pytestmark = pytest.mark.usefixtures("no_published_records")

BASELINE = (1.50, 1.51, 1.53)
ORDERED = {"better": "tanh", "than": "baseline"}
SOONER = {"sooner": "tanh", "than": "baseline", "metric": "valid_loss"}


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
    return verdicts(collect(table_of(*claims, **changes), budget, outputs))


@pytest.mark.parametrize(
    ("tanh", "word"),
    [
        ((), "not run"),
        ((1.4,), "one seed"),
        ((1.40, 1.41), "same ordering"),
        ((1.40, 1.41, 1.42), "supported"),
        ((1.60, 1.61, 1.62), "refuted"),
        ((1.40, 1.60, 1.49), "undecided"),
    ],
)
def test_words_at_paper_budget(tmp_path: Path, tanh: tuple[float, ...], word: str) -> None:
    """`supported` and `refuted` need three seeds that both rows have; one seed has no verdict and no tick."""
    write(tmp_path, baseline=BASELINE, tanh=tanh)
    (verdict,) = judged(tmp_path, ORDERED)
    assert verdict.word == word
    assert tone(verdict.word) == {"refuted": "against", "supported": "for", "same ordering": "for"}.get(word, "open")


def test_rows_that_share_no_seed_have_no_verdict(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5 + seed / 100)
        put(tmp_path, "tanh", seed + 3, 1.4 + seed / 100)
    (verdict,) = judged(tmp_path, ORDERED)
    assert (verdict.word, verdict.detail) == ("no shared seed", "")


def test_a_pair_with_one_seed_hides_no_pair_that_goes_the_other_way(tmp_path: Path) -> None:
    """A claim is undecided if a pair with more seeds goes the other way; else the verdict is that a seed is missing."""
    write(tmp_path, baseline=BASELINE, tanh=(1.52, 1.51, 1.58), sigmoid=(1.2,))
    every = {"better": ["tanh", "sigmoid"], "than": "baseline"}
    (against,) = judged(tmp_path, every)
    assert against.word == "undecided" and against.detail.startswith("+ tanh SDU against T-L3: ")
    write(tmp_path, tanh=(1.40, 1.42, 1.41))
    (verdict,) = judged(tmp_path, every)
    assert (verdict.word, verdict.detail) == ("one seed", "")


def test_the_evidence_has_the_interval_and_the_p_value_of_one_test(tmp_path: Path) -> None:
    """In the direction in which the report compares the rows elsewhere, whatever the claim says."""
    tanh, other = np.array((1.40, 1.42, 1.45)), {**ORDERED, "better": "sigmoid"}
    write(tmp_path, baseline=BASELINE, tanh=tanh)
    test = stats.ttest_rel(tanh, BASELINE)
    low, high = test.confidence_interval()
    size = tanh.mean() - np.mean(BASELINE)
    for claim, word in ((ORDERED, "supported"), ({"better": "baseline", "than": "tanh"}, "refuted")):
        verdict, _ = judged(tmp_path, claim, other)
        expected = f"+ tanh SDU against T-L3: {size:+.3f} ({low:+.3f} … {high:+.3f}), p {2 * test.pvalue:.3f}"
        assert (verdict.word, verdict.detail) == (word, expected), "p is corrected for the claim that has not run"
    report = build_report(collect(table_of(ORDERED), "paper", tmp_path))
    (difference,) = report.differences.values()
    assert (difference.size, difference.low, difference.high) == pytest.approx((size, low, high))
    assert str(difference) == f"{size:+.3f} ({low:+.3f} … {high:+.3f})" and difference.seeds == 3


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
    assert (of_time.word, ordered.word) == ("no number that counts", "one seed")
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
    numbers = Numbers(collect(TABLE, "paper", tmp_path))
    digits = METRICS["test_bpc"].digits
    assert numbers.floor("test_bpc", log=False) == pytest.approx(10**-digits / 2)
    assert numbers.floor("test_bpc", log=True) == pytest.approx(10**-digits / 2 / 2.0)
    assert numbers.floor("valid_accuracy", log=False) == pytest.approx(1 / 20 / 2)


def test_all_pairs_have_to_hold_and_one_refutes(tmp_path: Path) -> None:
    every = {"better": ["tanh", "sigmoid"], "than": "baseline"}
    for sigmoid, word in (
        ((1.50, 1.51, 1.53), "undecided"),
        ((1.41, 1.40, 1.43), "supported"),
        ((1.6,) * 3, "refuted"),
    ):
        write(tmp_path, baseline=BASELINE, tanh=(1.40, 1.41, 1.43), sigmoid=sigmoid)
        (verdict,) = judged(tmp_path, every)
        assert verdict.word == word
        assert verdict.detail.startswith("+ sigmoid SDU against T-L3") or word == "supported"


def test_growth_is_tested_step_by_step(tmp_path: Path) -> None:
    """Each gain is compared with the one before: sigmoid over tanh by more than tanh over the baseline."""
    growth = {"growing": ["tanh", "sigmoid"], "than": ["baseline", "tanh"]}
    for sigmoid, word in (((1.20, 1.21, 1.22), "supported"), ((1.44, 1.45, 1.46), "refuted")):
        write(tmp_path, baseline=BASELINE, tanh=(1.45, 1.46, 1.47), sigmoid=sigmoid)
        (verdict,) = judged(tmp_path, growth)
        assert verdict.word == word
        assert verdict.detail.startswith("gain of + sigmoid SDU against that of + tanh SDU")
    put(tmp_path, "sigmoid", 3, 1.4, status="diverged")
    (failed,) = judged(tmp_path, growth)
    assert (
        failed.word == "undecided"
        and "+ sigmoid SDU has learned in 2 of 3 runs" in failed.detail
        and not failed.rank_seeds
    )


def test_at_most_a_share_compares_ratios(tmp_path: Path) -> None:
    claim = {"at_most": "tanh", "than": "baseline", "share": 0.04}
    for tanh, word in ((1.53, "supported"), (1.60, "refuted"), (1.56, "undecided")):
        write(tmp_path, baseline=(1.50, 1.501, 1.499), tanh=(tanh, tanh + 0.001, tanh - 0.001))
        (verdict,) = judged(tmp_path, claim)
        assert verdict.word == word
        size = f"{100 * (tanh / 1.5 - 1):+.1f} %"
        assert verdict.detail.startswith(f"+ tanh SDU against T-L3 (limit +4.0 %): {size} (")


def test_steps_are_counted_to_what_every_run_of_the_other_row_ends_with(tmp_path: Path) -> None:
    """The baseline ends with 1.5 in each seed, but in the third with 1.55, which it has after 85 steps elsewhere."""
    falling = [(step, 1.5 + (100 - step) / 300) for step in range(5, 105, 5)]
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5, curve=falling[: 17 if seed == 3 else None])
        put(tmp_path, "tanh", seed, 1.4, curve=[(step, value - 0.1) for step, value in falling])
    (verdict,) = judged(tmp_path, SOONER)
    numbers = Numbers(collect(table_of(SOONER), "paper", tmp_path))
    assert [steps.tolist() for steps in numbers.steps("tanh", "baseline", "valid_loss")] == [[[-55] * 3], [[-85] * 3]]
    assert numbers.step_floor("valid_loss") == 2.5
    half = stats.t.ppf(0.975, 2) * 2.5 / math.sqrt(3)
    p = 2 * stats.t.sf(30 / (2.5 / math.sqrt(3)), 2)
    expected = f"+ tanh SDU against T-L3: -30 ({-30 - half:,.0f} … {-30 + half:,.0f}) steps, p {p:.3f}"
    assert (verdict.word, verdict.detail) == ("supported", expected)


@pytest.mark.parametrize(("seeds", "reached", "diverged"), [(3, "undecided", "undecided"), (5, "refuted", "supported")])
def test_failed_runs_are_counted(tmp_path: Path, seeds: int, reached: str, diverged: str) -> None:
    """A run that never arrives counts for a claim on steps, one that diverged for every claim."""
    for seed in range(1, seeds + 1):
        put(tmp_path, "baseline", seed, 1.5)
        put(tmp_path, "tanh", seed, 1.6, curve=[(50, 1.8), (100, 1.51)])
        put(tmp_path, "sigmoid", seed, 1.6, status="diverged")
    steps, against = judged(tmp_path, SOONER, {"better": "baseline", "than": "sigmoid"})
    p = 2 / math.comb(2 * seeds, seeds)
    ranks = f"; by ranks, p {2 * p:.3f}" if seeds == 5 else ""
    assert (steps.word, against.word) == (reached, diverged)
    assert steps.detail == f"+ tanh SDU arrives in 0 of {seeds} runs{ranks}"
    assert against.detail == f"+ sigmoid SDU has learned in 0 of {seeds} runs{ranks}"
    assert steps.rank_seeds == against.rank_seeds == (0 if seeds == 5 else 5)
    report = build_report(collect(table_of(), "paper", tmp_path))
    difference = report.differences["sigmoid"]
    assert str(difference) == (f"by ranks, p {p:.3f}" if seeds == 5 else "—") and not difference.has_size


def test_steps_are_counted_for_each_pair(tmp_path: Path) -> None:
    """All runs of tanh get to the end of sigmoid, and none to that of the baseline."""
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.2)
        put(tmp_path, "tanh", seed, 1.4)
        put(tmp_path, "sigmoid", seed, 1.5)
    (verdict,) = judged(tmp_path, {**SOONER, "than": ["baseline", "sigmoid"]})
    assert verdict.word == "undecided"
    assert verdict.detail == "+ tanh SDU arrives in 0 of 3 runs"


def test_nothing_is_sooner_than_rows_that_have_not_learned(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5, status="diverged")
        put(tmp_path, "tanh", seed, 1.4)
    (verdict,) = judged(tmp_path, SOONER)
    assert (verdict.word, verdict.detail) == ("undecided", "no run has learned of T-L3")


def test_a_validation_at_the_end_alone_resolves_the_whole_run(tmp_path: Path) -> None:
    put(tmp_path, "tanh", 1, 1.4, curve=[(100, 1.4)])
    assert Numbers(collect(TABLE, "paper", tmp_path)).step_floor("valid_loss") == 50


def test_perplexities_are_compared_as_ratios(tmp_path: Path) -> None:
    """A claim, the table of differences and the change beside the numbers have one size, one interval and one p."""
    words = load_table("highway_t3")
    ppl = {"baseline": np.array((100.0, 110.0, 125.0)), "sigmoid": np.array((104.0, 113.0, 127.0))}
    for row, values in ppl.items():
        for seed, value in enumerate(values, 1):
            metrics = {name: {"best": value, "last": value} for name in ("test_ppl", "valid_ppl")}
            put(tmp_path, row, seed, 4.0, "mini", table=words, metrics=metrics)
    report = build_report(collect(words, "mini", tmp_path))
    test = stats.ttest_rel(np.log(ppl["sigmoid"]), np.log(ppl["baseline"]))
    size = np.expm1(np.mean(np.log(ppl["sigmoid"] / ppl["baseline"])))
    low, high = np.expm1(test.confidence_interval())
    (difference,) = report.differences.values()
    assert (difference.size, difference.low, difference.high) == pytest.approx((size, low, high))
    text = f"{100 * size:+.1f} % ({100 * low:+.1f} … {100 * high:+.1f})"
    assert str(difference) == text
    assert report.verdicts[0].detail.startswith(f"+ sigmoid SDU against T-L3: {text}, p ")


def test_a_pair_without_failures_can_refute_a_claim_with_failures(tmp_path: Path) -> None:
    write(tmp_path, baseline=BASELINE, tanh=(1.60, 1.61, 1.62))
    put(tmp_path, "sigmoid", 1, 1.6, status="diverged")
    (verdict,) = judged(tmp_path, {"better": ["sigmoid", "tanh"], "than": "baseline"})
    assert verdict.word == "refuted" and verdict.detail.startswith("+ tanh SDU against T-L3: +0.097")


def test_orders_of_rows_are_shown_and_not_decided(tmp_path: Path) -> None:
    for rank, row in enumerate(row for row in TRANSLATION.rows if not row.extra):
        put_translation(tmp_path, row.id, bleu=rank, valid_accuracy=rank / 100, valid_loss=rank * 7 % 15)
    found = {verdict.claim.text: verdict for verdict in verdicts(collect(TRANSLATION, "paper", tmp_path))}
    follows = found["BLEU does not follow accuracy"]
    assert (follows.word, tone(follows.word)) == ("not decided", "open")
    assert follows.detail == "Kendall's tau of bleu and valid_accuracy over 15 rows: +1.00"
    tau = stats.kendalltau(range(15), [rank * 7 % 15 for rank in range(15)]).statistic
    assert found["BLEU does not follow loss"].detail.endswith(f"over 15 rows: {tau:+.2f}")
    times = found["sparser models train faster"]
    assert times.word == "no number that counts", "the machine was busy"


def test_equal_values_have_no_order(tmp_path: Path) -> None:
    for row in (row for row in TRANSLATION.rows if not row.extra):
        put_translation(tmp_path, row.id, bleu=2.0)
    found = {verdict.claim.text: verdict for verdict in verdicts(collect(TRANSLATION, "paper", tmp_path))}
    assert found["BLEU does not follow loss"].detail.endswith("over 15 rows: none, as all values are equal")


def test_rows_of_the_same_runs_do_not_differ(tmp_path: Path) -> None:
    """A gate that the released code applies to no layer makes such rows."""
    write(tmp_path, baseline=BASELINE, tanh=(1.47, 1.51, 1.48))
    (claim,) = table_of(ORDERED).claims
    copy = TABLE.row("baseline").model_copy(update={"id": "again"})
    claims = [claim.model_copy(update={"better": ["again"]}), claim]
    collected = collect(TABLE.model_copy(update={"rows": [*TABLE.rows, copy], "claims": claims}), "paper", tmp_path)
    same, _ = verdicts(collected)
    assert same.word == "undecided" and same.detail.endswith("p 1.000")
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
    assert "|+ tanh SDU|1.364|1.400 ± 0.000|2 of 3 (1 diverged)|" in to_markdown(build_report(collected))


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


def test_the_report_counts_each_measurement_once(tmp_path: Path) -> None:
    """A loss and its bpc are one measurement. The paper has 1.364 for tanh."""
    assert [column.metric for column in compared_columns(TABLE)] == ["valid_bpc", "test_bpc"]
    write(tmp_path, tanh=(1.363, 1.364, 1.365), baseline=(1.07, 1.071, 1.069), sigmoid=(1.36,))
    report = build_report(collect(TABLE, "paper", tmp_path))
    texts = {line.texts[0]: line.texts[-1] for line in report.results.lines}
    half = stats.t.ppf(0.975, 2) * 0.001 * math.sqrt(4 / 3)
    assert texts["+ tanh SDU"] == f"within: {1.364 - half:.3f} … {1.364 + half:.3f}" and not texts["+ sigmoid SDU"]
    assert texts["T-L3"] == f"outside: {1.07 - half:.3f} … {1.07 + half:.3f}"
    assert report.answered.startswith("Of 6 numbers of the paper: 1 within, 3 outside, 0 too wide")
    assert report.answered in to_markdown(report)


def test_numbers_that_our_runs_cannot_answer_are_not_counted() -> None:
    """Copied numbers, rows that were something else, times and sparsities."""
    assert {row for row, _ in counted(load_table("r_transformer_t2"))} == {"transformer", "r_transformer"}
    assert {column.metric for _, column in counted(TRANSLATION)} == {"valid_accuracy", "valid_loss", "bleu"}
    assert counted(load_table("highway_t7")) == []
    assert "tanh_l3_6" not in {row for row, _ in counted(XL)}
    assert sum(len(counted(load_table(name))) for name in table_ids()) == 142
