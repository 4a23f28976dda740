"""Cut a stream into parallel lanes, and move a window over all of them at once.

A stream of n symbols becomes `lanes` lanes of n // lanes symbols each (the remainder is dropped).
A window covers `window` positions and moves on by `stride`. Only its last `scored` positions enter the loss.
Two ways of reading are special cases:

    overlapping windows   window 400, stride 320, scored 320: each scored symbol sees 80 to 399 before it
    contiguous segments   window = stride = scored: every symbol scored once, the state carried along
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from highway.config.datasets import NO_MEMORY, Cut, Reach


class Batch(NamedTuple):
    """A window of every lane; T positions."""

    inputs: Tensor  # (lanes, T)
    targets: Tensor  # (lanes, T - context), the scored tail only
    context: int  # positions before the scored tail
    reach: Reach = NO_MEMORY


class Windows:
    """The windows of a stream, by index, for device `share` of `shares`; each device has whole lanes."""

    def __init__(self, stream: Tensor, cut: Cut, share: int = 0, shares: int = 1) -> None:
        length = len(stream) // cut.lanes
        self.context, self.reach = cut.window - cut.scored, cut.reach
        last_input = length - 1  # the last symbol of a lane is never an input
        least = cut.window - 1 if cut.whole else self.context
        self.starts = [start for start in range(0, last_input, cut.stride) if start + least < last_input]
        self.ends = [min(start + cut.window, last_input) for start in self.starts]
        lanes = stream[: length * cut.lanes].view(cut.lanes, length)
        self.lanes = lanes[lanes_of(cut.lanes, share, shares)]

    def __len__(self) -> int:
        return len(self.starts)

    def first(self, count: int, again: int = 1) -> "Windows":
        """Keep only the first `count` windows, repeated `again` times. Changes this object and returns it."""
        self.starts, self.ends = self.starts[:count] * again, self.ends[:count] * again
        return self

    def __getitem__(self, index: int) -> Batch:
        start, end = self.starts[index], self.ends[index]
        inputs = self.lanes[:, start:end].long()
        targets = self.lanes[:, start + self.context + 1 : end + 1].long()
        return Batch(inputs, targets, self.context, self.reach)

    def at(self, position: int) -> Batch:
        return self[position % len(self)]

    def together(self, count: int, share: int = 0, shares: int = 1) -> Iterator[Batch]:
        """Yield independent windows for evaluation, `count` at a time; a shorter last window is alone."""
        group: list[Batch] = []
        for number, index in enumerate(range(share, len(self), shares)):
            batch = self[index]
            if group and (number % count == 0 or batch.inputs.shape != group[-1].inputs.shape):
                yield _joined(group)
                group = []
            group.append(batch)
        if group:
            yield _joined(group)


def lanes_of(lanes: int, share: int, shares: int) -> slice:
    """Return the lanes of device `share` of `shares`; the first devices have one lane more if it does not divide."""
    each, remainder = divmod(lanes, shares)
    start = share * each + min(share, remainder)
    return slice(start, start + each + (share < remainder))


def _joined(group: list[Batch]) -> Batch:
    return Batch(
        torch.cat([batch.inputs for batch in group]),
        torch.cat([batch.targets for batch in group]),
        *group[0][2:],
    )


class Batches(Protocol):
    """Batches by position."""

    def at(self, position: int) -> Any:
        """Return the batch of update `position`, counted from 0 over all epochs."""


class TrainingBatches:
    """The batches of all epochs, from any position on. Lightning iterates over this object.

    The position is the number of batches handed out since step 0; the checkpoint holds it.
    """

    def __init__(self, batches: Batches, steps: int) -> None:
        self.batches = batches
        self.steps = steps
        self.position = 0

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Batch]:
        while self.position < self.steps:
            self.position += 1
            yield self.batches.at(self.position - 1)

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]
