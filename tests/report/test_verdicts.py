"""Verdicts on claims, and answers to the paper's numbers, from records that the tests write."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats

from highway.config.margins import MARGINS
from highway.config.metrics import METRICS
from highway.errors import Refused
from highway.report import reproduction
from highway.report.collect import Collected, collect
from highway.report.comparison import differences
from highway.report.formats import to_markdown
from highway.report.report import build_report
from highway.report.reproduction import (
    EQUIVALENCE,
    against_paper,
    answers,
    compare_numbers,
    compared_metrics,
    counted,
    words,
)
from highway.report.sample import Sample
from highway.report.verdicts import Records, Verdict, judge, tone
from highway.sweep.reading import load_table, parse_table
from highway.sweep.table import Table
from tests.support.tables import TABLE, TRANSLATION, XL, content, put, put_translation

pytestmark = pytest.mark.usefixtures("no_published_records")

BASELINE = (1.50, 1.51, 1.53)
ORDERED = {"better": "tanh", "than": "baseline"}
SOONER = {"sooner": "tanh", "than": "baseline", "metric": "valid_loss"}


def table_of(*claims: dict[str, Any], **changes: Any) -> Table:
    """Return a table of three rows of highway_t1 with these claims."""
    rows = [{"id": row.id, "label": row.label, "overrides": list(row.overrides)} for row in TABLE.rows[:3]]
    settings = {"recipe": list(TABLE.recipe), "columns": [{"metric": "test_bpc"}, {"metric": "valid_loss"}]}
    texts = [{"text": str(number), "metric": "test_bpc", **claim} for number, claim in enumerate(claims)]
    return parse_table(content(**settings, rows=rows, claims=texts, **changes))


def write(outputs: Path, budget: str = "paper", **rows: Any) -> None:
    """Write a record for each value of each row, from seed 1 on."""
    for row, values in rows.items():
        for seed, value in enumerate(values, 1):
            put(outputs, row, seed, value, budget)


def verdicts(outputs: Path, *claims: dict[str, Any], budget: str = "paper") -> list[Verdict]:
    table = dataclasses.replace(TABLE, claims=table_of(*claims).claims)
    return judge(collect(table, budget, outputs))


@pytest.mark.parametrize(
    ("tanh", "word"),
    [
        ((), "not run"),
        ((1.4,), "no difference beyond noise"),
        ((1.40, 1.41), "same ordering"),
        ((1.40, 1.41, 1.42), "supported"),
        ((1.60, 1.61, 1.62), "refuted"),
        ((1.40, 1.60, 1.49), "undecided"),
    ],
)
def test_words_at_paper_budget(tmp_path: Path, tanh: tuple[float, ...], word: str) -> None:
    """One seed is judged by the spread of the others; `supported` and `refuted` need three seeds of each row."""
    write(tmp_path, baseline=BASELINE, sigmoid=(1.51, 1.53, 1.54), tanh=tanh)
    if len(tanh) == 1:  # within the noise of the other rows
        write(tmp_path, tanh=(1.505,))
    assert [verdict.word for verdict in verdicts(tmp_path, ORDERED)] == [word]


def test_one_seed_of_each_row_has_no_spread(tmp_path: Path) -> None:
    write(tmp_path, baseline=(1.5,), tanh=(1.4,))
    verdict, steps = verdicts(tmp_path, ORDERED, SOONER)
    assert (verdict.word, tone(verdict.word)) == ("one seed", "open")
    assert verdict.detail == "test_bpc: no spread over seeds, and no test-set interval"
    assert steps.detail == "valid_loss: no spread over seeds", "a test set says nothing of steps"


def test_below_paper_budget_there_are_orderings_only(tmp_path: Path) -> None:
    write(tmp_path, "mini", baseline=BASELINE, tanh=(1.4, 1.41, 1.42), sigmoid=(1.5, 1.52, 1.51))
    write(tmp_path, "smoke", baseline=BASELINE, tanh=(1.4, 1.41, 1.42))
    both = [ORDERED, {"better": "baseline", "than": "tanh"}, {"better": "sigmoid", "than": "baseline"}]
    words_at_mini = [verdict.word for verdict in verdicts(tmp_path, *both, budget="mini")]
    assert words_at_mini == ["same ordering (mini)", "other ordering (mini)", "no difference beyond noise (mini)"]
    table = dataclasses.replace(TABLE, claims=table_of(*both).claims)
    page = to_markdown(build_report(collect(table, "mini", tmp_path)))
    assert page.count("| needs paper budget, the paper's data and three seeds |") == 2 and "| decided |" not in page
    assert [tone(word) for word in words_at_mini] == ["for", "against", "open"]
    assert verdicts(tmp_path, *both, budget="smoke") == []


def test_a_claim_without_its_runs_says_why(tmp_path: Path) -> None:
    """Nothing is said of rows that have not run. A time counts only if nothing else ran beside it."""
    timed = {"better": "tanh", "than": "baseline", "metric": "train_seconds"}
    put(tmp_path, "tanh", 1, 1.4)
    assert [verdict.word for verdict in verdicts(tmp_path, ORDERED, timed)] == ["not run", "not run"]
    for row in ("tanh", "baseline"):
        put(tmp_path, row, 1, 1.4, metrics={"train_seconds": {"best": 9.0, "last": 9.0}}, cost={"exclusive": False})
    ordered, of_time = verdicts(tmp_path, ORDERED, timed)
    why = "no run of tanh, baseline has train_seconds that count; times count only where nothing else ran"
    assert (of_time.word, of_time.detail, ordered.word) == ("not run", why, "one seed")


def test_generated_data_stand_in_the_word(tmp_path: Path) -> None:
    data = {"source": "sample", "sha256": {"train": "a"}, "vocabulary_sha256": "v", "counting_loss": 99.0}
    for row, values in {"tanh": (1.40, 1.41, 1.42), "baseline": BASELINE}.items():
        for seed, value in enumerate(values, 1):
            put(tmp_path, row, seed, value, data=data)
    (verdict,) = verdicts(tmp_path, ORDERED)
    assert verdict.word.startswith("same ordering (paper, ") and verdict.word.endswith(" data)")


def test_the_floor_of_a_metric_is_half_of_what_it_resolves(tmp_path: Path) -> None:
    """A unit of the last digit, relative to the median on a logarithmic scale, or one example of the largest set."""
    data = {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "v", "counting_loss": 99.0}
    accuracy = {"valid_accuracy": {"best": 0.5, "last": 0.5}}
    for seed, value in enumerate((1.0, 2.0, 8.0), 1):
        sizes = {"symbols": {"valid": 10 * seed}} if seed < 3 else {}
        put(tmp_path, "tanh", seed, value, data={**data, **sizes}, metrics=accuracy)
    put(tmp_path, "tanh", 4, 99.0, status="diverged")  # a failed run does not count
    records = Records(collect(TABLE, "paper", tmp_path))
    digits = METRICS["test_bpc"].digits
    assert records.floor("test_bpc", log=False) == pytest.approx(10**-digits / 2)
    assert records.floor("test_bpc", log=True) == pytest.approx(10**-digits / 2 / 2.0)
    assert records.floor("valid_accuracy", log=False) == pytest.approx(1 / 20 / 2)


def test_rows_of_one_measurement_are_not_the_same_runs(tmp_path: Path) -> None:
    """Rows that were timed share the folder of times.csv; this alone would make copies of them."""
    samples = {row.id: (Sample(tmp_path, 1, {"row": row.label}),) for row in TABLE.rows}
    assert Records(Collected(TABLE, "paper", samples)).place.tolist() == list(range(len(TABLE.rows)))


def test_all_pairs_have_to_hold_and_one_refutes(tmp_path: Path) -> None:
    write(tmp_path, baseline=BASELINE, tanh=(1.40, 1.41, 1.43), sigmoid=(1.50, 1.51, 1.53))
    every = {"better": ["tanh", "sigmoid"], "than": "baseline"}
    assert verdicts(tmp_path, every)[0].word == "undecided"
    write(tmp_path, sigmoid=(1.41, 1.40, 1.43))
    assert verdicts(tmp_path, every)[0].word == "supported"
    write(tmp_path, sigmoid=(1.61, 1.60, 1.63))
    assert verdicts(tmp_path, every)[0].word == "refuted"


def test_p_values_are_those_of_intersection_union_bonferroni_and_holm(tmp_path: Path) -> None:
    """Two claims, four p-values: the second claim has not run, and counts all the same."""
    values = {"baseline": (1.50, 1.52, 1.51), "tanh": (1.47, 1.51, 1.48), "sigmoid": (1.46, 1.47, 1.49)}
    write(tmp_path, **values)
    (claim,) = table_of({"better": ["tanh", "sigmoid"], "than": "baseline"}).claims
    table = dataclasses.replace(TABLE, claims=(claim, dataclasses.replace(claim, rows=("highway",))))
    numbers = np.array([values[name] for name in ("baseline", "tanh", "sigmoid")])
    fitted = numbers.mean(1, keepdims=True) + numbers.mean(0) - numbers.mean()
    error = math.sqrt(np.square(numbers - fitted).sum() / 4 * 2 / 3)
    p = [stats.t.sf((numbers[0].mean() - numbers[row].mean()) / error, 4) for row in (1, 2)]
    expected = 4 * max(p)
    detail = judge(collect(table, "paper", tmp_path))[0].detail
    assert f"p {expected:.3f} for the claim, 1.000 against it" in detail
    assert "least of 2 advantages, tanh over baseline: +0.02333" in detail


def test_an_open_claim_says_what_gap_would_have_been_found(tmp_path: Path) -> None:
    """The gap has a power of 80 % at the strictest of Holm's levels; with few degrees of freedom it is large."""
    seeds, degrees = 3, "2 degrees of freedom"
    values = np.array([(1.50, 1.52, 1.51), (1.50, 1.51, 1.53)])
    write(tmp_path, baseline=values[0], tanh=values[1])
    error = (values[1] - values[0]).std(ddof=1) / math.sqrt(seeds)
    gap = (stats.t.ppf(1 - 0.05 / 2, seeds - 1) + stats.t.ppf(0.8, seeds - 1)) * error
    detail = verdicts(tmp_path, ORDERED)[0].detail
    assert f"these runs, whose spread has {degrees}, find a gap of {gap:+.4g} in 80%" in detail


