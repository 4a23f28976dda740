"""Reports from records that the tests write: what they hold, and how they are laid out."""

import csv
import html
import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from highway.errors import Refused
from highway.ledger.directory import DONE, RunDirectory
from highway.ledger.files import read_json, with_checksum
from highway.ledger.record import write_record
from highway.report.collect import Summary, collect
from highway.report.content import Report, build_report
from highway.report.details import to_csv
from highway.report.render import to_html, to_latex, to_markdown
from highway.report.write import print_report, write_report
from highway.tables.grid import as_table
from highway.tables.reading import load_table, parse_table
from highway.tables.rows import with_overrides
from highway.tables.table import Column
from highway.tables.typed import Typed
from tests.support.tables import content, put

TABLE = load_table("highway_t1")
pytestmark = pytest.mark.usefixtures("no_published_records")


def plain(text: str) -> str:
    """Return the letters and digits of a rendering, whatever its layout."""
    return re.sub(r"[^A-Za-z0-9]+", " ", html.unescape(re.sub(r"<[^>]*>", " ", text)))


def printed(report: Report, width: int = 1000) -> str:
    console = Console(width=width, file=io.StringIO())
    with console.capture() as shown:
        print_report(report, console)
    return shown.get()


def cells(report: Report) -> dict[str, dict[str, str]]:
    """Return the cells of the one table by label and head."""
    grid = report.results
    return {line.texts[0]: dict(zip(grid.heads, line.texts, strict=True)) for line in grid.lines}


def test_every_layout_has_the_parts_of_a_report_in_order(tmp_path: Path) -> None:
    for row in ("baseline", "tanh", "sigmoid", "post_norm"):
        for seed in (1, 2, 3):
            put(tmp_path, row, seed, 1.2 + seed / 100 + len(row) / 50)
    report = build_report(collect(TABLE, "paper", tmp_path), TABLE.figures)
    assert report.claims and report.choices and report.answered
    results = [cell for line in report.results.lines for cell in line.texts]
    claims = [cell for line in report.claims.lines for cell in line.texts]
    every = [report.conclusion, report.answered, report.origin, *results, report.results.note]
    every += [TABLE.figures[0].caption, *claims, report.claims.note, report.missing]
    for text in map(plain, (printed(report), to_markdown(report))):
        position = 0
        for part in map(plain, filter(None, [report.heading, *every, report.ran])):
            position = text.index(part.strip(), position)
    page = plain(to_html(report))
    assert all(plain(part).strip() in page for part in every if part != TABLE.figures[0].caption)
    assert plain(report.choices[0]) in page and "Every run" in page, "folded below the report"
    latex = to_latex(report)
    assert all(plain(line.texts[0]).strip() in plain(latex) for line in report.results.lines)


@pytest.mark.parametrize("width", [60, 80])
def test_no_word_is_cut_off_on_a_terminal(tmp_path: Path, width: int) -> None:
    label = "R-Transformer, attention's maps start as copies"
    rows = [row.model_copy(update={"label": label}) if row.id == "tanh" else row for row in TABLE.rows]
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5 + seed / 1000)
        put(tmp_path, "tanh", seed, 1.4)
    report = build_report(collect(TABLE.model_copy(update={"rows": rows}), "paper", tmp_path))
    text = printed(report, width)
    assert text.count("…") == to_markdown(report).count("…") > 0, "those of the intervals alone"
    assert max(map(len, text.splitlines())) <= width


def test_a_small_spread_is_not_rounded_to_none() -> None:
    shown = {deviation: Summary(2.978, deviation, 3).text(2) for deviation in (None, 0.0, 0.0043, 0.0052, 12.3)}
    assert list(shown.values()) == ["2.98", "2.98 ± 0.00", "2.98 ± 0.004", "2.98 ± 0.01", "2.98 ± 12.30"]


