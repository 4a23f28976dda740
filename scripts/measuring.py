"""Measure comparisons: each in a process of its own, which builds all contenders and times them in interleaved rounds.

On a CPU the memory of each eager contender is that of a process of its own. If a process runs out of memory, only the
figures that this process was to measure are lost. The ways of decoding are measured in one process, one by one.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from highway.machine import cores
from highway.python.load import load_for
from highway.run import build, outcome, start
from highway.tasks.decoding import Translator
from highway.tasks.translation import scores
from highway.timing.stopwatch import FIRST_STEPS, Contender, Entry, operations, own_process, peak_memory, seconds_of

MIB = 2**20
DTYPES = {"32": torch.float32, "bf16": torch.bfloat16}
WARM_UP = {"cpu": 2, "cuda": FIRST_STEPS}  # steps
BLOCK_SECONDS = 0.1  # steps are timed in blocks of about this length
SIDE_BY_SIDE = 12  # processes on a GPU: six tables in two precisions
QUICK = 0.1  # seconds of a matrix product
SENTENCES_TO_WARM_UP = 4

Figures = dict[str, Any]  # of one contender
READY: list[tuple[Contender, Figures]] = []  # the contenders of the process that measures them


def measure(fields: Sequence[list[Entry]], rounds: int, threads: int) -> Iterator[tuple[list[Figures], list[str]]]:
    """Yield the rows of each comparison, and remarks that say which contenders were left out, and why.

    On a GPU the processes of several comparisons compile side by side; then one after the other measures.
    """
    at_once = min(SIDE_BY_SIDE, cores()) if fields[0][0].device == "cuda" else 1
    for position in range(0, len(fields), at_once):
        group = fields[position : position + at_once]
        with ExitStack() as stack:
            processes = [stack.enter_context(own_process()) for _ in group]
            ready = [process.submit(prepare, field, threads) for process, field in zip(processes, group, strict=True)]
            wait(ready)
            for field, process, prepared in zip(group, processes, ready, strict=True):
                rows, remarks = [], []
                try:
                    remarks += prepared.result()
                    rows = process.submit(times, field[0], rounds).result()
                except (BrokenProcessPool, RuntimeError, MemoryError) as failure:
                    remarks.append(f"There are no times: the process that measured them {problem(field[0], failure)}.")
                yield rows, remarks


def problem(entry: Entry, failure: Exception) -> str:
    """Return what happened to a contender or a process, with what to type, as the end of a sentence.

    Raise the failure again if neither memory nor torch.compile can be its cause.
    """
    if isinstance(failure, BrokenProcessPool) or outcome.out_of_memory(failure):
        return f"ran out of memory or was killed{less(entry)}"
    if not entry.compiled:
        raise failure
    said = (str(failure).strip().splitlines() or [""])[0]
    return f"failed when compiled ({type(failure).__name__}: {said}); --no-compile measures it uncompiled"


def less(entry: Entry) -> str:
    """Return how to halve the batch, as the end of a sentence; empty if it cannot be halved."""
    dataset = entry.shape.dataset
    lanes = hasattr(dataset, "train")
    rows = dataset.train.lanes if lanes else dataset.batch
    key = "dataset.train.lanes" if lanes else "dataset.batch"
    return f"; --set {key}={rows // 2} halves the batch" if rows > 1 else ""


def prepare(field: list[Entry], threads: int) -> list[str]:
    """Build the contenders in this process and take their first steps; return remarks on those that fail."""
    start.set_up_torch(threads)
    READY.clear()
    remarks = []
    for entry in field:
        try:
            READY.append(warmed_up(entry, threads))
        except Exception as failure:
            remarks.append(f"{entry.name} is left out: it {problem(entry, failure)}.")
    return remarks


def warmed_up(entry: Entry, threads: int) -> tuple[Contender, Figures]:
    """Return a contender after its first steps, with its memory: none if a CPU compiles, as the compiler takes more."""
    figures: Figures = {"kind": entry.kind, "mode": entry.compiled or "eager"}
    figures["operations"] = operations(replace(entry, compiled=None))
    on_cuda = entry.device == "cuda"
    if on_cuda:
        torch.cuda.reset_peak_memory_stats()
        others = torch.cuda.memory_allocated()
    elif not entry.compiled:
        figures["mib"] = peak_memory(entry, threads) // MIB
    contender, batch = entry.build(), entry.batch()
    for _ in range(WARM_UP[entry.device]):
        contender.step(batch)
    if on_cuda:
        figures["mib"] = (torch.cuda.max_memory_allocated() - others) // MIB
    return contender, figures


def times(first: Entry, rounds: int) -> list[Figures]:
    """Measure the contenders that this process has prepared, all of the precision and shape of the first."""
    if not READY:
        return []
    batch = first.batch()
    with torch.device("meta"):
        tokens = build.task(first.shape).tokens(build.like_real(first.shape, "meta"))
    rows = timed([contender for contender, _ in READY], batch, tokens, rounds, first.device)
    peak = matrix_peak(first.device, DTYPES[first.precision])
    for row, (contender, figures) in zip(rows, READY, strict=True):
        row |= figures
        row["share_of_peak"] = round(1000 * row["operations"] / row["ms"] / peak, 3)
        if first.device == "cuda":
            row["kernels"] = kernels(partial(contender.step, batch))
    reference = next((row for row in rows if row["kind"] != "ours"), rows[0])
    for row in rows:
        row["ratio"] = round(reference["ms"] / row["ms"], 3)
    return rows


def timed(contenders: list[Contender], batch: Any, tokens: int, rounds: int, device: str) -> list[Figures]:
    """Measure the time of a step of each contender. Every round times all, so changes in speed affect all alike."""

    def steps(contender: Contender, count: int) -> None:
        for _ in range(count):
            contender.step(batch)

    blocks = [math.ceil(BLOCK_SECONDS / seconds_of(partial(steps, each, 1), device)) for each in contenders]
    seconds: list[list[float]] = [[] for _ in contenders]
    for _ in range(rounds):
        for contender, count, measured in zip(contenders, blocks, seconds, strict=True):
            measured.append(seconds_of(partial(steps, contender, count), device) / count)
    return [
        {
            "contender": contender.name,
            "parameters": contender.parameters,
            "ms": round(1000 * statistics.median(measured), 3),
            "spread": round(spread(measured), 3),
            "tokens": tokens,
            "tokens_per_second": round(tokens / statistics.median(measured), 1),
        }
        for contender, measured in zip(contenders, seconds, strict=True)
    ]


def kernels(step: Callable[[], Any]) -> int:
    """Count the CUDA kernels of one step, those inside a CUDA graph among them."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    on_device = [event for event in profiler.events() or [] if event.device_type == DeviceType.CUDA]
    return sum(not (event.is_user_annotation or event.name.startswith(("Memcpy", "Memset"))) for event in on_device)


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
    trained = load_for(directory, False, "translation")
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