def test_growth_is_tested_step_by_step(tmp_path: Path) -> None:
    """Each gain is compared with the one before: sigmoid over tanh by more than tanh over the baseline."""
    table = table_of({"growing": ["tanh", "sigmoid"], "than": ["baseline", "tanh"]})
    write(tmp_path, baseline=BASELINE, tanh=(1.45, 1.46, 1.47), sigmoid=(1.20, 1.21, 1.22))
    assert judge(collect(table, "paper", tmp_path))[0].word == "supported"
    write(tmp_path, sigmoid=(1.44, 1.45, 1.46))
    assert judge(collect(table, "paper", tmp_path))[0].word == "refuted"


def test_within_a_share_compares_ratios(tmp_path: Path) -> None:
    claim = {"within": "tanh", "than": "baseline", "share": 0.04}
    for tanh, word in ((1.53, "supported"), (1.60, "refuted"), (1.56, "undecided")):
        write(tmp_path, baseline=(1.50, 1.501, 1.499), tanh=(tanh, tanh + 0.001, tanh - 0.001))
        assert verdicts(tmp_path, claim)[0].word == word


def test_steps_have_the_resolution_of_validations(tmp_path: Path) -> None:
    """Every seed saves the same 50 steps: no spread, so half an interval of 25 steps is taken for it."""
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5)
        put(tmp_path, "tanh", seed, 1.4, curve=[(25, 1.7), (50, 1.5), (75, 1.45), (100, 1.4)])
    p = stats.t.sf(50 / (12.5 * math.sqrt(2 / 3)), 2)
    (verdict,) = verdicts(tmp_path, SOONER)
    expected = f"valid_loss, advantage +50 steps; p {2 * p:.3f} for the claim, {1 - p:.3f} against it"
    assert (verdict.word, verdict.detail) == ("supported", expected), "a decided claim needs no gap to be found"


