"""The cards of this project: one gate and one data set."""

from highway.cards.datasets import DATASETS, DatasetCard
from highway.cards.gates import GATES, GateCard

GATES["residual"]["layer_scale"] = GateCard(
    "myproject.layer_scale:LayerScale",
    "x + a * f(x)",
    "Each component of a sublayer's output is multiplied by a learned number, which starts at 0.1.",
)
DATASETS["counting"] = DatasetCard("myproject.counting", "language", {"word": "words"})
