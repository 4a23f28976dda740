"""Text generation with a trained language model, symbol by symbol."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from highway.cards.models import Remembers
from highway.errors import Refused
from highway.python.load import Trained

COLDEST = 1e-6  # the lowest temperature above 0: float32 could not divide by a much smaller one


@dataclass(frozen=True)
class Sampling:
    """The settings by which the next symbol is drawn. Raise Refused if one is out of range."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        if not (self.temperature == 0 or COLDEST <= self.temperature < math.inf):
            raise Refused(
                f"--temperature {self.temperature:g} is out of range. Write 0, or a number from {COLDEST:g} upwards; "
                "0 always takes the likeliest symbol."
            )
        if self.top_k is not None and self.top_k < 1:
            raise Refused(f"--top-k {self.top_k} leaves no symbol. Write a whole number from 1 upwards.")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise Refused(f"--top-p {self.top_p:g} is not a probability. Write a number above 0, and at most 1.")

    def draw(self, logits: Tensor, generator: torch.Generator) -> int:
        """Draw a symbol from `logits` (vocabulary): apply the temperature, then top-k, then top-p."""
        if self.temperature == 0:
            return int(logits.argmax())
        probabilities, symbols = (logits.float() / self.temperature).softmax(-1).sort(descending=True, stable=True)
        if self.top_k is not None:
            probabilities, symbols = probabilities[: self.top_k], symbols[: self.top_k]
        if self.top_p is not None:
            before = (
                probabilities.cumsum(-1) - probabilities
            )  # 0 for the likeliest symbol, which therefore always stays
            probabilities = probabilities[before < self.top_p * probabilities.sum()]
        return int(symbols[torch.multinomial(probabilities, 1, generator=generator)])


class Writer:
    """A generator of text. Its model carries a state, or reads the last window again for each symbol."""

    def __init__(self, trained: Trained) -> None:
        dataset = trained.experiment.dataset
        self.model, self.spelling = trained.model, trained.spelling
        remembers = trained.experiment.remembers != Remembers.NOTHING
        self.remembers = dataset.carry_state and remembers  # carried data may be read by a model without a state
        self.window = dataset.evaluation.window

    @torch.no_grad()
    def write(self, prompt: str, length: int, sampling: Sampling) -> Iterator[str]:
        """Yield the prompt, then a piece of text for each of `length` symbols.

        With a vocabulary of bytes, a piece is empty until the bytes form a character.
        """
        generator = torch.Generator().manual_seed(sampling.seed)
        logits, context = self._read(self.spelling.numbers_of(prompt) or [0], None)
        in_words = self.spelling.in_words and prompt and not prompt[-1].isspace()
        yield f"{prompt} " if in_words else prompt
        pending = b""
        for _ in range(length):
            number = sampling.draw(logits, generator)
            pending += self.spelling.spelled(number)
            try:
                text, pending = pending.decode(), b""
            except UnicodeDecodeError:  # an incomplete character, or bytes that form none
                text, pending = ("", pending) if len(pending) < 4 else (pending.decode(errors="replace"), b"")
            yield text
            logits, context = self._read([number], context)

    def _read(self, numbers: list[int], context: Any) -> tuple[Tensor, Any]:
        """Return the logits after these symbols, and the context for the next call: the state, or the last window."""
        if self.remembers:
            for start in range(0, len(numbers), self.window):
                features, context = self.model(torch.tensor([numbers[start : start + self.window]]), context)
        else:
            context = [*(context or []), *numbers][-self.window :]
            features, _ = self.model(torch.tensor([context]), None)
        return self.model.logits(features[0, -1]), context
