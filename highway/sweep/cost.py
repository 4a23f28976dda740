"""Estimate what a sweep would cost, before it runs: a sentence, and a line for every row."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text
from torch.utils.flop_counter import FlopCounterMode

from highway.cards.models import Remembers
from highway.clock import clock
from highway.config import home
from highway.config.experiment import Experiment
from highway.data.prepare import verify
from highway.describe import parameter_counts
from highway.errors import Refused, counted, listing
from highway.ledger.directory import seed_directories
from highway.ledger.record import read_record
from highway.machine import cores, device_name
from highway.run import build
from highway.run.cautions import cautions
from highway.run.compiled import mode_of
from highway.run.start import set_up_torch
from highway.sweep.plan import published
from highway.sweep.planned_run import Planned
from highway.timing.stopwatch import FIRST_STEPS, Entry

DAY = 24 * 3600
OPERATIONS = {"cpu": 1e11, "cuda": 1e13}  # the most in one step of a trial: a few seconds on any machine
AROUND = 0.0015  # seconds that the training loop adds to a step on an H200 (docs/LOG.md); a CPU hides them in its steps
TRIAL_SECONDS = 1.5
STEPS = 10  # counted steps of a window that is read step by step: all steps cost the same, and counting is slow


@dataclass(frozen=True)
class Cost:
    parameters: int
    of_gates: int
    without_gradient: int  # parameters that get no gradient in a training step
    operations: float  # floating-point operations per token, in the products of a training step
    tokens: int  # tokens in a training step


def cost_of(described: Experiment) -> Cost:
    """Count the cost of a training step on the recipe's own batch, in fp32."""
    described, times = _shorter(described)
    with torch.device("meta"):
        task = build.task(described).train()
        batch = build.like_real(described, "meta")
        with FlopCounterMode(display=False) as counter:
            task.learn(batch).objective.backward()
    counts = parameter_counts(task.model)
    return Cost(
        counts["total"],
        counts["gate"],
        sum(parameter.numel() for parameter in task.parameters() if parameter.grad is None),
        counter.get_total_flops() / task.tokens(batch),
        round(task.tokens(batch) * times),
    )


def _shorter(described: Experiment) -> tuple[Experiment, float]:
    """Shorten the window if a state is carried from step to step. Return the factor by which it is shorter, too."""
    cut = getattr(described.dataset, "train", None)
    if described.remembers is not Remembers.STATE or cut is None or cut.stride != cut.window or cut.window <= STEPS:
        return described, 1
    fewer = cut.model_copy(update={"window": STEPS, "stride": STEPS, "scored": STEPS})
    dataset = described.dataset.model_copy(update={"train": fewer})
    return described.model_copy(update={"dataset": dataset}), cut.window / STEPS


@dataclass(frozen=True)
class Line:
    """The estimate for one row, over its seeds."""

    label: str
    done: int
    missing: int
    cost: Cost
    seconds: float | None  # training time that one seed still needs; None if it cannot be estimated
    source: str  # where `seconds` comes from: records, a trial, or no data
    threads: int  # CPU threads of a run
    why: str = ""  # why `seconds` is None


def foresee(every: Sequence[Planned], missing: Sequence[Planned], threads: int | None, console: Console) -> None:
    """Print what the missing runs would cost; `every` holds all runs of the sweep.

    threads: CPU threads of a run that does not set them; None for all cores.
    """
    estimates = lines(every, set(missing), threads)
    warnings = cautions(planned.experiment for planned in missing).values()
    shown = layout(estimates)
    shown[1:1] = [*published(missing), *on_other_devices(every)]
    console.print(*shown, *warnings, sep="\n", soft_wrap=not console.is_terminal)


def on_other_devices(every: Sequence[Planned]) -> list[str]:
    """Return a sentence for each GPU other than this one's on which some of these runs, as published, were trained."""
    times: dict[str, list[float]] = {}
    for planned in every:
        record = read_record(home.REFERENCE / "cells" / planned.directory.id / "result.json")
        if record and record["status"] == "finished" and "seconds" in record["cost"]:
            times.setdefault(record["cost"]["device"], []).append(record["cost"]["seconds"])
    here = device_name(_device())
    return [
        f"{counted(len(seconds), 'published run')} of these took {_range(seconds)} on {device}."
        for device, seconds in times.items()
        if device != here and "NVIDIA" in device
    ]


def _range(seconds: Sequence[float]) -> str:
    least, most = clock(min(seconds)), clock(max(seconds))
    return least if least == most else f"{least} to {most}"


def layout(estimates: Sequence[Line]) -> list[str | RichTable]:
    """Return the lines and the table that show these estimates."""
    missing, known = sum(line.missing for line in estimates), [line for line in estimates if line.seconds is not None]
    grid = _grid(estimates)
    reasons = dict.fromkeys(line.why for line in estimates if line.why)
    return [_first(estimates, known, missing), grid, *reasons]


def _first(estimates: Sequence[Line], known: Sequence[Line], missing: int) -> str:
    count = f"{counted(missing, 'run')} to train, {sum(line.done for line in estimates)} done"
    of = sum(line.missing for line in known)
    if not missing or not of:
        return f"{count}: {'nothing to do' if not missing else 'how long that takes is unknown'}."
    seconds = sum((line.seconds or 0) * line.missing for line in known)
    where = device_name(_device())
    if _device() == "cpu":
        threads = sorted({line.threads for line in known if line.missing})
        where += f", {listing([str(number) for number in threads])} thread{'' if threads == [1] else 's'} a run"
    least = "about" if of == missing else f"for {of} of them about"
    first = f"{count}: {least} {clock(seconds)} of training, one after another ({where})."
    return f"More than a day: {seconds / DAY:.1f} days. {first}" if seconds > DAY else first


