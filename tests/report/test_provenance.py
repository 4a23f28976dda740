"""Marks on the numbers of records: every renderer says what is unknown about their code."""

import dataclasses
import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from highway.errors import Refused
from highway.files.writing import read_json
from highway.report.across import across
from highway.report.checks import NOT_REPEATED, Check, keep
from highway.report.collect import collect
from highway.report.formats import to_csv, to_latex, to_markdown
from highway.report.origins import origins
from highway.report.provenance import EXPLAINED, of_runs, unknown
from highway.report.report import build_report
from highway.report.terminal import print_report, print_sections
from highway.site.build import build_site
from tests.support.tables import TABLE, put

pytestmark = pytest.mark.usefixtures("no_published_records")


def environment(commit: str | None) -> dict[str, Any]:
    return {"versions": {"torch": "2"}, "precision": "32", "git_commit": commit}


CASES: dict[str, dict[str, Any]] = {
    "no fingerprint": {"fingerprint": None},
    "two codes": {"fingerprint": "a" * 12 + "+" + "b" * 12},
    "no commit": {"environment": environment(None)},
    "uncommitted changes": {"environment": environment("abc+")},
}


@pytest.mark.parametrize("mark", CASES)
def test_every_renderer_marks_a_number_of_unknown_code(tmp_path: Path, mark: str) -> None:
    table = dataclasses.replace(TABLE, reaches="valid_bpc", also=TABLE.columns[-1:])
    for seed in (1, 2):
        put(tmp_path, "baseline", seed, 1.5 + seed / 100)
        put(tmp_path, "tanh", seed, 1.4 + seed / 90, **CASES[mark])
    report = build_report(collect(table, "paper", tmp_path))
    baseline, tanh = (
        next(row.seeds.marks for row in report.rows if row.row.id == name) for name in ("baseline", "tanh")
    )
    assert (baseline, mark in tanh) == ([], True)
    print_report(report, Console(file=(terminal := io.StringIO()), width=1000))
    page = build_site(tmp_path, [table]).parent / TABLE.id / "index.html"
    rendered = [terminal.getvalue(), to_markdown(report), to_latex(report), page.read_text()]
    for text in rendered:
        assert f"{mark[0].upper()}{mark[1:]}: {EXPLAINED[mark]}." in " ".join(text.split())
        assert text.count(mark) >= 1
    same = ("| + tanh SDU |", f"| + tanh SDU, {mark}")
    named = [line for line in to_markdown(report).splitlines() if line.startswith(same)]
    assert len(named) == 4 and all(mark in line for line in named), "results, also measured, convergence, differences"
    runs = [text for path in page.parents[1].glob("cells/*.html") if mark in (text := path.read_text())]
    assert len(runs) == 2
    assert all(f": {EXPLAINED[mark]}." in run and f"the last model ({mark}" in run for run in runs)
    assert len(re.findall(rf"<td[^>]*>{mark}", page.read_text().partition("Cost</h3>")[2])) == 2
    assert (page.parent / "paper" / "curves.js").read_text().count(f"seed 1 ({mark}") == 1
    lines = to_csv(report).splitlines()
    assert lines[0].endswith(",marks")
    assert all((mark in line) is (",tanh," in line) for line in lines[1:])


def test_a_report_ends_with_where_its_runs_were_made(tmp_path: Path) -> None:
    """The last section names runs by device, versions and commit, then by the code that trained them again."""
    put(tmp_path, "baseline", 1, 1.5)
    put(tmp_path, "baseline", 2, 1.5)
    assert origins(collect(TABLE, "paper", tmp_path)) == ["a device, torch 2, precision 32, commit abc"]
    earlier = {"fingerprint": "0" * 12, "environment": environment("def+")}
    trained_again = [put(tmp_path, "tanh", seed, 1.4, **earlier) for seed in (1, 2, 3)]
    found = ((True, "equal to the digit"), (False, "equal within rounding"), (False, NOT_REPEATED))
    for folder, (evaluation, training) in zip(trained_again, found, strict=True):
        run, curves = "/".join(folder.parts[-2:]), read_json(folder / "result.json")["files"]["curves.csv"]
        check = Check(run, curves, "2026-11-20", "0123456789ab", "a device", 25, training, evaluation)
        keep(tmp_path / "checks.yaml", [check])
    collected = collect(TABLE, "paper", tmp_path)
    assert origins(collected) == [
        "a device, torch 2, precision 32, commit abc: T-L3 (seeds 1, 2)",
        "a device, torch 2, precision 32, commit def+: + tanh SDU (seeds 1, 2, 3)",
        "Checked on 2026-11-20 with the code of commit 0123456: + tanh SDU (seed 1)",
        "Training checked on 2026-11-20 with the code of commit 0123456: + tanh SDU (seed 2)",
    ]
    (row,) = (row for row in build_report(collected).rows if row.row.id == "tanh")
    changes = "checked (seed 1), training checked (seed 2), stale: other code (seed 3)"
    assert str(row.seeds) == f"seeds 1, 2, 3, uncommitted changes, {changes}"
    page = (build_site(tmp_path, [TABLE]).parent / "cells" / f"{collected.samples['tanh'][0].name}.html").read_text()
    assert "checked on 2026-11-20 with the code of commit 0123456" in page


