"""The loss of each unit of the test split, so that two models can be compared on the units that both have scored.

A unit is a stretch of the test text, or some neighbouring examples: the split is cut into at most UNITS of equal length
by position. The units are thus the same in every row of a table, however each row reads the text.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

UNITS = 1000


class UnitLosses:
    """Sums of the loss and of the scored positions over each unit, while the test split is evaluated."""

    def __init__(self, positions: Iterator[Any], length: int, device: torch.device) -> None:
        """Create the sums.

        positions: for each batch of the evaluation, the positions of its scored symbols or examples in the split.
        length: number of symbols or examples in the split.
        """
        self.positions, self.length, self.count = positions, length, min(length, UNITS)
        self.sums = torch.zeros(2, self.count, dtype=torch.float64, device=device)  # nats, scored positions

    def add(self, losses: Tensor, scored: Tensor | None = None) -> None:
        """Add a batch: the loss (N) of each position or example, and the scored positions in each (default: 1)."""
        numbers = torch.as_tensor(next(self.positions)).flatten().long() * self.count // self.length
        counts = torch.ones_like(losses) if scored is None else scored
        self.sums.index_add_(1, numbers.to(losses.device), torch.stack([losses, counts]).double())

    def arrays(self, reduce: Callable[..., Any]) -> dict[str, Tensor]:
        """Return both sums by unit, over all devices."""
        nats, scored = reduce(self.sums, reduce_op="sum")
        return {"nats": nats, "scored": scored}
