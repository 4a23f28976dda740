"""The look of every figure: a gate has the same colour in every figure of every table."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from highway.config.experiment import Experiment
from highway.config.gates import GATES
from highway.config.models import MODELS
from highway.report.collect import Collected

PLAIN = "#222222"  # a model without a gate in a table of gates
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
    """Return the look of each row: the colour of its gate, or of its model in a table without gates.

    Rows of the same colour differ by dash, then by a paler colour. The rows of a grid take one colour after the other.
    """
    of_paper = collected.overrides if collected.table.paper else {}  # to compose thousands of rows takes long
    experiments = {row_id: collected.experiment(row_id) for row_id in of_paper}
    gated = any(_gate(experiment) for experiment in experiments.values())
    by_row: dict[str, Look] = {}
    for number, row in enumerate(collected.table.rows):
        experiment = experiments.get(row.id)
        if experiment is None:
            colour = (PLAIN, *COLOURS)[number % (len(COLOURS) + 1)]
        else:
            colour = gate_colour(experiment) if gated else model_colour(experiment)
        candidates = (Look(pale(colour, paleness), dash) for paleness in (0, 0.35, 0.6) for dash in DASHES)
        taken = set(by_row.values())
        by_row[row.id] = next((look for look in candidates if look not in taken), Look(colour, "solid"))
    return by_row


def group_colours(groups: Mapping[str, Sequence[str]], collected: Collected) -> dict[str, str]:
    """Return a colour for each group of rows: that of its first row in other figures, if these are distinct."""
    by_row = looks(collected)
    colours = [by_row[row_ids[0]].colour for row_ids in groups.values()]
    return dict(zip(groups, colours if len(set(colours)) == len(colours) else COLOURS, strict=False))


def pale(colour: str, share: float) -> str:
    """Mix a colour with a share of white."""
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def gate_colour(experiment: Experiment) -> str:
    gate = _gate(experiment)
    if gate is None:
        return PLAIN
    number = VARIANTS.index(gate) if gate in VARIANTS else crc32(repr(gate).encode())
    return COLOURS[number % len(COLOURS)]


def model_colour(experiment: Experiment) -> str:
    return COLOURS[list(MODELS).index(experiment.model.name) % len(COLOURS)]


Variant = tuple[str, str, str | int | None]  # of a gate: interface, name, and activation or number of layers read


def _gate(experiment: Experiment) -> Variant | None:
    """Return the first gate of an experiment, or None."""
    gates = experiment.gates
    if not gates:
        return None
    interface, name = next(iter(gates.items()))
    score = experiment.gate.score
    return interface, name, score.predecessors if interface == "score" else experiment.gate.activation_of(interface)


def _variants() -> list[Variant]:
    """Return every gate in the order of the cards; each interface begins with the first colour, since the rows of a
    table differ in one interface."""
    variants: list[Variant] = []
    for interface, cards in GATES.items():
        of_interface: list[Variant] = []
        for name, card in cards.items():
            details = (
                (1, 2, 3) if interface == "score" else ("tanh", "sigmoid") if "activation" in card.reads else (None,)
            )
            of_interface += [(interface, name, detail) for detail in details if name != "none"]
        padding = -len(of_interface) % len(COLOURS)
        variants += of_interface + [(interface, "", None)] * padding
    return variants


VARIANTS = _variants()