def test_a_mark_names_the_seeds_that_have_it(tmp_path: Path) -> None:
    for seed, code in ((1, None), (2, "0" * 12), (3, None)):
        put(tmp_path, "tanh", seed, 1.4, fingerprint=code, environment=environment(None))
    (row,) = (row for row in build_report(collect(TABLE, "paper", tmp_path)).rows if row.row.id == "tanh")
    expected = "seeds 1, 2, 3, no fingerprint (seeds 1, 3), no commit, stale: other code (seed 2)"
    assert str(row.seeds) == expected


@pytest.mark.parametrize("mark", CASES)
def test_a_verdict_has_the_mark_of_the_runs_it_rests_on(tmp_path: Path, mark: str) -> None:
    """In reports, on the index of the site (its lists and its points) and over all tables."""
    for seed in (1, 2):
        put(tmp_path, "baseline", seed, 1.5 + seed / 100, budget="mini")
        put(tmp_path, "tanh", seed, 1.4 + seed / 90, budget="mini", **(CASES[mark] if seed == 1 else {}))
        put(tmp_path, "sigmoid", seed, 1.4 + seed / 80, budget="mini")
    put(tmp_path, "baseline", 1, 1.5)
    put(tmp_path, "tanh", 1, 1.4, **CASES[mark])
    report = build_report(collect(TABLE, "mini", tmp_path))
    rests = {verdict.claim.text: verdict for verdict in report.verdicts if verdict.runs}
    marked = {text: f"{mark} (1 of {len(verdict.runs)} runs)" for text, verdict in rests.items() if verdict.marks}
    assert marked == {
        text: verdict.marks for text, verdict in rests.items() if "tanh" in (*verdict.claim.rows, *verdict.claim.than)
    }
    assert 0 < len(marked) < len(rests)
    print_report(report, Console(file=(terminal := io.StringIO()), width=1000))
    index = build_site(tmp_path, [TABLE])
    page = (index.parent / TABLE.id / "index.html").read_text()
    for text, marks in marked.items():
        (line,) = (line for line in to_markdown(report).splitlines() if line.startswith(f"| {text} |"))
        assert f"**{rests[text].word}**, {marks} |" in line
        assert f"{rests[text].word}, {marks}" in terminal.getvalue()
        assert f"{rests[text].word}</span> <small>{marks}</small>" in page
    lists = re.findall(r'<span class="count">(.*?)</span> </td>', index.read_text(), re.S)
    assert sum(f"<small>{mark} (1 of " in words for words in lists) == 2, "at paper and at mini budget"
    rows = re.findall(r"<tr data-word=.*?</tr>", index.read_text(), re.S)
    measured = {row for row in rows if f"1 seed, {mark}" in row}
    assert {f'title="{mark}"' in row and f', {mark}"' in row for row in measured} == {True}
    assert {"tanh SDU" in row for row in measured} == {True} and len(measured) == len(rows) / 2
    assert f"{mark[0].upper()}{mark[1:]}: {EXPLAINED[mark]}." in index.read_text()
    sections = across(collect(TABLE, budget, tmp_path) for budget in TABLE.budgets)
    print_sections(sections, Console(file=(over_all := io.StringIO()), width=1000))
    assert (
        f"any gate, {mark} (1 of 6 runs)" in over_all.getvalue()
        and f"sdu tanh, {mark} (1 of 4 runs)" in over_all.getvalue()
    )
    assert f"{mark[0].upper()}{mark[1:]}: {EXPLAINED[mark]}." in over_all.getvalue()
    assert f"any gate, {mark} (1 of 6 runs)" in (index.parent / "across.html").read_text()


def test_marks_of_several_runs_are_counted() -> None:
    def marks(code: str | None, commit: str | None = "abc") -> list[str]:
        return unknown({"fingerprint": code, "environment": environment(commit)})

    assert of_runs([]) == of_runs([marks("a")]) == ""
    assert of_runs([marks(None), marks(None)]) == "no fingerprint"
    assert of_runs([marks("a", None), marks(None, None), marks("a+b", None)]) == (
        "no fingerprint (1 of 3 runs), two codes (1 of 3 runs), no commit"
    )


def test_a_record_that_trained_otherwise_says_so_even_with_the_code_of_today(tmp_path: Path) -> None:
    folder = put(tmp_path, "tanh", 1, 1.4)
    curves = read_json(folder / "result.json")["files"]["curves.csv"]
    run, about = "/".join(folder.parts[-2:]), ("2026-11-20", "0123456789ab", "a device", 25)
    for training, marks in (("equal to the digit", []), ("different from step 25", ["trains otherwise"])):
        keep(tmp_path / "checks.yaml", [Check(run, curves, *about, training, True)])
        collected = collect(TABLE, "paper", tmp_path)
        assert collected.samples["tanh"][0].marks == marks and len(origins(collected)) == 1 + len(marks)


@pytest.mark.parametrize("text", ["", "a: 1", "- {run: a, other: 1}", "- 1", "[["])
def test_checks_that_cannot_be_read_are_named_and_stop_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    put(tmp_path, "tanh", 1, 1.4, fingerprint="0" * 12)
    (file := tmp_path / "checks.yaml").write_text(text)
    (row,) = (row for row in build_report(collect(TABLE, "paper", tmp_path)).rows if row.row.id == "tanh")
    assert str(row.seeds) == "seed 1, stale: other code"
    assert len([message for message in caplog.messages if "checks.yaml" in message]) == 1
    with pytest.raises(Refused, match=r"checks\.yaml"):
        keep(file, [])
    assert file.read_text() == text, "a file of checks is never replaced unread"
