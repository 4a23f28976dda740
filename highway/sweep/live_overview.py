"""The progress of a sweep: a live table on a terminal, plain lines anywhere else."""

import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from highway.clock import clock
from highway.errors import counted
from highway.ledger.directory import DONE
from highway.ledger.record import STATUSES
from highway.sweep.estimate import Estimate
from highway.sweep.planned_run import EXIT_REFUSED, Planned, last_line

LOOK_EVERY = 1.0  # seconds between two looks at the runs
LINES_EVERY = 60.0  # seconds between two summaries where there is no terminal
LINES_OF_RUNS = 3  # running runs below such a summary
LINE = 120  # characters of a line where there is no terminal
NAME = 28  # characters of a run's name that the table keeps as long as a column can be left out instead
COLOURS = {"running": "cyan", "testing": "cyan", "running elsewhere": "blue"}
INACTIVE = ("queued", "running elsewhere", "waiting")  # listed below those that run here
ACTIVE = ("running", "testing", "starting", *INACTIVE)
ORDER = ("finished", *ACTIVE, "diverged", "failed", "interrupted", "refused")
HEADS = ("state", "step", "train loss", "valid loss", "tokens/s", "time left")
LEFT_OUT_FIRST = ("tokens/s", "train loss", "valid loss", "state")  # where the terminal is too narrow