def test_a_missing_number_says_why(tmp_path: Path) -> None:
    rows = [*TABLE.rows, TABLE.rows[0].model_copy(update={"id": "mini", "label": "small", "budgets": ["mini"]})]
    put(tmp_path, "baseline", 1, 1.5, metrics={"train_seconds": {"best": 9.0, "last": 9.0}})
    put(tmp_path, "tanh", 1, 1.4, cost={"exclusive": False}, metrics={"train_seconds": {"best": 9.0, "last": 9.0}})
    put(tmp_path, "sigmoid", 1, 1.4, status="diverged")
    for metric, expected in (
        ("train_seconds", ("9", "beside other work")),
        ("test_bpc", ("1.500", "1.400")),
        ("test_accuracy", ("not measured", "not measured")),
    ):
        shown = {"columns": [Column(metric=metric)], "also": [], "rows": rows, "claims": [], "figures": []}
        table = TABLE.model_copy(update=shown)
        shown = cells(build_report(collect(table, "paper", tmp_path)))
        assert (shown["T-L3"]["ours"], shown["+ tanh SDU"]["ours"]) == expected
        assert (shown["+ sigmoid SDU"]["n"], shown["small"]["ours"]) == ("0 of 1 (1 diverged)", "not at this budget")
    empty = build_report(collect(TABLE, "mini", tmp_path))
    assert {line["ours"] for line in cells(empty).values()} == {"not run"}
    assert empty.conclusion.startswith("Not run. ") and "table=highway_t1 budget=mini" in empty.conclusion
    timed = build_report(collect(load_table("highway_t7"), "paper", tmp_path))
    assert timed.conclusion == "Not run. Type highway table time highway_t7 --budget paper."


def test_times_beside_other_work_are_left_out(tmp_path: Path) -> None:
    """The column shows times where one counts; where none does, there is no column. A sentence says why."""
    columns = [Column(metric=metric) for metric in ("test_bpc", "train_seconds")]
    changes = {"paper": "", "columns": columns, "also": [], "claims": [], "figures": [], "select": "best"}
    table = TABLE.model_copy(update=changes)
    time = {"train_seconds": {"best": 9.0, "last": 9.0}}
    for row, seed in (("baseline", 1), ("baseline", 2), ("tanh", 1)):
        put(tmp_path, row, seed, 1.4, metrics=time, cost={"exclusive": False})

    def report_of_all() -> Report:
        report = build_report(collect(table, "paper", tmp_path))
        for text in (to_markdown(report), printed(report), html.unescape(to_html(report))):
            assert text.count("Times count only where nothing else ran.") == 1
        return report

    report = report_of_all()
    assert "train (s)" not in report.results.heads and cells(report)["T-L3"]["n"] == "2"
    put(tmp_path, "tanh", 2, 1.4, metrics=time)
    shown = cells(report_of_all())
    assert [shown[row]["train (s)"] for row in ("T-L3", "+ tanh SDU", "+ sigmoid SDU")] == ["", "9", ""]


