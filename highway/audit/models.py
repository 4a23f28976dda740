"""Compare what papers and released code say about their models with the models themselves."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from highway.audit.contradictions import BUDGET, Finding
from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.describe import gates_of
from highway.ledger.identity import identified
from highway.report.collect import authors_logs
from highway.run import build
from highway.sweep.cost import Cost
from highway.sweep.table import Row, Stated, Table

CLOSE = 0.03  # relative tolerance for a number of parameters that the paper rounds
UNUSED = "which parts the released code builds and never calls"
START = "the initial weights of the released code"
LOOP = "the condition in the released code's loop over layers"
AS_RELEASED = "layers.as_released=true"
AS_PRINTED = "gate.score.as_printed"


def of_sizes(table: Table, costs: dict[str, Cost]) -> Iterator[Finding]:
    """Compare statements about numbers of parameters with the models; report parameters without a gradient."""
    for stated in table.stated:
        if stated.parameters is not None:
            yield _size(table, stated, [table.row(name) for name in stated.rows], costs)
        if stated.built is not None:
            yield _unused(table, stated, table.row(stated.rows[0]), costs)
    for row_id, cost in costs.items():
        if without := cost.without_gradient:
            yield Finding(table, f"our {row_id}", f"{without:,} parameters get no gradient", not without)


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
