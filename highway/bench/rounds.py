"""Timing that compares: contenders in interleaved rounds of one process, medians, and what the machine can give."""

import statistics
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from highway.run import machine
from highway.run.trial import Contender, Entry, seconds_of

WARM_UP = 2  # rounds


def timed(contenders: list[Contender], batch: Any, tokens: int, rounds: int, device: str) -> list[dict[str, Any]]:
    """Measure the seconds a step of each contender, all of them in every round, so that a machine's moods hit all."""
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for _ in range(WARM_UP + rounds):
        for contender in contenders:
            seconds[contender.name].append(seconds_of(partial(contender.step, batch), device))
    return [summary(contender, seconds[contender.name], WARM_UP, tokens) for contender in contenders]


def timed_in_turn(entries: list[Entry], tokens: int, rounds: int, device: str) -> list[dict[str, Any]]:
    """Measure the same where the memory is too small for all: build each contender when its turn comes, in every round.

    Its first step in each turn takes memory anew and does not count.
    """
    seconds: dict[str, list[float]] = {entry.name: [] for entry in entries}
    last: dict[str, Contender] = {}
    for _ in range(rounds):
        for entry in entries:
            contender, batch = entry.build(), entry.batch()
            first, second = (seconds_of(partial(contender.step, batch), device) for _ in range(2))
            seconds[entry.name] += [second] if seconds[entry.name] else [first, second]
            last[entry.name] = replace(contender, objective=_nothing, step=_nothing)  # these hold the weights
            del contender, batch
            machine.give_back_freed_memory()
    return [summary(last[entry.name], seconds[entry.name], 1, tokens) for entry in entries]


def _nothing(batch: Any) -> Any:
    return None


def summary(contender: Contender, seconds: list[float], warm_up: int, tokens: int) -> dict[str, Any]:
    """Describe one contender by its steps, of which the first `warm_up` do not count."""
    counted = seconds[warm_up:]
    return {
        "name": contender.name,
        "parameters": contender.parameters,
        "first_seconds": round(seconds[0], 3),  # with compilation, where there is any
        "seconds": round(statistics.median(counted), 5),
        "spread": round(spread(counted), 3),
        "tokens_per_second": round(tokens / statistics.median(counted), 1),
    }


def matrix_peak(device: str, dtype: torch.dtype) -> float:
    """Floating-point operations a second of one large matrix product: the most this machine gives."""
    size = 8192 if device == "cuda" else 2048
    a, b = torch.randn(2, size, size, device=device, dtype=dtype)
    a @ b
    return 2 * size**3 / min(seconds_of(lambda: a @ b, device) for _ in range(20))


def spread(values: list[float]) -> float:
    """From the fastest to the slowest round, as a share of the median."""
    return (max(values) - min(values)) / statistics.median(values)
