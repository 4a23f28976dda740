"""Measure one comparison: the memory of each contender in its own process, then all times in interleaved rounds.

If a process runs out of memory, only the figures that this process was to measure are lost.
"""

from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from highway.bench.rounds import matrix_peak, timed
from highway.errors import counted
from highway.run import build, outcome, resources
from highway.run.trial import Entry, in_own_process, operations, peak_memory

MIB = 2**20
DTYPES = {"32": torch.float32, "bf16": torch.bfloat16}


def measure(field: list[Entry], rounds: int, threads: int) -> dict[str, Any]:
    """Return the record of a comparison; its `remarks` say which contenders were left out, and why."""
    shape, device = field[0].shape, field[0].device
    tokens = build.task(shape).tokens(build.like_real(shape, device))
    remarks: list[str] = []
    memory: dict[str, int] = {}
    for entry in field:
        try:
            memory[entry.name] = peak_memory(entry, threads)
        except (BrokenProcessPool, RuntimeError, MemoryError) as failure:
            remarks.append(ran_out(f"{entry.name} is left out: its process", entry, failure))
    measured = [entry for entry in field if entry.name in memory]
    rows: list[dict[str, Any]] = []
    try:
        if measured:
            rows = in_own_process(_times, measured, tokens, rounds, threads)
    except (BrokenProcessPool, RuntimeError, MemoryError) as failure:
        remarks.append(ran_out("There are no times: the process that measured them", field[0], failure))
    return {
        "title": f"{tokens:,} tokens a step, {counted(threads, 'thread')}, {device}",
        "device": device,
        "rounds": rounds,
        "torch": torch.__version__,
        "remarks": remarks,
        **compared(rows, measured, memory),
    }


def ran_out(who: str, entry: Entry, failure: Exception) -> str:
    """Return a remark that a process of the benchmark has no figures, with what to type.

    Raise the failure again if memory was not its cause.
    """
    if not (isinstance(failure, BrokenProcessPool) or outcome.out_of_memory(failure)):
        raise failure
    return f"{who} ran out of memory or was killed{less(entry)}."


def less(entry: Entry) -> str:
    """Return how to halve the batch, as the end of a sentence; empty if it cannot be halved."""
    dataset = entry.shape.dataset
    lanes = hasattr(dataset, "train")
    rows = dataset.train.lanes if lanes else dataset.batch
    key = "dataset.train.lanes" if lanes else "dataset.batch"
    return f"; --set {key}={rows // 2} halves the batch" if rows > 1 else ""


def _times(field: list[Entry], tokens: int, rounds: int, threads: int) -> list[dict[str, Any]]:
    """Time all contenders in this process."""
    torch.set_num_threads(threads)
    resources.keep_freed_memory()
    return timed([entry.build() for entry in field], field[0].batch(), tokens, rounds, field[0].device)


def compared(rows: list[dict[str, Any]], field: list[Entry], memory: dict[str, int]) -> dict[str, Any]:
    """Add to each row its speed relative to the first public contender, and its share of the device's peak rate."""
    if not rows:
        return {"rows": [], "matrix_peak": {}, "reference": None}
    precisions = dict.fromkeys(entry.precision for entry in field)
    peaks = {name: matrix_peak(field[0].device, DTYPES[name]) for name in precisions}
    reference = next((row for row, entry in zip(rows, field, strict=True) if entry.kind != "ours"), rows[0])
    for row, entry in zip(rows, field, strict=True):
        row["precision"], row["kind"], row["compiled"] = entry.precision, entry.kind, entry.compiled
        row["operations"] = operations(entry)
        row["ratio"] = round(row["tokens_per_second"] / reference["tokens_per_second"], 3)
        row["share_of_peak"] = round(row["operations"] / row["seconds"] / peaks[entry.precision], 3)
        row["peak_memory_bytes"] = memory[row["name"]]
    return {"rows": rows, "matrix_peak": peaks, "reference": reference["name"]}
