"""Measure one comparison: the memory of each contender in its own process, then all times in interleaved rounds.

If a process runs out of memory, only the figures that this process was to measure are lost. The ways of decoding are
measured one after the other, in one process.
"""

import statistics
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from highway.errors import counted
from highway.run import build, outcome, resources
from highway.run.trial import Contender, Entry, in_own_process, operations, peak_memory, seconds_of
from highway.tasks.decoding import Translator
from highway.tasks.translation import scores
from highway.use.load import load

MIB = 2**20
DTYPES = {"32": torch.float32, "bf16": torch.bfloat16}
WARM_UP = 2  # rounds
QUICK = 0.1  # seconds of a matrix product
SENTENCES_TO_WARM_UP = 4


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


def decoded(
    directory: Path, sentences: int, device: str, precisions: tuple[str, ...] = ("32", "bf16")
) -> dict[str, Any]:
    """Measure each way to translate the first test sentences: seconds, BLEU, texts equal to the first way's."""
    trained = load(directory, False, "translation")
    model, corpus = trained.model, trained.streams
    longest = trained.experiment.dataset.longest
    of = partial(Translator, source=corpus.source, target=corpus.target, longest=longest)
    translators = {"32": of(model.to(device)), "bf16": of(deepcopy(model).bfloat16())}
    ways: dict[str, Callable[[list[str]], list[str]]] = {"the paper's way, 32": translators["32"].one_by_one}
    for precision in precisions:
        ours = translators[precision].translate
        ways |= {f"ours, {precision}": ours, f"ours, beam 4, {precision}": partial(ours, beams=4)}
    sources, references = ([pair[side] for pair in corpus.texts["test"][:sentences]] for side in (0, 1))
    rows: list[dict[str, Any]] = []
    expected: list[str] = []
    for name, translate in ways.items():
        translate(sources[:SENTENCES_TO_WARM_UP])
        before = time.perf_counter()
        texts = translate(sources)
        seconds = time.perf_counter() - before
        expected = expected or texts
        rows.append(
            {
                "name": name,
                "seconds": round(seconds, 3),
                "ratio": round(rows[0]["seconds"] / seconds, 2) if rows else 1.0,
                "bleu": round(scores(texts, references)[0]["bleu"], 2),
                "same": sum(text == other for text, other in zip(texts, expected, strict=True)),
            }
        )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"cell": directory.resolve().parent.name, "sentences": len(sources), "parameters": parameters, "rows": rows}