def test_a_finding_is_filled_from_published_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding may be false without one of its runs, with other runs and with overrides: ours replaces it."""
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path)
    finding = (
        "tanh has {tanh.test_bpc} ({tanh.test_bpc.n} runs), the paper {tanh.test_bpc.paper}, "
        "{tanh.test_bpc.change} below {baseline.test_bpc.mean}."
    )
    table = TABLE.model_copy(update={"finding": {"paper": finding}})
    for seed in (1, 2, 3):
        put(tmp_path, "tanh", seed, 1.4 + seed / 100)
    assert "tanh has" not in build_report(collect(table, "paper", tmp_path)).conclusion
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5 + seed / 100)
    collected = collect(table, "paper", tmp_path)
    expected = "tanh has 1.420 ± 0.010 (3 runs), the paper 1.364, 0.100 below 1.520."
    assert build_report(collected).conclusion == expected
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "none")
    conclusion = build_report(collect(table, "paper", tmp_path)).conclusion
    assert conclusion.startswith("tanh SDU beats no gate on test bpc: supported (+ tanh SDU against T-L3: -0.100 (")


def test_a_report_of_overrides_concludes_about_them(tmp_path: Path) -> None:
    """The rows with the override have verdicts of their own; the claims of the paper are not about them."""
    changed = with_overrides(TABLE, ["paper"], ["model.dropout=0.3"])
    values = [
        (row, seed, value + seed / 1000) for row, value in (("baseline", 1.5), ("tanh", 1.4)) for seed in (1, 2, 3)
    ]
    for row, seed, value in values:
        put(tmp_path, f"{row},model.dropout=0.3", seed, value - 0.2, table=changed)
    assert "not run" not in to_markdown(build_report(collect(changed, "paper", tmp_path))), "what ran has no comparison"
    for row, seed, value in values:
        put(tmp_path, row, seed, value)
    report = build_report(collect(changed, "paper", tmp_path))
    assert report.conclusion.startswith("T-L3 is better than T-L3, unchanged by 0.200 (3 runs); + tanh SDU is better")
    words = {line.texts[0]: line.texts[-1] for line in report.results.lines}
    assert words["+ tanh SDU"] == "better" and words["+ tanh SDU, unchanged"].startswith("outside")
    assert report.claims is None and "unchanged" not in report.origin and not report.choices


def test_equal_rows_are_not_called_different(tmp_path: Path) -> None:
    """The conclusion names verdicts, which are corrected for all rows; twenty uncorrected intervals would name one."""
    rng = np.random.default_rng(2)
    rows = [
        {"id": f"r{number}", "label": f"R{number}", "overrides": [f"model.width={16 * number}"]}
        for number in range(1, 21)
    ]
    grid = parse_table(content(recipe=["model=transformer", "dataset=ptb_char"], rows=rows, paper=""))
    for row in grid.rows:
        for seed in (1, 2, 3):
            put(tmp_path, row.id, seed, 1.5 + rng.normal(0, 0.02), table=grid)
    report = build_report(collect(grid, "paper", tmp_path))
    sizes = [difference.size for difference in report.differences.values() if difference.size]
    assert len(sizes) == 19 and any(size.low > 0 or size.high < 0 for size in sizes)
    assert report.conclusion.startswith("Nothing is decided. Best test bits per character: ")


@pytest.mark.parametrize(
    ("finding", "message"),
    [
        ({"mini": "x"}, "there is no budget 'mini'. Available: paper"),
        ({"paper": "word " * 61}, "it has 61 words"),
        ({"paper": "{b.test_bpc}"}, "{b.test_bpc} names no number"),
        ({"paper": "{a.test_bcp}"}, "{a.test_bcp} names no number"),
        ({"paper": "{a.test_bpc.median}"}, "with one of mean, n, paper, change"),
        ({"paper": "{a.test_bpc.paper}"}, "has no test_bpc of the paper"),
        ({"paper": "{a.valid_bpc.change}"}, "Write {a.test_bpc.change}"),
        ({"paper": "{a}"}, "{a} names no number"),
        ({"paper": "{a.test_bpc.mean.n}"}, "names no number"),
    ],
)
def test_a_finding_that_no_report_can_fill_is_refused(finding: dict[str, str], message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)):
        parse_table(content(recipe=["model=transformer", "dataset=ptb_char"], finding=finding))


def test_a_smoke_report_says_what_to_type_next(tmp_path: Path) -> None:
    put(tmp_path, "baseline", 1, 1.5, "smoke")
    text = to_markdown(build_report(collect(TABLE, "smoke", tmp_path)))
    assert text.rstrip().endswith("Next: `highway train -m table=highway_t1 budget=mini seeds=1,2,3`")
    assert "It works: 1 row trained on" in text and "Claims" not in text and "leaves open" not in text


def test_a_table_of_ones_own_is_judged_at_smoke(tmp_path: Path) -> None:
    """Counts are the same for every seed, and settings follow the numbers."""
    claim = {"text": "x", "better": "b", "than": "a", "metric": "test_bpc"}
    rows = [
        {"id": name, "label": name, "overrides": [f"gate={gate}"]} for name, gate in (("a", "none"), ("b", "sdu_tanh"))
    ]
    columns = [{"metric": "test_bpc"}, {"metric": "parameters"}]
    changes = {"rows": rows, "columns": columns, "budgets": {"smoke": []}, "claims": [claim], "paper": ""}
    table = parse_table(content(recipe=["model=transformer", "dataset=ptb_char"], **changes))
    for seed in (1, 2, 3):
        put(tmp_path, "a", seed, 1.5 + seed / 100, "smoke", table=table)
        put(tmp_path, "b", seed, 1.4 + seed / 101, "smoke", table=table)
    report = build_report(collect(table, "smoke", tmp_path))
    text = to_markdown(report)
    assert [verdict.word for verdict in report.verdicts] == ["better"] and "Budget smoke" in text
    assert cells(report)["a"]["parameters"] == "7" and "docs/STATISTICS.md" not in text
    assert text.index("|a|") < text.index("All runs:")


def test_failed_runs_are_counted_in_their_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "published")
    put(tmp_path / "published", "gated_mhdpa", 1, 1.6)
    put(tmp_path, "gated_mhdpa", 1, 1.6, status="failed")
    put(tmp_path, "baseline", 1, 1.5)
    for row, seed in (("baseline", 2), ("tanh", 1), ("highway", 1)):
        put(tmp_path, row, seed, 1.5, status="failed", error="NameError: name 'x' is not defined")
    report = build_report(collect(TABLE, "paper", tmp_path))
    counts = {label: line["n"] for label, line in cells(report).items()}
    assert counts["T-L3"] == "1 of 2 (1 failed)" and counts["+ tanh SDU"] == "0 of 1 (1 failed)"
    assert counts["+ highway gate"] == "0 of 1 (1 failed)", "an extra row is shown once it has begun"
    assert counts["+ gated MHDPA"] == "1", "the seed has a published record"
    assert cells(report)["+ sigmoid SDU"]["ours"] == "not run" and cells(report)["+ tanh SDU"]["ours"] == ""


def test_a_table_of_ones_own_speaks_of_no_paper(tmp_path: Path) -> None:
    """Without claims, each row has a verdict beside its baseline; the settings that all runs share are listed."""
    choices = {
        "model": ["transformer"],
        "dataset": ["ptb_char"],
        "gate": ["none", "sdu_tanh", "sdu_sigmoid"],
        "optimizer.lr": ["0.25"],
    }
    grid = parse_table(as_table(Typed(name="rates", overrides=choices)))
    values = {"gate=none": (1.5, 1.51, 1.52), "gate=sdu_tanh": (1.4, 1.41, 1.42), "gate=sdu_sigmoid": (1.6, 1.61, 1.62)}
    for row, of_row in values.items():
        for seed, value in enumerate(of_row, 1):
            put(tmp_path, row, seed, value, table=grid)
    report = build_report(collect(grid, "paper", tmp_path))
    words = {label: line["verdict"] for label, line in cells(report).items()}
    assert words == {"gate=none": "", "gate=sdu_tanh": "better", "gate=sdu_sigmoid": "worse"}
    text = to_markdown(report)
    assert "paper" not in text.lower() and "budget" not in text.lower()
    assert "|model|test bits per character|valid bits per character|n|difference|verdict|" in text
    assert "`optimizer.lr=0.25`" in text and "gate.residual" not in text, "what all runs share, and not what differs"
    assert report.conclusion.startswith("gate=sdu_tanh is better than gate=none by 0.100 (3 runs)")


def test_written_files_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    for row, value in (("baseline", 1.5), ("tanh", 1.4)):
        put(tmp_path, row, 1, value)
        put(tmp_path, row, 2, value + 0.01)
    _, first = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "first")
    _, second = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "second")
    names = ["table.md", "table.csv", "table.tex", "claims.csv", "effects.tex", "convergence.svg"]
    assert [path.name for path in first] == names
    for path, again in zip(first, second, strict=True):
        assert path.read_bytes() == again.read_bytes()
    assert "T-L3" in (tmp_path / "first" / "convergence.svg").read_text()


def test_local_records_come_before_published_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = put(tmp_path / "published", "tanh", 1, 1.9)
    monkeypatch.setattr("highway.config.home.REFERENCE", tmp_path / "published")
    assert collect(TABLE, "paper", tmp_path / "mine").samples["tanh"][0].directory == published
    mine = put(tmp_path / "mine", "tanh", 1, 1.4)
    assert collect(TABLE, "paper", tmp_path / "mine").samples["tanh"][0].directory == mine


def test_commits_of_a_project_count_too(tmp_path: Path) -> None:
    """Seeds that were trained with different code of a project say so."""
    for seed, commit in ((1, "a"), (2, "a"), (3, "b+")):
        project = {"package": "mine", "git_commit": commit}
        environment = {"versions": {"torch": "2"}, "precision": "32", "git_commit": "c", "project": project}
        put(tmp_path, "tanh", seed, 1.4, environment=environment)
    report = build_report(collect(TABLE, "paper", tmp_path))
    assert "2 commits (table.csv)." in report.ran and ",c mine b+" in to_csv(report.collected)


HOSTILE = "[/bold]<script>alert(1)</script> | \\input{x} $y$ *z* `w`"


def test_what_a_record_says_is_text_everywhere(tmp_path: Path) -> None:
    data = {"source": HOSTILE, "sha256": {"train": "a"}, "vocabulary_sha256": HOSTILE}
    environment = {"versions": {"torch": HOSTILE}, "precision": HOSTILE, "git_commit": HOSTILE}
    for row in ("tanh", "baseline"):
        put(tmp_path, row, 1, 1.4, data=data, environment=environment, cost={"device": HOSTILE})
    report, _ = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "report")
    assert HOSTILE.split(" |")[0] in " ".join(printed(report, 200).split())
    markdown = (tmp_path / "report" / "table.md").read_text()
    assert "<script>" not in markdown and "&lt;script&gt;" in markdown and "\\| \\\\input{x}" in markdown
    assert "<script>" not in to_html(report) and "&lt;script&gt;" in to_html(report)
    labels = [row.model_copy(update={"label": HOSTILE}) for row in TABLE.rows]
    report = build_report(collect(TABLE.model_copy(update={"rows": labels}), "paper", tmp_path))
    latex = "\n".join(line for line in to_latex(report).splitlines() if not line.startswith("%"))
    assert "\\textbackslash{}input\\{x\\} \\$y\\$" in latex and "<" not in latex and "\\input" not in latex


def test_the_tabular_needs_no_editing(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5)
        put(tmp_path, "tanh", seed, 1.4 + seed / 1000)
    latex = to_latex(build_report(collect(TABLE, "paper", tmp_path)))
    assert "+ tanh SDU & 1.364 & 1.402 $\\pm$ 0.001 & 3 & $-$0.098 ($-$0.100 \\ldots{} $-$0.096) & outside: " in latex
    assert latex.count(" & ") == 5 * 4 and "\\begin{tabular}{lrrrrl}" in latex


def test_rows_on_two_texts_are_no_full_data(tmp_path: Path) -> None:
    for row, text in (("baseline", "a"), ("tanh", "b")):
        put(tmp_path, row, 1, 1.4, data={"source": "files", "sha256": {"train": text}, "vocabulary_sha256": "v"})
    collected = collect(TABLE, "paper", tmp_path)
    assert "rows on different texts under one name, so they do not compare" in collected.caveat
    assert not collected.full_data


NEEDED = ("budget", "metrics", "data", "environment", "cost", "parameters")  # keys that a report reads


def test_a_wrong_record_is_named_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It counts as not finished, whoever asks, and it stops no report."""
    good, flipped, curveless, lacking, *keyless = (put(tmp_path, "tanh", seed, 1.4) for seed in range(4 + len(NEEDED)))
    for folder, key in zip(keyless, NEEDED, strict=True):
        result = json.loads((folder / "result.json").read_text())
        del result[key]
        (folder / "result.json").write_bytes(with_checksum(result))
    (flipped / "result.json").write_bytes(b"\xff\x00{")
    (curveless / "curves.csv").write_bytes(bytes(range(256)))
    result = json.loads((lacking / "result.json").read_text())
    del result["metrics"]["valid_bpc"]
    (lacking / "result.json").write_bytes(with_checksum(result))
    with caplog.at_level(logging.WARNING):
        report = build_report(collect(TABLE, "paper", tmp_path))
        build_report(collect(TABLE, "paper", tmp_path))
    assert cells(report)["+ tanh SDU"]["n"] == "1"
    messages = [record.getMessage() for record in caplog.records]
    sentences = {
        flipped: "result.json is corrupt",
        curveless: "curves.csv cannot be read",
        lacking: "metrics.valid_bpc is missing, but curves.csv has it",
        **{folder: f"result.json.{key} is missing" for folder, key in zip(keyless, NEEDED, strict=True)},
    }
    assert len(messages) == len(sentences), "each is named once"
    for folder, sentence in sentences.items():
        assert any(f"{folder}: " in line and sentence in line for line in messages), sentence
    assert [folder for folder in (good, flipped, *keyless) if RunDirectory(folder).status in DONE] == [good]