@pytest.mark.parametrize(("seeds", "reached", "diverged"), [(3, "undecided", "undecided"), (5, "refuted", "supported")])
def test_failed_runs_are_counted(tmp_path: Path, seeds: int, reached: str, diverged: str) -> None:
    """A run that never reaches the value counts for a claim on steps, one that diverged for every claim."""
    for seed in range(1, seeds + 1):
        put(tmp_path, "baseline", seed, 1.5)
        put(tmp_path, "tanh", seed, 1.6, curve=[(50, 1.8), (100, 1.51)])
    (verdict,) = verdicts(tmp_path, SOONER)
    assert verdict.word == reached
    assert f"runs that reach the final value: tanh 0 of {seeds}, baseline {seeds} of {seeds}" in verdict.detail
    for seed in range(1, seeds + 1):
        put(tmp_path, "tanh", seed, 1.4 + seed / 100)
        put(tmp_path, "baseline", seed, math.nan, status="diverged")
    (verdict,) = verdicts(tmp_path, ORDERED)
    assert verdict.word == diverged
    assert verdict.detail == f"test_bpc, runs that have learned: tanh {seeds} of {seeds}, baseline 0 of {seeds}"


def test_orders_are_tested_once_on_means(tmp_path: Path) -> None:
    """`unrelated` can be refuted and never supported; `opposed` can be either."""
    rows = [row for row in TRANSLATION.rows if not row.extra]
    for seed in (1, 2, 3):
        for rank, row in enumerate(rows):
            orders = {"valid_accuracy": rank / 100, "sparsity": 50 - rank, "valid_loss": rank * 7 % 15}
            put_translation(tmp_path, row.id, seed=seed, bleu=rank, **orders)
    found = {verdict.claim.text: verdict for verdict in judge(collect(TRANSLATION, "paper", tmp_path))}
    assert found["BLEU does not follow accuracy"].word == "refuted"
    assert found["BLEU does not follow loss"].word == "undecided"
    assert found["sparser models train faster"].word == "not run"  # on a busy machine times say nothing
    opposed = dataclasses.replace(found["BLEU does not follow loss"].claim, kind="opposed")
    for metric, word, detail in (
        ("sparsity", "supported", "p below 0.001 for the claim, 1.000 against it"),
        ("valid_accuracy", "refuted", "p 1.000 for the claim, below 0.001 against it"),
        ("valid_loss", "undecided", ""),
    ):
        table = dataclasses.replace(TRANSLATION, claims=(dataclasses.replace(opposed, to=metric),))
        (verdict,) = judge(collect(table, "paper", tmp_path))
        assert verdict.word == word and detail in verdict.detail


