"""Compare the times of contenders: interleaved rounds in one process, medians, and the peak rate of the machine."""

import statistics
from functools import cache, partial
from typing import Any

import torch

from highway.run.trial import Contender, seconds_of

WARM_UP = 2  # rounds
QUICK = 0.1  # seconds of a matrix product


def timed(contenders: list[Contender], batch: Any, tokens: int, rounds: int, device: str) -> list[dict[str, Any]]:
    """Measure the seconds per step of each contender. Every round times all, so changes in speed affect all alike."""
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for _ in range(WARM_UP + rounds):
        for contender in contenders:
            seconds[contender.name].append(seconds_of(partial(contender.step, batch), device))
    return [summary(contender, seconds[contender.name], WARM_UP, tokens) for contender in contenders]


def summary(contender: Contender, seconds: list[float], warm_up: int, tokens: int) -> dict[str, Any]:
    """Describe a contender by the seconds of its steps. The first `warm_up` steps do not count."""
    counted = seconds[warm_up:]
    return {
        "name": contender.name,
        "parameters": contender.parameters,
        "first_seconds": round(seconds[0], 3),  # includes compilation, if there is any
        "seconds": round(statistics.median(counted), 5),
        "spread": round(spread(counted), 3),
        "tokens_per_second": round(tokens / statistics.median(counted), 1),
    }


@cache
def matrix_peak(device: str, dtype: torch.dtype) -> float:
    """Return the floating-point operations per second of one large matrix product: the peak of this machine.

    The product doubles its size only while it is quick: without instructions for bf16, a large one takes a minute.
    """
    size, largest = 256, 8192 if device == "cuda" else 2048
    while size < largest and _seconds_of_product(size, device, dtype, rounds=1) < QUICK:
        size *= 2
    return 2 * size**3 / _seconds_of_product(size, device, dtype, rounds=10)


def _seconds_of_product(size: int, device: str, dtype: torch.dtype, rounds: int) -> float:
    a, b = torch.randn(2, size, size, device=device, dtype=dtype)
    a @ b
    return min(seconds_of(lambda: a @ b, device) for _ in range(rounds))


def spread(values: list[float]) -> float:
    """Return the difference between the slowest and the fastest round, as a share of the median."""
    return (max(values) - min(values)) / statistics.median(values)