@pytest.mark.parametrize("other", [{"vocabulary_sha256": "other"}, {"sha256": {"train": "other"}}])
def test_rows_on_other_data_or_vocabularies_are_not_compared(tmp_path: Path, other: dict[str, Any]) -> None:
    """A report has no verdict and no difference for them."""
    same = {"source": "files", "sha256": {"train": "a"}, "vocabulary_sha256": "v", "counting_loss": 99.0}
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5 + seed / 1000)
        put(tmp_path, "sigmoid", seed, 1.4 + seed / 1000)
        put(tmp_path, "tanh", seed, 1.2 + seed / 1000, data={**same, **other})
    report = build_report(collect(TABLE, "paper", tmp_path))
    words = {verdict.word for verdict in report.verdicts if "tanh" in (*verdict.claim.rows, *verdict.claim.than)}
    assert words == {"not comparable"}
    assert [*report.differences] == ["sigmoid"]


def test_a_record_with_few_metrics_stops_nothing(tmp_path: Path) -> None:
    """A record may have the test loss and a curve of training alone."""
    for seed in (1, 2, 3):
        put(tmp_path, "baseline", seed, 1.5)
        folder = put(tmp_path, "tanh", seed, 1.4)
        (folder / "curves.csv").write_text("step,epoch,seconds,tokens,split,metric,value\n100,1,1,25,train,loss,1.4\n")
        result = read_json(folder / "result.json")
        write_record(folder, {**result, "metrics": {"test_loss": {"best": 1.0, "last": 1.0}}})
    report, _ = write_report(collect(TABLE, "paper", tmp_path), tmp_path / "report")
    assert (
        cells(report)["+ tanh SDU"]["ours"] == "not measured"
        and cells(report)["+ tanh SDU"]["n"] == "0 of 3 (3 not measured)"
    )
    words = {verdict.claim.text: verdict.word for verdict in report.verdicts if "tanh" in verdict.claim.rows}
    assert set(words.values()) <= {"no number that counts", "not run"}, words


