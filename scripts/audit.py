"""Compare every row of every table with what the papers say, without data and without training.

    python scripts/audit.py [TABLE...] [--write FILE]

The printed numbers are compared with each other (contradictions.py), and statements about models with the models.
"""

import argparse
import itertools
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from contradictions import BUDGET, Finding, between, of_numbers
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from torch import Tensor, nn

from highway.cards.models import Remembers
from highway.config import project
from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.config.sentences import one_sentence
from highway.describe import gates_of
from highway.errors import Refused, counted
from highway.ledger.files import write_text
from highway.ledger.identity import identified
from highway.machine import cores
from highway.report.collect import authors_logs
from highway.run import build
from highway.sweep.cost import Cost, cost_of
from highway.tables.reading import load_table, table_ids
from highway.tables.table import Row, Stated, Table

CLOSE = 0.03  # relative tolerance for a number of parameters that the paper rounds
UNUSED = "which parts the released code builds and never calls"
START = "the initial weights of the released code"
LOOP = "the condition in the released code's loop over layers"
AS_RELEASED = "layers.as_released=true"
AS_PRINTED = "gate.score.as_printed"


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
    torch.set_num_threads(1)
    return cost_of(described)


def of_sizes(table: Table, costs: dict[str, Cost]) -> Iterator[Finding]:
    """Compare statements about numbers of parameters with the models; report parameters without a gradient."""
    for stated in table.stated:
        if stated.parameters is not None:
            yield _size(table, stated, [table.row(name) for name in stated.rows], costs)
        if stated.built is not None:
            yield _unused(table, stated, table.row(stated.rows[0]), costs)
    for row_id, cost in costs.items():
        if without := cost.without_gradient:
            yield Finding(table, f"our {row_id}", f"{without:,} parameters get no gradient", holds=False)


def of_code(table: Table) -> Iterator[Finding]:
    """Check statements about the start of training, the released code's choice of layers, and printed formulas."""
    for stated in table.stated:
        if stated.words:
            yield _start(table, stated, table.row(stated.rows[0]))
    yield from _selections(table)
    yield from _futures(table)


def _size(table: Table, stated: Stated, rows: list[Row], costs: dict[str, Cost]) -> Finding:
    counts = [costs[row.id].parameters for row in rows]
    assert stated.parameters is not None
    holds = all(abs(count / stated.parameters - 1) <= CLOSE for count in counts)
    computed = "; ".join(f"{row.label}: {count:,}" for row, count in zip(rows, counts, strict=True))
    return Finding(table, stated.text, computed, holds, f"highway table explain {table.id} {rows[0].id}")


def _unused(table: Table, stated: Stated, row: Row, costs: dict[str, Cost]) -> Finding:
    """Count the parameters that R-Transformer's released code builds but never uses.

    They are a square map in every LocalRNN, one feed-forward layer of four times the width, and a last layer norm. No
    output depends on them.
    """
    model = experiment(table.overrides(row, BUDGET, 1)).model
    width = model.width
    unused = model.layers * model.local_layers * (width**2 + width) + (8 * width**2 + 5 * width) + 2 * width
    used = costs[row.id].parameters
    computed = f"{used:,} are used, {unused:,} ({unused / (used + unused):.0%}) never are"
    computed += "" if used + unused == stated.built else f"; that would be {used + unused:,}"
    return Finding(table, stated.text, computed, used == stated.built, read=UNUSED)


def _start(table: Table, stated: Stated, row: Row) -> Finding:
    """Compare the recipe, which a person read in the released code, with the overrides that the paper's text gives."""
    recipe = [*table.overrides(row, BUDGET, 1)]
    first, other = (_first_loss(experiment([*recipe, *overrides])) for overrides in ((), stated.words))
    first, other = first / math.log(2), other / math.log(2)
    computed = f"training would start at {other:,.0f} bits a symbol, with the released code's start at {first:.1f}"
    if log := authors_logs(table).get(row.id, {}).get(("train", "loss")):
        computed += f"; the authors' log has {log[0].value / math.log(2):.2f} after {log[0].step:.0f} steps"
    same = identified(experiment(recipe)) == identified(experiment([*recipe, *stated.words]))
    return Finding(table, stated.text, computed, same, f"highway train {' '.join([*recipe, *stated.words])}", START)


