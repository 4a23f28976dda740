"""Time rows of a table in interleaved rounds, and append the measurement to its times.csv. Nothing is trained.

In every round each row trains a block of steps, and each round begins with another row, so that slow changes in the
machine's speed affect all rows alike. The times relative to the first row, round by round, cancel them.
"""

import itertools
import math
import platform
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

from highway.clock import clock
from highway.config.experiment import Experiment
from highway.config.groups import check_words
from highway.errors import Refused, listing
from highway.machine import commit, cores, device_name
from highway.report.times import read_lines, times_file, write_lines
from highway.run import resources, start
from highway.run.compiled import mode_of
from highway.tables.rows import composed, overrides_of
from highway.tables.table import Table
from highway.tables.typed import last_on_each_key
from highway.timing.stopwatch import Contender, Entry, peak_memory, seconds_of

BLOCK_SECONDS = 0.5  # least time of the first row in a round
TYPED = ("trainer.accelerator", "trainer.precision", "trainer.compile", "trainer.threads")  # times.csv has these
SHARED = ("dataset", *TYPED)  # equal in all rows, or their times would not compare

Seconds = dict[str, list[float]]  # row -> seconds of a training step, by round


def time_table(
    table: Table, rows: Sequence[str], budget: str, rounds: int, overrides: Sequence[str], outputs: Path
) -> Path:
    """Time these rows (none: all) beside the table's first row, and return the path of times.csv."""
    experiments = compose_rows(table, rows, budget, overrides)
    path = times_file(table.id, budget, outputs)
    read_lines(path)  # a file that cannot be read is refused now, not after the measurement
    first = next(iter(experiments.values()))
    start.check_accelerator(first)
    threads = first.trainer.threads or cores()
    device = "cuda" if first.trainer.accelerator != "cpu" and torch.cuda.is_available() else "cpu"
    started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    about: dict[str, Any] = {
        "measured": started,
        "device": device_name(device),
        "threads": threads,
        "precision": first.trainer.precision,
        "compile": mode_of(first, device) or "",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": commit() or "",
    }
    start.set_up_torch(threads)
    entries = {
        name: Entry(first.trainer.precision, experiment, device, mode_of(experiment, device))
        for name, experiment in experiments.items()
    }
    peaks = {name: peak_memory(entry, threads) / 2**20 for name, entry in entries.items()}
    torch.manual_seed(first.seed)
    contenders = {name: entry.build() for name, entry in entries.items()}
    seconds, loads = measure(contenders, next(iter(entries.values())).batch(), rounds, device)
    base = next(iter(seconds.values()))
    lines = [
        {
            **about,
            "row": name,
            "round": number + 1,
            "step_seconds": seconds[name][number],
            "relative_time": seconds[name][number] / base[number],
            "peak_memory_mib": peaks[name],
            "load_average": loads[number],
        }
        for name, number in itertools.product(seconds, range(rounds))
    ]
    write_lines(path, [*read_lines(path), *lines])  # read again: another measurement may have ended meanwhile
    return path


def compose_rows(table: Table, rows: Sequence[str], budget: str, overrides: Sequence[str]) -> dict[str, Experiment]:
    """Compose the table's first row and these (none: all), and refuse rows whose times do not compare."""
    check_words(overrides)
    for override in overrides:
        if override.split("=", 1)[0] not in TYPED:
            raise Refused(f"{override} cannot be set for a timing. It takes only {listing(list(TYPED))}.")
    every = table.at(budget)
    chosen = [every[0], *map(table.row, rows)] if rows else every
    usual = f"trainer.threads={cores()}"
    experiments = {
        row.id: composed(tuple(last_on_each_key([usual, *overrides_of(table, row.adding(overrides), budget)])))
        for row in chosen
    }
    check_shared(experiments)
    return experiments


def check_shared(rows: dict[str, Experiment]) -> None:
    """Refuse rows that differ in a key of `SHARED`, and double precision."""
    first, *others = rows
    for other, key in itertools.product(others, SHARED):
        value, another = (attrgetter(key)(rows[name]) for name in (first, other))
        if value != another:
            values = f" ({value} and {another})" if key != "dataset" else ""
            raise Refused(
                f"rows '{first}' and '{other}' of a timing differ in {key}{values}, so their times do not compare: "
                "write it once, in the table's `recipe`."
            )
    if rows[first].trainer.precision == "64":
        raise Refused("trainer.precision=64 cannot be timed. Use trainer.precision=32 or bf16.")


def measure(
    contenders: dict[str, Contender], batch: Any, rounds: int, device: str
) -> tuple[Seconds, list[float | None]]:
    """Return the seconds of a training step of every row, and the load average, by round."""
    for contender in contenders.values():  # warm up: compile, allocate, fill the model's memory
        train(contender, batch, 3)
    names = list(contenders)
    block = math.ceil(BLOCK_SECONDS / seconds_of(partial(contenders[names[0]].step, batch), device))
    seconds: Seconds = {name: [] for name in names}
    loads: list[float | None] = []
    started = time.monotonic()
    for done in range(rounds):
        for position in range(len(names)):
            name = names[(done + position) % len(names)]
            seconds[name].append(seconds_of(partial(train, contenders[name], batch, block), device) / block)
        loads.append(resources.load_average())
        show_progress(done + 1, rounds, time.monotonic() - started)
    return seconds, loads


def train(contender: Contender, batch: Any, steps: int) -> None:
    for _ in range(steps):
        contender.step(batch)


def show_progress(done: int, rounds: int, elapsed: float) -> None:
    """Show the round and the time left: one line, rewritten on a terminal."""
    text = f"round {done} of {rounds}, {clock(elapsed / done * (rounds - done))} left"
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="\n" if done == rounds else "", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)
