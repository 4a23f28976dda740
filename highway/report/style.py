"""How every figure looks: one colour a gate, in every figure of every table."""

from typing import Any, NamedTuple

from highway.config.experiment import Experiment
from highway.config.gates import GATES
from highway.config.models import MODELS
from highway.report.collect import Collected

PLAIN = "#222222"  # a model without a gate, where others have one
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")  # Okabe and Ito
DASHES = ("solid", "dashed", "dotted", "dashdot")
SPLITS = {"train": "training", "valid": "validation", "test": "test"}
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "legend.frameon": False,
    "svg.hashsalt": "highway",  # the same records give the same file
    "svg.fonttype": "none",
}


class Look(NamedTuple):
    colour: str
    dash: str


def looks(collected: Collected) -> dict[str, Look]:
    """By row: the colour of its gate (where no row has one, of its model); a dash, then a paler colour, by how many had
    it before. A grid is a table of one's own: each of its rows has the next colour."""
    gated = any(_gate(row) for row in collected.experiments.values())
    found: dict[str, Look] = {}
    for number, row in enumerate(collected.table.rows):
        described = collected.experiments.get(row.id)
        if described is None or not collected.table.paper:
            colour = (PLAIN, *COLOURS)[number % (len(COLOURS) + 1)]
        else:
            colour = gate_colour(described) if gated else model_colour(described)
        looks_like = (Look(pale(colour, paleness), dash) for paleness in (0, 0.35, 0.6) for dash in DASHES)
        taken = set(found.values())
        found[row.id] = next((look for look in looks_like if look not in taken), Look(colour, "solid"))
    return found


def pale(colour: str, share: float) -> str:
    """A colour mixed with so much white."""
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def gate_colour(described: Experiment) -> str:
    gate = _gate(described)
    return COLOURS[VARIANTS.index(gate) % len(COLOURS)] if gate else PLAIN


def model_colour(described: Experiment) -> str:
    return COLOURS[list(MODELS).index(described.model.name) % len(COLOURS)]


Variant = tuple[str, str, str | int | None]  # of a gate: interface, name, and its psi or how many layers it reads


def _gate(described: Experiment) -> Variant | None:
    """The first gate that a row has."""
    for interface, name in described.gate.chosen().items():
        if name != "none" and (interface != "residual" or any(described.gating.layers.values())):
            score = described.gate.score
            detail = score.predecessors if interface == "score" else described.gate.activation_of(interface)
            return interface, name, detail
    return None


def _variants() -> list[Variant]:
    """Every gate in the order of the cards, each interface by itself, since rows of a table differ in one."""
    found: list[Variant] = []
    for interface, cards in GATES.items():
        own: list[Variant] = []
        for name, card in cards.items():
            details = (
                (1, 2, 3) if interface == "score" else ("tanh", "sigmoid") if "activation" in card.reads else (None,)
            )
            own += [(interface, name, detail) for detail in details if name != "none"]
        found += own + [(interface, "", None)] * (-len(own) % len(COLOURS))
    return found


VARIANTS = _variants()
