"""Marks on the numbers of records: every renderer says what is unknown about their code."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from highway.report.collect import collect
from highway.report.formats import to_csv, to_latex, to_markdown
from highway.report.provenance import EXPLAINED
from highway.report.report import build_report
from highway.report.terminal import print_report
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
    put(tmp_path, "baseline", 1, 1.5)
    put(tmp_path, "tanh", 1, 1.4, **CASES[mark])
    report = build_report(collect(TABLE, "paper", tmp_path))
    baseline, tanh = (
        next(row.seeds.marks for row in report.rows if row.row.id == name) for name in ("baseline", "tanh")
    )
    assert (baseline, mark in tanh) == ([], True)
    print_report(report, Console(file=(terminal := io.StringIO()), width=1000))
    page = build_site(tmp_path, [TABLE]).parent / TABLE.id / "index.html"
    rendered = [terminal.getvalue(), to_markdown(report), to_latex(report), page.read_text()]
    for text in rendered:
        assert f"{mark[0].upper()}{mark[1:]}: {EXPLAINED[mark]}." in " ".join(text.split())
        assert text.count(mark) >= 1
    lines = to_csv(report).splitlines()
    assert lines[0].endswith(",marks")
    assert all((mark in line) is (",tanh," in line) for line in lines[1:])


def test_a_mark_names_the_seeds_that_have_it(tmp_path: Path) -> None:
    for seed, code in ((1, None), (2, "0" * 12), (3, None)):
        put(tmp_path, "tanh", seed, 1.4, fingerprint=code, environment=environment(None))
    (row,) = (row for row in build_report(collect(TABLE, "paper", tmp_path)).rows if row.row.id == "tanh")
    expected = "seeds 1, 2, 3, no fingerprint (seeds 1, 3), no commit, stale: other code (seed 2)"
    assert str(row.seeds) == expected
