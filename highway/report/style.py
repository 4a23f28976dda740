"""The look of every figure: a gate has the same colour in every figure of every table."""

from typing import Any, NamedTuple

from highway.cards.gates import GATES
from highway.cards.models import MODELS
from highway.config.experiment import Experiment
from highway.report.collect import Collected

PLAIN = "#222222"  # a model without a gate in a table of gates
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#7f7f7f", "#56b4e9")  # Okabe and Ito
DASHES = ("solid", "dashed", "dotted", "dashdot")
PALENESS = (0, 0.35, 0.6, 0.75)  # shares of white, for rows of one colour that have used up the dashes
SPLITS = {"train": "training", "valid": "validation", "test": "test"}
NOTE = "_note: "  # the foot of a figure explains marks whose label begins so; matplotlib's legend leaves them out
BAND = f"{NOTE}bands: range of the seeds"
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.06,  # inches
    "figure.constrained_layout.w_pad": 0.08,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "legend.columnspacing": 1.2,
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
    by_row: dict[str, Look] = {}
    for row_id, colour in _colours(collected).items():
        candidates = (Look(_pale(colour, share), dash) for share in PALENESS for dash in DASHES)
        taken = set(by_row.values())
        by_row[row_id] = next((look for look in candidates if look not in taken), Look(colour, "solid"))
    return by_row


def _colours(collected: Collected) -> dict[str, str]:
    row_ids = [row.id for row in collected.table.rows]
    palette = (PLAIN, *COLOURS)
    colours = {row_id: palette[number % len(palette)] for number, row_id in enumerate(row_ids)}
    if not collected.table.paper:  # to compose the thousands of rows of a grid takes long
        return colours
    experiments = {row_id: collected.experiment(row_id) for row_id in row_ids if row_id in collected.overrides}
    gated = any(experiment.gates for experiment in experiments.values())
    colour_of = _gate_colour if gated else _model_colour
    return colours | {row_id: colour_of(experiment) for row_id, experiment in experiments.items()}


def _gate_colour(experiment: Experiment) -> str:
    """Return the colour of an experiment's first gate; each card of an interface has three colours for its variants."""
    if not experiment.gates:
        return PLAIN
    interface, name = next(iter(experiment.gates.items()))
    card = list(GATES[interface]).index(name) - 1  # the first card of each interface is `none`
    psi = {"tanh": 0, "sigmoid": 1, None: 0}.get(experiment.gate.activation_of(interface), 2)
    variant = experiment.gate.score.predecessors - 1 if interface == "score" else psi
    return COLOURS[(3 * card + variant) % len(COLOURS)]


def _model_colour(experiment: Experiment) -> str:
    return COLOURS[list(MODELS).index(experiment.model.name) % len(COLOURS)]


def _pale(colour: str, share: float) -> str:
    """Mix a colour with a share of white."""
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)