@torch.no_grad()
def _first_loss(described: Experiment) -> float:
    model = build.model(described).eval()
    symbols = described.dataset.vocabulary_size
    text = torch.randint(symbols, (1, 65), generator=torch.Generator().manual_seed(0))
    features, _ = model(text[:, :-1], None)
    return float(nn.functional.cross_entropy(model.logits(features).flatten(0, 1), text[:, 1:].flatten()))


def _selections(table: Table) -> Iterator[Finding]:
    """Compare the gated layers of each row with those of the released code's loop over layers."""
    baseline = identified(experiment(table.overrides(table.at(BUDGET)[0], BUDGET, 1)))
    for row in table.at(BUDGET):
        overrides = table.overrides(row, BUDGET, 1)
        if row.extra or not any(override.startswith("layers=l") for override in overrides):
            continue
        printed, released = (identified(experiment([*overrides, *added])) for added in ((), (AS_RELEASED,)))
        computed = "the released code's loop gates the same layers"
        if released != printed:
            computed = "the released code's loop gates other layers"
        if released == baseline:
            computed = f"the released code's loop gates no layer: it is the run of {table.rows[0].label}"
        command = f"highway train {' '.join([*overrides, AS_RELEASED])}"
        yield Finding(table, f"{row.label}: gates on some layers", computed, released == printed, command, LOOP)


def _futures(table: Table) -> Iterator[Finding]:
    """Check, by its derivative, whether a decoder's output depends on later pieces in rows with the printed formula."""
    for row in table.at(BUDGET):
        overrides = table.overrides(row, BUDGET, 1)
        if f"{AS_PRINTED}=true" not in overrides:
            continue
        small = ("model.width=48", "model.feed_forward=48", "model.layers=2", "dataset.pieces.files=[20,20]")
        ways = ("true", "false")
        printed, masked = (_leak(experiment([*overrides, *small, f"{AS_PRINTED}={way}"])) for way in ways)
        computed = (
            f"an output changes with the piece after it (derivative {printed:.2g}; {masked:g} with P masked first)"
        )
        yield Finding(table, f"{row.label}: the formula of the gate", computed, printed == 0)


def _leak(described: Experiment) -> float:
    """Return the largest derivative of the third output with respect to later inputs, with random gate parameters."""
    model = build.model(described).eval()
    generator = torch.Generator().manual_seed(0)
    for gate in gates_of(model).values():
        for parameter in gate.parameters():
            nn.init.uniform_(parameter, -1, 1, generator=generator)
    vectors: list[Tensor] = []

    def watch(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        vectors.append(output.detach().requires_grad_())
        return vectors[0]

    handle = model.target_embedding.register_forward_hook(watch)
    pieces = torch.arange(4, 10)[None]
    features = model(pieces, pieces)
    handle.remove()
    (gradient,) = torch.autograd.grad(features[0, 2, 0], vectors[0])
    return float(gradient[:, 3:].abs().max())


COLUMNS = (
    "no gradient: parameters that a training step gives no gradient; MFLOP/token: million floating-point operations "
    "of a training step, for each token."
)
MARKS = {True: ("agrees", "green"), False: ("differs", "red")}


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
    differing = sum(not finding.holds for finding in audited.findings)
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
a paper or its code, it says "read by a person" and what. `python scripts/audit.py --write docs/AUDIT.md` writes this
page. What training says of their claims is in the reports: `make report`.
"""


def to_markdown(audited: Audited) -> str:
    """Return the page of findings: every statement that differs, with the command that shows it."""
    out = [INTRODUCTION]
    for table in audited.tables:
        differing = [finding for finding in audited.of(table) if not finding.holds]
        agreeing = sum(finding.holds for finding in audited.of(table))
        if not differing:
            continue
        out += [f"## {table.paper}", "", f"`{table.id}`: {table.caption}. {agreeing} other statements agree.", ""]
        out += ["| the paper, or its code | computed | shown by |", "| --- | --- | --- |"]
        for finding in differing:
            command = finding.command or f"python scripts/audit.py {table.id}"
            out.append(f"| {finding.says} | {shown(finding)} | `{command}` |")
        out.append("")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="default: every table")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the differences to this Markdown file")
    arguments = parser.parse_args()
    with one_sentence():
        project.load()
        if arguments.write and arguments.write.is_dir():
            raise Refused(f"{arguments.write} is a folder; --write takes a file, as in --write audit.md.")
        audited = audit(arguments.tables or table_ids())
        show(audited, Console())
        if arguments.write:
            write_text(arguments.write, to_markdown(audited))


if __name__ == "__main__":
    main()