def _grid(estimates: Sequence[Line]) -> RichTable:
    caption = (
        "to train: missing runs, of all; MFLOP: million floating-point operations of a training step, for each\n"
        "token; a seed: time to train one; from: records, or a trial just now"
    )
    grid = RichTable(box=SIMPLE_HEAD, caption=caption, caption_justify="left", padding=(0, 1, 0, 0), pad_edge=False)
    grid.add_column("row", overflow="fold", min_width=13)
    for head in ("to train", "parameters", "MFLOP", "a seed"):
        grid.add_column(head, justify="right", no_wrap=True, min_width=len(head))
    grid.add_column("from", no_wrap=True, min_width=7, style="dim")
    tables = {line.label.partition(" ")[0] for line in estimates}
    shared = f"{min(tables)} " if len(tables) == 1 and len(estimates) > 1 else ""  # usually the table's id
    for line in estimates:
        size = (f"{line.cost.parameters:,}", f"{line.cost.operations / 1e6:,.1f}")
        long = "unknown" if line.seconds is None else clock(line.seconds)
        label = Text(line.label.removeprefix(shared))
        grid.add_row(label, f"{line.missing} of {line.done + line.missing}", *size, long, Text(line.source))
    return grid


def lines(every: Sequence[Planned], missing: set[Planned], threads: int | None = None) -> list[Line]:
    """Return a line for each row; `every` holds each run of the sweep once."""
    estimates: list[Line] = []
    rates: dict[tuple[Any, ...], float] = {}  # operations per second, by model, precision, size, threads and mode
    rows: dict[Path, list[Planned]] = {}
    for planned in every:
        rows.setdefault(planned.directory.path.parent, []).append(planned)
    for folder, seeds in rows.items():
        described = seeds[0].experiment
        to_run = sum(planned in missing for planned in seeds)
        taken = cost_of(described)
        of_a_run = described.trainer.threads or threads or cores()
        seconds, source, why = _recorded(folder), "records", ""
        if seconds is None and to_run:
            steps, why = _steps(described)
            source = "trial" if steps else "no data"
            if steps:
                size = int(math.log2(taken.operations * taken.tokens))
                key = (
                    described.model.name,
                    described.trainer.precision,
                    size,
                    of_a_run,
                    mode_of(described, _device(), steps),
                )
                rates[key] = rates.get(key) or operations_a_second(described, taken, of_a_run, steps)
                seconds = taken.operations * taken.tokens * steps / rates[key]
                seconds += AROUND * steps if _device() == "cuda" else 0
        label = seeds[0].label.rpartition(" seed ")[0]
        estimate = (taken, seconds, source if to_run else "", of_a_run, why)
        estimates.append(Line(label, len(seeds) - to_run, to_run, *estimate))
    return estimates


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _recorded(folder: Path) -> float | None:
    """Return the mean seconds of the finished seeds in this folder on this device; None if there are none."""
    results = [read_record(path / "result.json") for path in seed_directories(folder)]
    costs = [result["cost"] for result in results if result and result["status"] == "finished"]
    seconds = [spent["seconds"] for spent in costs if spent["device"] == device_name(_device()) and "seconds" in spent]
    return sum(seconds) / len(seconds) if seconds else None


def operations_a_second(described: Experiment, taken: Cost, threads: int, steps_of_run: float = math.inf) -> float:
    """Measure floating-point operations per second over a few training steps, on fewer lanes if a step is long.

    The steps are compiled as those of a run of so many steps are.
    """
    small = _smaller(described, taken)
    set_up_torch(threads)
    entry = Entry(described.trainer.precision, small, _device(), mode_of(small, _device(), steps_of_run))
    contender, batch = entry.build(), entry.batch()
    for _ in range(FIRST_STEPS if entry.compiled else 1):
        contender.step(batch)
    started, steps = time.perf_counter(), 0
    while steps < 1 or time.perf_counter() - started < TRIAL_SECONDS:
        contender.step(batch)
        steps += 1
        if _device() == "cuda":
            torch.cuda.synchronize()
    of_a_step = taken.operations * taken.tokens * _lanes(small) / _lanes(described)
    return of_a_step * steps / (time.perf_counter() - started)


def _smaller(described: Experiment, taken: Cost) -> Experiment:
    lanes = _lanes(described)
    fewer = max(int(lanes * min(OPERATIONS[_device()] / (taken.operations * taken.tokens), 1)), 1)
    if fewer == lanes:
        return described
    cut = described.dataset.train.model_copy(update={"lanes": fewer})
    dataset = described.dataset.model_copy(update={"train": cut})
    return described.model_copy(update={"dataset": dataset})


def _lanes(described: Experiment) -> int:
    """Return the number of lanes of a training batch, or 1 for data without lanes, whose batch is not reduced."""
    return getattr(getattr(described.dataset, "train", None), "lanes", 1)


def _steps(described: Experiment) -> tuple[int | None, str]:
    """Return the number of training steps of a run; or None and the reason, such as missing data."""
    if described.trainer.max_steps:
        return described.trainer.max_steps, ""
    try:
        if described.dataset.source == "files":
            verify(described.dataset, described.data_dir)
        return build.data(described).total_steps, ""
    except Refused as missing:
        return None, str(missing)