class LiveOverview:
    """A view of a sweep's progress, to be entered with `with`."""

    def __init__(self, to_run: Sequence[Planned], slots: int, queued: bool = False, plain: bool = False) -> None:
        """`queued`: a run may wait in a queue after it has been started. `plain`: never show a live table."""
        self.total, self.slots = len(to_run), slots
        self.before = "queued" if queued else "starting"
        self.ends: dict[Planned, str] = {}  # run that has ended -> how
        self.seen: set[Planned] = set()  # runs of ours that have begun to write
        self.estimate = Estimate()
        self._look_at, self._said = 0.0, time.monotonic()
        self.console = Console(file=sys.stderr, soft_wrap=True, highlight=False)
        self.live: Live | None = None
        if self.console.is_terminal and not plain:  # rich would otherwise capture what a launcher prints on stdout
            self.live = Live(console=self.console, auto_refresh=False, transient=True, redirect_stdout=False)

    def __enter__(self) -> "LiveOverview":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.live:
            self.live.stop()

    @property
    def width(self) -> int:
        return self.console.width if self.console.is_terminal else LINE

    def say(self, line: str) -> None:
        self.console.print(line, markup=False)

    def started(self, planned: Planned) -> None:
        if self.before == "starting":
            self.estimate.begin(planned)
        if not self.live:
            self.say(f"{self.before if self.before == 'queued' else 'started':9} {shortened(planned.label, LINE - 10)}")

    def ended(self, planned: Planned, code: int | None) -> None:
        """Report a run that has ended. `code` is the exit code of our process, or None if another sweep ended it."""
        status, result = planned.directory.status, planned.directory.result() or {}
        stopped = status if status in STATUSES else "failed"  # one that never began to write has no status of its own
        self.ends[planned] = state = "refused" if code == EXIT_REFUSED else stopped
        name = shortened(planned.label, self.width // 2)
        if state != "finished":
            self.estimate.end(planned, None)
            why = result.get("error") or last_line(planned.directory.log)
            self.say(f"{state:9} {name}: {_how(planned, code)}{why}")
            return
        seconds = result["cost"]["seconds"]
        self.estimate.end(planned, seconds)
        line = f"finished  {name}"
        took = f"  ({clock(seconds)}{'' if code is not None else ', by another sweep'})"
        for metric, values in result["metrics"].items():
            value = f"  {metric} {values['best']:.4g}"
            if metric.startswith("test") and len(line + value + took) <= self.width:
                line += value
        self.say(line + took)

    def update(self, waiting: Sequence[Planned], ours: Sequence[Planned]) -> None:
        """Show the progress now and then. `ours`: the runs that this sweep has started or queued and that go on."""
        now = time.monotonic()
        if now < self._look_at:
            return
        states = self.look(waiting, ours)
        if self.live:
            self.live.update(self.table(states), refresh=True)
        elif now - self._said >= LINES_EVERY:
            self._said = now
            self.say(self.summary(states))
            for planned in [run for run, state in states.items() if state == "running"][:LINES_OF_RUNS]:
                cells = self._cells(planned, "running")
                numbers = ", ".join(f"{head} {cells[head]}" for head in ("step", "time left") if head in cells)
                self.say(f"          {shortened(planned.label, LINE // 2)}: {numbers}")
        # Thousands of runs on a slow file system: a look must not take the time of the runs themselves.
        self._look_at = now + max(LOOK_EVERY, 20 * (time.monotonic() - now))

    def look(self, waiting: Sequence[Planned], ours: Sequence[Planned]) -> dict[Planned, str]:
        """Read how far all runs are that have not ended; return the state of each, in the order of the table."""
        states = {planned: self._state(planned) for planned in ours}
        for planned in waiting:
            status = planned.directory.status
            states[planned] = "running elsewhere" if status == "running" else status if status in DONE else "waiting"
        for planned, state in states.items():
            if state in ("running", "testing", "running elsewhere"):
                self.estimate.measure(planned, planned.directory.progress)
        here = {planned: state for planned, state in states.items() if state not in INACTIVE}
        return here | {run: state for listed in INACTIVE for run, state in states.items() if state == listed}

    def _state(self, planned: Planned) -> str:
        """Return the state of a run of ours: its record counts as soon as it is written, though its process exits."""
        status = planned.directory.status
        if status in DONE:
            return status
        if status != "running":
            queued_again = status == "interrupted" and self.before == "queued"  # Slurm repeats what it has preempted
            return status if planned in self.seen and not queued_again else self.before
        self.seen.add(planned)
        self.estimate.begin(planned)
        progress = planned.directory.progress
        if not progress:
            return "starting"
        return "running" if progress["step"] < progress["steps"] else "testing"

    def table(self, states: dict[Planned, str]) -> Group:
        """Return the live table, as wide as the terminal, and the summary."""
        room = max(self.console.height - 5, 1)
        rows = [(planned, state) for planned, state in states.items() if state in ACTIVE][:room]
        cells = {planned: self._cells(planned, state) for planned, state in rows}
        heads = [head for head in HEADS if any(head in row for row in cells.values())]
        width = min(NAME, max((len(planned.label) for planned in cells), default=0))
        unlimited = self.console.options.update(width=1000)  # rich would squeeze the columns
        for head in (None, *LEFT_OUT_FIRST):
            heads = [other for other in heads if other != head]
            needed = self.console.measure(_grid(cells, heads, width), options=unlimited).maximum
            if needed <= self.width:
                break
        grids = [_grid(cells, heads, max(width + self.width - needed, 1))] if cells else []
        return Group(*grids, Text(self.summary(states)))

    def _cells(self, planned: Planned, state: str) -> dict[str, str]:
        """Return what is known of a run by the head of its column."""
        cells = {"state": state}
        if progress := self.estimate.progress.get(planned):
            cells["step"] = f"{progress['step']:,}/{progress['steps']:,}"
            losses = {"train loss": "train_loss", "valid loss": "valid_loss"}
            cells |= {head: f"{progress[name]:.4f}" for head, name in losses.items() if name in progress}
            cells["tokens/s"] = f"{progress['tokens_per_second']:,.0f}"
        left = None if state in ("queued", "waiting") else self.estimate.left(planned)
        if left is not None and left >= 1:  # an overdue run says no time
            cells["time left"] = clock(left)
        return cells

    def summary(self, states: dict[Planned, str]) -> str:
        """Return one line: the number of runs in each state, and the time left."""
        count = Counter([*states.values(), *self.ends.values()])
        shown = ", ".join(f"{count[state]} {state}" for state in ORDER if count[state])
        left = self.estimate.left_of_sweep(states, self.slots)
        about = f"; about {clock(left)} left" if left is not None and left >= 1 else ""
        return f"{counted(self.total, 'run')}: {shown}{about}"


def shortened(name: str, width: int) -> str:
    """Return a name of at most `width` characters; a longer one loses its middle: both ends tell runs apart."""
    tail = (width - 1) // 2
    return name if len(name) <= width else f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


def _grid(cells: dict[Planned, dict[str, str]], heads: Sequence[str], width: int) -> Table:
    """Lay out the table: a line per run, with names of at most `width` characters."""
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    grid.add_column("run", no_wrap=True)
    for head in heads:
        grid.add_column(head, justify="left" if head == "state" else "right", no_wrap=True)
    for planned, row in cells.items():
        colour = {"state": COLOURS.get(row["state"], "dim")}
        texts = [Text(row.get(head, ""), colour.get(head, "")) for head in heads]
        grid.add_row(Text(shortened(planned.label, width)), *texts)
    return grid


def _how(planned: Planned, code: int | None) -> str:
    """Return the signal that ended a run, as the beginning of a message; empty if none did."""
    if code is None or code >= 0:
        return ""
    if code == -signal.SIGKILL:
        less = planned.trainer.less_memory
        return f"killed by signal 9, as systems do when memory runs out; if that is why, {less}; "
    return f"killed by signal {-code}; "
