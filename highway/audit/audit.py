"""The audit: compare every row of every table with what the papers say, without data and without training."""

import itertools
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from highway.audit.contradictions import BUDGET, Finding, between, of_numbers
from highway.audit.models import of_code, of_sizes
from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.config.models import Remembers
from highway.errors import counted
from highway.ledger.identity import identified
from highway.ledger.machine import cores
from highway.sweep.cost import Cost, cost_of
from highway.sweep.reading import load_table
from highway.sweep.table import Table


@dataclass(frozen=True)
class Audited:
    tables: Sequence[Table]
    costs: dict[str, dict[str, Cost]]  # table id -> row id -> cost of the row
    findings: Sequence[Finding]

    def of(self, table: Table) -> list[Finding]:
        return [finding for finding in self.findings if finding.table.id == table.id]


def audit(table_ids: Sequence[str]) -> Audited:
    """Audit the papers' rows, and the extra rows about which the paper or its code states something."""
    tables = [table for table in map(load_table, table_ids) if BUDGET in table.budgets]
    experiments = {
        (table.id, row.id): experiment(table.overrides(row, BUDGET, seed=1))
        for table in tables
        for row in table.at(BUDGET)
        if not row.extra or any(row.id in stated.rows for stated in table.stated)
    }
    names = {row: identified(described) for row, described in experiments.items()}
    distinct = {
        names[row]: described for row, described in experiments.items()
    }  # rows with the same experiment are built once
    distinct = dict(
        sorted(distinct.items(), key=lambda item: item[1].remembers is not Remembers.STATE)
    )  # the slowest first
    with ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool:
        row_costs = pool.map(_cost, distinct.values())
        findings = {table.id: [*of_numbers(table), *of_code(table)] for table in tables}
        counts = dict(zip(distinct, row_costs, strict=True))
    costs = {table.id: {row[1]: counts[name] for row, name in names.items() if row[0] == table.id} for table in tables}
    for table in tables:
        findings[table.id] += of_sizes(table, costs[table.id])
    return Audited(tables, costs, [*itertools.chain(*findings.values()), *between(tables, experiments)])


def _cost(described: Experiment) -> Cost:
    import torch

    torch.set_num_threads(1)
    return cost_of(described)


COLUMNS = (
    "no gradient: parameters that a training step gives no gradient; MFLOP/token: million floating-point operations "
    "of a training step, for each token."
)
MARKS: dict[bool | None, tuple[str, str]] = {
    True: ("agrees", "green"),
    False: ("differs", "red"),
    None: ("open", "yellow"),
}


def show(audited: Audited, console: Console) -> None:
    for table in audited.tables:
        grid = RichTable(box=SIMPLE_HEAD, title=Text(table.heading, style="table.title"), title_justify="left")
        grid.add_column("row", overflow="fold")
        for head in ("parameters", "of gates", "no gradient", "MFLOP/token"):
            grid.add_column(head, justify="right", no_wrap=True, min_width=len(head))
        for row_id, row_cost in audited.costs[table.id].items():
            grid.add_row(row_id, *cells(row_cost))
        console.print(grid)
        findings = RichTable(box=SIMPLE_HEAD, show_header=False)
        findings.add_column(no_wrap=True)
        findings.add_column("says")
        findings.add_column("computed", style="dim")
        for finding in audited.of(table):
            findings.add_row(Text(*MARKS[finding.holds]), Text(finding.says), Text(shown(finding)))
        console.print(findings)
    console.print(COLUMNS, soft_wrap=True)
    differing = sum(finding.holds is False for finding in audited.findings)
    console.print(f"{counted(len(audited.findings), 'statement')} held against numbers and models: {differing} differ.")


def cells(row_cost: Cost) -> list[str]:
    numbers = (row_cost.parameters, row_cost.of_gates, row_cost.without_gradient)
    return [
        *(f"{number:,}" for number in numbers),
        f"{row_cost.operations / 1e6:,.1f}",
    ]


def shown(finding: Finding) -> str:
    """Return what was computed, and what a person had to read for it."""
    return f"{finding.computed} (read by a person: {finding.read})" if finding.read else finding.computed


INTRODUCTION = """# Audit

What `make audit` finds in the four papers: everything below is computed from their printed numbers, from their models,
built here without data, and from the recipes of their released code. Where a result also rests on what a person read in
a paper or its code, it says "read by a person" and what. `highway audit --write docs/AUDIT.md` writes this page.
What training says of their claims is in the reports: `make report`.
"""


def to_markdown(audited: Audited) -> str:
    """Return the page of findings: every statement that differs, with the command that shows it."""
    out = [INTRODUCTION]
    for table in audited.tables:
        differing = [finding for finding in audited.of(table) if finding.holds is False]
        agreeing = sum(finding.holds is True for finding in audited.of(table))
        if not differing:
            continue
        out += [f"## {table.paper}", "", f"`{table.id}`: {table.caption}. {agreeing} other statements agree.", ""]
        out += ["| the paper, or its code | computed | shown by |", "| --- | --- | --- |"]
        for finding in differing:
            command = finding.command or f"highway audit {table.id}"
            out.append(f"| {finding.says} | {shown(finding)} | `{command}` |")
        out.append("")
    return "\n".join(out)
