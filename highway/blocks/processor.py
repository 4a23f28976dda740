"""The kernels that this machine's processor has, found by trying each one once.

A kernel that the processor lacks raises an error. The same mathematics then runs another way: products without packed
matrices, an LSTM in fp32. The speed measured here decides nothing; it only appears in messages.
"""

import time
from collections.abc import Callable
from functools import cache

import torch
from torch import nn


@cache
def packs(dtype: torch.dtype) -> bool:
    """Return whether oneDNN can pack a matrix of this precision here and multiply by it."""
    if not torch.backends.mkldnn.is_available() or not torch.backends.mkldnn.enabled:
        return False
    matrix = torch.zeros(32, 32, dtype=dtype)

    def multiply() -> None:
        packed = torch.ops.mkldnn._reorder_linear_weight(matrix, 4)
        torch.ops.mkldnn._linear_pointwise(matrix[:4], packed, None, "none", [], "")

    return _runs(multiply)


@cache
def lstm_trains_in(dtype: torch.dtype) -> bool:
    """Return whether torch's LSTM trains on this processor under autocast to this precision."""
    with torch.random.fork_rng(devices=[]):
        lstm, x = nn.LSTM(32, 32), torch.zeros(3, 2, 32)

    def train() -> None:
        with torch.autocast("cpu", dtype):
            features, _ = lstm(x)
        features.sum().backward()

    return _runs(train)


@cache
def bf16_factor() -> float:
    """Return the time of a small training step in bf16 divided by its time in fp32, with the threads now set.

    Below 1, bf16 is faster. Processors without bf16 instructions emulate them: factors of 10 and more were measured.
    """
    with torch.random.fork_rng(devices=[]):
        network, x = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)), torch.ones(128, 256)

    def seconds(bf16: bool) -> float:
        before = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            y = network(x)
        y.sum().backward()
        return time.perf_counter() - before

    tries = [(seconds(True), seconds(False)) for _ in range(4)]
    in_bf16, in_fp32 = (min(times[1:]) for times in zip(*tries, strict=True))  # the first try prepares the kernels
    return in_bf16 / in_fp32


def _runs(kernel: Callable[[], None]) -> bool:
    try:
        with torch.inference_mode(False), torch.enable_grad():
            kernel()
    except RuntimeError:  # oneDNN: "could not create a primitive descriptor", "needs the cpu support ..."
        return False
    return True
