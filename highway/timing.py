"""Time the rows of a table of `kind: timing` in interleaved rounds on one idle device, and write result.json.

In every round each row trains a block of steps, so that changes in the machine's speed affect all rows alike. A round
is measured again if other processes kept more than machine.QUIET processors busy. The results of a row are medians
over the quiet rounds.
"""

import csv
import io
import logging
import math
import statistics
import time
from functools import partial
from typing import Any

import torch

from highway.errors import Refused
from highway.files.device import device_name
from highway.files.writing import write_text
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import TIMING_REVISION, configuration, identified
from highway.ledger.lease import HeldLease
from highway.ledger.record import write_record
from highway.ledger.together import Timing
from highway.run import machine
from highway.run.recorder import COLUMNS
from highway.run.trial import Contender, Entry, peak_memory, seconds_of

log = logging.getLogger("highway")
BLOCK_SECONDS = 0.5  # least time of the first row in a round
PATIENCE = 5  # the disturbed rounds may outnumber the quiet ones by this many

Seconds = dict[str, list[float]]  # row -> seconds per step in each quiet round


def run(timing: Timing, command: str) -> str:
    """Time the rows of a table and record them. Return the status in result.json."""
    directory, started = timing.directory, time.monotonic()
    with directory.leased() as lease:
        if directory.done:
            log.info("%s is %s already: nothing to measure.", directory.path, directory.status)
            return directory.status
        directory.begin()
        machine.open_log(directory.log)
        machine.write_down(directory, {name: configuration(row) for name, row in timing.rows.items()})
        first = timing.first
        entries = {
            name: Entry(first.trainer.precision, row, timing.device, first.trainer.compile)
            for name, row in timing.rows.items()
        }
        machine.prepare(timing.threads)
        peaks = {name: peak_memory(entry, timing.threads) for name, entry in entries.items()}
        torch.manual_seed(first.seed)
        contenders = {name: entry.build() for name, entry in entries.items()}
        batch = next(iter(entries.values())).batch()
        seconds = measure(contenders, batch, timing.rounds, timing.device, lease)
        write_rounds(directory, timing, seconds, batch.inputs.numel())
        rows = {
            identified(row): {
                "metrics": metrics(seconds, name, timing, peaks[name]),
                "parameters": {"total": contenders[name].parameters},
            }
            for name, row in timing.rows.items()
        }
        write_record(directory.path, {**about(timing, command, time.monotonic() - started), "rows": rows})
        log.info("%s: finished", directory.path)
        return "finished"


def measure(contenders: dict[str, Contender], batch: Any, rounds: int, device: str, lease: HeldLease) -> Seconds:
    """Measure the seconds per step of every row in `rounds` quiet rounds. Each round begins with another row."""
    for contender in contenders.values():  # warm up: compile, allocate, fill the model's memory
        for _ in range(3):
            contender.step(batch)
    names = list(contenders)
    block = math.ceil(BLOCK_SECONDS / seconds_of(partial(contenders[names[0]].step, batch), device))
    seconds: Seconds = {name: [] for name in names}
    started, disturbed, quiet = time.monotonic(), 0, 0
    while quiet < rounds:
        neighbours, spent = machine.Neighbours(), {}
        for position in range(len(names)):
            name = names[(quiet + position) % len(names)]
            spent[name] = seconds_of(partial(train, contenders[name], batch, block), device) / block
        others = neighbours.processors()
        if others > machine.QUIET:
            disturbed += 1
            log.info("a round beside %.1f processors' work of others: measured again.", others)
            if disturbed > quiet + PATIENCE:
                raise Refused(
                    f"other processes kept {others:.1f} processors busy in {disturbed} rounds of {disturbed + quiet}; "
                    "a timing needs an idle machine: stop what else is running, and give the same command again."
                )
            continue
        quiet += 1
        for name in names:
            seconds[name].append(spent[name])
        lease.progress = progress(quiet, rounds, batch.inputs.numel() / spent[names[0]], time.monotonic() - started)
    return seconds


def train(contender: Contender, batch: Any, steps: int) -> None:
    for _ in range(steps):
        contender.step(batch)


def progress(done: int, rounds: int, tokens_per_second: float, elapsed: float) -> dict[str, Any]:
    """Return what a sweep's overview shows, with rounds in place of steps."""
    left = round(elapsed / done * (rounds - done), 1)
    return {"step": done, "steps": rounds, "tokens_per_second": round(tokens_per_second, 1), "seconds_left": left}


def metrics(seconds: Seconds, row: str, timing: Timing, peak: int) -> dict[str, dict[str, float]]:
    """Return the metrics of one row as a report reads them. Spread is the interquartile range over the median."""
    median = statistics.median(seconds[row])
    low, _, high = statistics.quantiles(seconds[row], n=4)
    steps = timing.rows[row].trainer.max_steps or 0
    values = {
        "step_seconds": median,
        "spread": (high - low) / median,
        "relative_time": statistics.median(relative(seconds, row)),
        "train_time_h": median * steps / 3600,
        "peak_memory_mib": peak / 2**20,
    }
    return {name: {"best": value, "last": value} for name, value in values.items()}


def relative(seconds: Seconds, row: str) -> list[float]:
    """Divide the times of a row by those of the first row, round by round: slow drifts of the machine cancel out."""
    first = next(iter(seconds.values()))
    return [value / base for value, base in zip(seconds[row], first, strict=True)]


def write_rounds(directory: RunDirectory, timing: Timing, seconds: Seconds, tokens: int) -> None:
    """Write every measurement in the columns of curves.csv: the round as the step, the row's identity as the split."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name in seconds:
        for metric, values in (("step_seconds", seconds[name]), ("relative_time", relative(seconds, name))):
            for number, (spent, value) in enumerate(zip(seconds[name], values, strict=True), start=1):
                writer.writerow([number, 0, spent, tokens, identified(timing.rows[name]), metric, value])
    write_text(directory.curves, text.getvalue())


def about(timing: Timing, command: str, seconds: float) -> dict[str, Any]:
    """Return the content of result.json besides the rows."""
    first = timing.first
    return {
        "cell": timing.directory.name,
        "revision": {"timing": TIMING_REVISION},
        "seed": first.seed,
        "budget": timing.budget,
        "command": command,
        "status": "finished",
        "error": None,
        "metrics": {},
        "data": {"source": "random", "vocabulary_sha256": "", "sha256": {}},
        "environment": machine.environment(first, processes=1),
        "cost": {
            "seconds": round(seconds, 3),
            "device": device_name(timing.device),
            "exclusive": True,
        },
    }
