"""Timing that compares: contenders in interleaved rounds of one process, medians, and what the machine can give."""

import statistics
from functools import partial
from typing import Any

import torch

from highway.run.trial import Contender, seconds_of

WARM_UP = 2  # rounds


def timed(contenders: list[Contender], batch: Any, tokens: int, rounds: int, device: str) -> list[dict[str, Any]]:
    """Seconds a step of each contender, every round in turn, so that a machine's moods hit all of them alike."""
    everything: dict[str, list[float]] = {one.name: [] for one in contenders}
    for _ in range(WARM_UP + rounds):
        for one in contenders:
            everything[one.name].append(seconds_of(partial(one.step, batch), device))
    seconds = {name: spent[WARM_UP:] for name, spent in everything.items()}
    return [
        {
            "name": one.name,
            "parameters": one.parameters,
            "first_seconds": round(everything[one.name][0], 3),  # with compilation, where there is any
            "seconds": round(statistics.median(seconds[one.name]), 5),
            "spread": round(spread(seconds[one.name]), 3),
            "tokens_per_second": round(tokens / statistics.median(seconds[one.name]), 1),
        }
        for one in contenders
    ]


def matrix_peak(device: str, dtype: torch.dtype) -> float:
    """Floating-point operations a second of one large matrix product: the most this machine gives."""
    size = 8192 if device == "cuda" else 2048
    a, b = torch.randn(2, size, size, device=device, dtype=dtype)
    a @ b
    return 2 * size**3 / min(seconds_of(lambda: a @ b, device) for _ in range(20))


def spread(values: list[float]) -> float:
    """From the fastest to the slowest round, as a share of the median."""
    return (max(values) - min(values)) / statistics.median(values)