# Runs that have not learned


@pytest.mark.parametrize(
    ("budget", "seeds", "word"),
    [("paper", 3, "has not learned"), ("paper", 5, "refuted"), ("mini", 5, "other ordering (mini)")],
)
def test_two_rows_that_have_not_learned_say_nothing_of_each_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, budget: str, seeds: int, word: str
) -> None:
    """At any budget; a third row that has learned can still refute the claim, by ranks."""
    monkeypatch.setattr(
        "highway.report.verdicts.is_sound", lambda sample, select: sample.value("test_loss", select) < 2
    )
    monkeypatch.setattr("highway.report.model.RANK_SEEDS", 5)
    write(tmp_path, budget, tanh=[2.1] * seeds, baseline=[2.2] * seeds, sigmoid=np.arange(1, seeds + 1) / 5)
    (verdict,) = verdicts(tmp_path, {"better": "tanh", "than": ["baseline", "sigmoid"]}, budget=budget)
    assert verdict.word == word
    assert "baseline 0 of" in verdict.detail and f"sigmoid {seeds} of {seeds}" in verdict.detail


def test_a_run_must_be_below_counting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The loss of counting is that of the record, else that of the list. A run that equals it has not learned."""
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "reference")
    (tmp_path / "reference").mkdir()
    entry = {"form": "", "test": "t", "vocabulary": "v", "test_loss": 1.5}
    (tmp_path / "reference" / "counting.yaml").write_text(yaml.safe_dump([entry]))
    data = {"source": "files", "sha256": {"test": "t"}, "vocabulary_sha256": "v"}
    for seed, value in enumerate((1.49, 1.5, 1.6), 1):
        put(tmp_path, "tanh", seed, value, data=data)
        put(tmp_path, "sigmoid", seed, value, data={**data, "counting_loss": 1.6})
    report = build_report(collect(TABLE, "paper", tmp_path))
    assert str(report.rows[2].seeds) == "seeds 1, 2, 3, 2 runs have not learned"
    assert str(report.rows[1].seeds) == "seeds 1, 2, 3, 1 run has not learned"


def test_a_run_that_nothing_compares_with_counting_says_so(tmp_path: Path) -> None:
    """It counts as one that has learned. A diverged run failed anyway."""
    data = {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "v"}
    put(tmp_path, "tanh", 1, 1.4, data=data)
    put(tmp_path, "tanh", 2, 1.4)
    put(tmp_path, "tanh", 3, math.nan, data=data, status="diverged")
    report = build_report(collect(TABLE, "paper", tmp_path))
    assert str(report.rows[2].seeds) == "seeds 1, 2, seed 3 diverged, 1 run not compared with counting"


# The paper's numbers


def test_only_runs_that_learned_are_compared_with_the_paper_and_only_at_its_budget(tmp_path: Path) -> None:
    data = {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "v", "counting_loss": 5.0}
    for seed, value in enumerate((1.5, 1.6, 1.7, 5.5), 1):
        put(tmp_path, "tanh", seed, value, data=data)
        put(tmp_path, "tanh", seed, value, budget="mini", data=data)
    assert answers(collect(TABLE, "mini", tmp_path)) == {}
    found = answers(collect(TABLE, "paper", tmp_path))
    assert found and {answer.size for (_, metric), answer in found.items() if metric == "test_bpc"} == {"+17.3%"}


def test_words_for_the_papers_numbers() -> None:
    """By the definitions: intervals from the pooled deviation of two rows, which share no seeds."""
    values = np.full((1, 2, 8), np.nan)
    values[0, 0, :4], values[0, 1, 4:] = (1.50, 1.52, 1.51, 1.49), (1.40, 1.42, 1.41, 1.40)
    spread = math.sqrt((np.var(values[0, 0, :4], ddof=1) + np.var(values[0, 1, 4:], ddof=1)) / 2)
    mean, half = 1.505, stats.t.ppf(0.95, 6) * spread / 2
    for paper, margin, word in (
        (mean + 0.02, 0.02 + half + 1e-6, "equivalent"),
        (mean + 0.02, 0.02 + half - 1e-6, "inconclusive"),
        (mean - 0.02, 0.001, "inconclusive"),
        (mean - 0.3, 0.2, "different"),
        (mean - 0.3, 0.31, "inconclusive"),
    ):
        found = compare_numbers(values, np.array([[paper, 1.4]]), margin, 0.0)
        assert words(found, found.p)[0, 0] == word, (paper, margin)
    rounding = 0.005
    found = compare_numbers(values, np.array([[mean + 0.03, 1.4]]), 0.01, rounding)
    expected = 2 * stats.t.sf((0.03 - rounding) / (spread * math.sqrt(1 + 1 / 4)), 6)
    assert found.p[0, 0] == pytest.approx(expected)


def test_the_report_counts_each_measurement_once(tmp_path: Path) -> None:
    """A loss and its bpc are one measurement. The paper has 1.364 for tanh."""
    assert compared_metrics(TABLE) == ["valid_bpc", "test_bpc"]
    write(tmp_path, tanh=(1.363, 1.364, 1.365), baseline=(1.07, 1.071, 1.069), sigmoid=(1.36,))
    report = build_report(collect(TABLE, "paper", tmp_path))
    texts = {line.row.id: str(line.measured[-1].difference) for line in report.rows}
    assert texts["tanh"] == "+0.000, equivalent" and "," not in texts["sigmoid"]
    paper = TABLE.rows[0].paper["test_bpc"]
    assert texts["baseline"] == f"{1.07 - paper:+.3f}, different ({1.07 / paper - 1:+.1%})"
    counted_words = "Of 6 numbers of the paper, 1 are equivalent to ours, 3 different and 0 inconclusive"
    assert report.reproduced == f"{counted_words}; 2 have fewer than three seeds that have learned."
    markdown = to_markdown(report)
    assert report.reproduced in markdown and EQUIVALENCE in markdown
    mini = build_report(collect(TABLE, "mini", tmp_path))
    assert not mini.answers and EQUIVALENCE not in to_markdown(mini)


def test_numbers_that_our_runs_cannot_answer_are_not_counted() -> None:
    """Copied numbers, rows that were something else, times and sparsities."""
    assert {row for row, _ in counted(load_table("r_transformer_t2"))} == {"transformer", "r_transformer"}
    assert {metric for _, metric in counted(TRANSLATION)} == {"valid_accuracy", "valid_loss", "bleu"}
    assert counted(load_table("highway_t7")) == []
    assert "tanh_l3_6" not in {row for row, _ in counted(XL)}


def test_a_table_only_narrows_a_margin() -> None:
    assert all(margin.reason and margin.size > 0 for margin in MARGINS.values())
    assert reproduction.margin(dataclasses.replace(TABLE, margins={"test_bpc": 0.001}), "test_bpc") == 0.001
    for margin in (0.02, 0.0):
        with pytest.raises(Refused, match=r"Write one above 0, up to 0\.01"):
            table_of(margins={"test_bpc": margin})


def test_differences_are_corrected_like_their_intervals(tmp_path: Path) -> None:
    values = {"baseline": (1.50, 1.52, 1.51), "tanh": (1.47, 1.51, 1.48), "sigmoid": (1.46, 1.47, 1.49)}
    write(tmp_path, **values)
    numbers = np.array([values[name] for name in ("baseline", "tanh", "sigmoid")])
    fitted = numbers.mean(1, keepdims=True) + numbers.mean(0) - numbers.mean()
    error = math.sqrt(np.square(numbers - fitted).sum() / 4 * 2 / 3)
    found = {difference.row.id: difference for difference in differences(collect(TABLE, "paper", tmp_path))}
    size = numbers[1].mean() - numbers[0].mean()
    half = stats.t.ppf(1 - 0.05 / 2 / 2, 4) * error
    tanh = found["tanh"]
    assert (tanh.size, tanh.low, tanh.high) == pytest.approx((size, size - half, size + half))
    assert tanh.p == pytest.approx(min(1, 2 * 2 * stats.t.sf(abs(size) / error, 4)))
    assert set(found) == {"tanh", "sigmoid"}


def test_rows_of_the_same_runs_count_once(tmp_path: Path) -> None:
    """As gates that the released code applies to no layer do: else each copy of the baseline would add certainty."""
    write(tmp_path, baseline=(1.50, 1.53, 1.51), tanh=(1.47, 1.51, 1.48), sigmoid=(1.46, 1.47, 1.50))
    once = dataclasses.replace(TABLE, claims=table_of(ORDERED, {**ORDERED, "better": "sigmoid"}).claims)
    names = ("again0", "again1")
    copies = [dataclasses.replace(TABLE.row("baseline"), id=name) for name in names]
    against = {**once.against, "baseline": (*once.against["baseline"], *names)}
    several = dataclasses.replace(once, rows=(*once.rows, *copies), against=against)
    (claim,) = table_of(ORDERED).claims
    of_copies = tuple(dataclasses.replace(each, than=("again0",)) for each in once.claims)
    one, more, of_copy = (
        collect(table, "paper", tmp_path) for table in (once, several, dataclasses.replace(several, claims=of_copies))
    )
    assert [verdict.detail for verdict in judge(one)] == [verdict.detail for verdict in judge(more)]
    assert [verdict.detail for verdict in judge(one)] == [verdict.detail for verdict in judge(of_copy)]
    assert differences(one) == differences(more), "a row has no difference from its own runs"
    halves = [against_paper(Records(collected), "test_bpc").half[0] for collected in (one, more)]
    assert halves[1][: len(once.rows)] == pytest.approx(halves[0], nan_ok=True)
    same = dataclasses.replace(several, claims=(dataclasses.replace(claim, rows=("again0",)),))
    assert "p 1.000 for the claim, 1.000 against it" in judge(collect(same, "paper", tmp_path))[0].detail


def test_a_claim_on_steps_counts_the_seeds_that_a_pair_shares(tmp_path: Path) -> None:
    falling = [(step, 9 - step / 25) for step in range(5, 105, 5)]
    for seeds, word in (((2, 3, 4), "same ordering"), ((1,), "supported")):
        for seed in (1, 2, 3):
            put(tmp_path, "baseline", seed, 1.5, curve=falling)
        for seed in seeds:
            put(tmp_path, "tanh", seed, 1.4, curve=[(step, 1.4 + seed / 100) for step, _ in falling])
        (verdict,) = verdicts(tmp_path, SOONER)
        assert verdict.word == word, verdict.detail