def test_the_csv_has_every_run_and_the_means_follow_from_it(tmp_path: Path) -> None:
    """A run that has not learned is in no mean, unless the row has no other."""
    for seed, value in enumerate((1.40, 1.41, 1.42), 1):
        put(tmp_path, "tanh", seed, value)
    put(tmp_path, "tanh", 4, 5.0, metrics={"test_loss": {"best": 100.0, "last": 100.0}})
    put(tmp_path, "tanh", 5, 5.0, status="diverged")
    for seed in (1, 2):
        put(tmp_path, "sigmoid", seed, 5.0, metrics={"test_loss": {"best": 100.0, "last": 100.0}})
    collected = collect(TABLE, "paper", tmp_path)
    lines = list(csv.DictReader(io.StringIO(to_csv(collected))))
    bits = [line for line in lines if line["metric"] == "test_bpc"]
    assert {(line["row"], line["seed"]): line["counts"] for line in bits} == {
        **{("tanh", seed): "True" for seed in "123"},
        ("tanh", "4"): "False",
        ("sigmoid", "1"): "True",
        ("sigmoid", "2"): "True",
    }
    diverged = [line for line in lines if (line["row"], line["seed"]) == ("tanh", "5")]
    assert {line["status"] for line in diverged} == {"diverged"} and "test_bpc" not in {
        line["metric"] for line in diverged
    }
    assert "worse than frequencies" in next(line["status"] for line in bits if line["seed"] == "4")
    shown = cells(build_report(collected))
    assert (shown["+ tanh SDU"]["ours"], shown["+ tanh SDU"]["n"]) == (
        "1.410 (1.400 to 1.420)",
        "3 of 5 (1 diverged, 1 not learned)",
    )
    assert (shown["+ sigmoid SDU"]["ours"], shown["+ sigmoid SDU"]["n"]) == ("5.000 ± 0.000", "2 (none learned)")
    assert {line["label"] for line in lines} == {"'+ tanh SDU", "'+ sigmoid SDU"}, "no cell is a formula"
