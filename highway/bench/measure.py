"""Measure one comparison: the memory of each contender in its own process, then all times in interleaved rounds.

A contender that will not fit into memory is left out beforehand. If the system kills a process, only the figures that
this process was to measure are lost.
"""

from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from highway.bench.rounds import matrix_peak, timed, timed_in_turn
from highway.blocks.products import rate
from highway.errors import counted
from highway.run import build, machine
from highway.run.memory import free_bytes, needs
from highway.run.trial import Entry, in_own_process, operations, peak_memory

MIB = 2**20
DTYPES = {"32": torch.float32, "bf16": torch.bfloat16}


def measure(field: list[Entry], rounds: int, threads: int) -> dict[str, Any]:
    """Return the record of a comparison; its `remarks` say which contenders were left out, and why."""
    shape, device = field[0].shape, field[0].device
    tokens = build.task(shape).tokens(build.like_real(shape, device))
    fitting, remarks = fit(field)
    memory: dict[str, int] = {}
    for entry in fitting:
        try:
            memory[entry.name] = peak_memory(entry, threads)
        except BrokenProcessPool:
            remarks.append(killed(f"{entry.name} is left out: its process", entry))
    measured = [entry for entry in fitting if entry.name in memory]
    together = fits_together(list(memory.values()), device)
    if measured and not together:
        remarks.append("The contenders do not fit into memory together: each is built anew for each of its turns.")
    rows: list[dict[str, Any]] = []
    try:
        if measured:
            rows = in_own_process(_times, measured, tokens, rounds, threads, together, max(memory.values()))
    except BrokenProcessPool:
        remarks.append(killed("There are no times: the process that measured them", field[0]))
    record = {
        "title": f"{tokens:,} tokens a step, {counted(threads, 'thread')}, {device}",
        "device": device,
        "rounds": rounds,
        "torch": torch.__version__,
        "remarks": remarks,
        "together": together,
        **compared(rows, measured, memory),
    }
    record["step_peak"] = {}
    if rows and shape.model_card.code.startswith("highway.models.rhn") and device == "cpu":
        lanes, width = shape.dataset.train.lanes, shape.model.width
        record["step_peak"] = {name: rate(DTYPES[name], lanes, width) for name in record["matrix_peak"]}
    return record


def fit(field: list[Entry]) -> tuple[list[Entry], list[str]]:
    """Return the contenders whose step, as counted, fits into free memory, and a remark on each of the others."""
    free = free_bytes(field[0].device)
    fitting, remarks = [], []
    for entry in field:
        needed = needs(entry).total() if free is not None else 0
        if free is None or needed <= free:
            fitting.append(entry)
        else:
            remarks.append(
                f"{entry.name} is left out: a step needs about {needed / MIB:,.0f} MiB of memory, "
                f"and {free / MIB:,.0f} MiB are free{less(entry)}."
            )
    return fitting, remarks


def killed(who: str, entry: Entry) -> str:
    """Return a remark that a process of the benchmark was killed, with what to type."""
    return f"{who} was killed, as systems do when memory runs out{less(entry)}."


def less(entry: Entry) -> str:
    """Return how to halve the batch, as the end of a sentence; empty if it cannot be halved."""
    dataset = entry.shape.dataset
    lanes = hasattr(dataset, "train")
    rows = dataset.train.lanes if lanes else dataset.batch
    key = "dataset.train.lanes" if lanes else "dataset.batch"
    return f"; --set {key}={rows // 2} halves the batch" if rows > 1 else ""


def fits_together(peaks: list[int], device: str) -> bool:
    """Return whether memory can hold all contenders at once; peaks: their peak memory in bytes.

    An allocator reuses little of what one contender has freed for the next one, so peaks add up on a CPU.
    """
    free = free_bytes(device)
    return free is None or (sum(peaks) if device == "cpu" else 2 * max(peaks, default=0)) <= free


def _times(
    field: list[Entry], tokens: int, rounds: int, threads: int, together: bool, largest: int
) -> list[dict[str, Any]]:
    """Time all contenders in this process; largest: the largest peak memory of one, in bytes."""
    torch.set_num_threads(threads)
    device = field[0].device
    free = free_bytes(device)
    if free is None or 2 * largest <= free:
        machine.keep_freed_memory()
    if not together:
        return timed_in_turn(field, tokens, rounds, device)
    return timed([entry.build() for entry in field], field[0].batch(), tokens, rounds, device)


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
