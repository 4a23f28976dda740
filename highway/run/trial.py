"""Timing that compares: contenders in interleaved rounds of one process, medians, ratios, peak memory."""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import torch

from highway.bench.contenders import Contender, Entry
from highway.config.schema import EncoderDecoder, Experiment, TransformerXL
from highway.data.lanes import Batch
from highway.data.pairs import PairBatch
from highway.run import machine

WARM_UP = 2  # rounds


def timed(contenders: list[Contender], batch: Batch | PairBatch, rounds: int, device: str) -> list[dict[str, Any]]:
    """Seconds a step of each contender, every round in turn, so that a machine's moods hit all of them alike."""
    everything: dict[str, list[float]] = {one.name: [] for one in contenders}
    for _ in range(WARM_UP + rounds):
        for one in contenders:
            everything[one.name].append(clock(partial(one.step, batch), device))
    seconds = {name: spent[WARM_UP:] for name, spent in everything.items()}
    tokens = batch.inputs.numel()
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


def peak_memory(entry: Entry, threads: int) -> int:
    """Bytes that two steps take at the most: on CUDA of the device, else of a process of their own, Python included."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_peak_of_two_steps, entry, threads).result()


def _peak_of_two_steps(entry: Entry, threads: int) -> int:
    torch.set_num_threads(threads)
    contender, batch = entry.build(), entry.batch()
    contender.step(batch)
    contender.step(batch)
    return machine.peak_memory_bytes()


def matrix_peak(device: str, dtype: torch.dtype) -> float:
    """Floating-point operations a second of one large matrix product: the most this machine gives."""
    size = 8192 if device == "cuda" else 2048
    a, b = torch.randn(2, size, size, device=device, dtype=dtype)
    a @ b
    return 2 * size**3 / min(clock(lambda: a @ b, device) for _ in range(20))


def step_operations(described: Experiment, parameters: int, batch: Batch | PairBatch) -> float:
    """Floating-point operations of one training step: 6 a weight and row that it multiplies, forward and backward, and
    12 (with a product for positions 18) a query, key and component of attention."""
    model, (lanes, length) = described.model, batch.inputs.shape
    tokens = lanes * length
    if isinstance(model, EncoderDecoder):  # a token of either side multiplies about its own half of the weights
        weights = parameters - sum(described.dataset.vocabulary_sizes) * model.width
        return tokens * (6 * weights + 12 * 3 * model.layers * model.heads * model.head_width * length)
    if not isinstance(model, TransformerXL):
        return tokens * (6 * parameters + 12 * model.layers * model.width * length)
    inner, memory = model.heads * model.head_width, described.dataset.train.memory
    maps = model.layers * model.width * inner  # keys and values are of the memory too; positions once for all lanes
    products = tokens * parameters + maps * (2 * lanes * memory + memory + length - tokens)
    return 6 * products + 18 * tokens * model.layers * inner * (memory + length)


def clock(work: Callable[[], Any], device: str) -> float:
    """Seconds that some work takes."""
    if device == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1000
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def spread(values: list[float]) -> float:
    """From the fastest to the slowest round, as a share of the median."""
    return (max(values) - min(values)) / statistics.median(values)
