"""The progress of a sweep: a live table on a terminal, plain lines anywhere else."""

import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from highway.clock import clock
from highway.errors import counted
from highway.sweep.launcher import EXIT_REFUSED, Planned, last_line

LINES_EVERY = 60.0  # seconds between two summaries where there is no terminal
HEADS = ("step", "training loss", "validation loss", "tokens/s", "time left")
COLOURS = {"running": "cyan", "elsewhere": "blue"}


class Overview:
    """A view of a sweep's progress, to be entered with `with`."""

    def __init__(self, planned_runs: Sequence[Planned], slots: int, queued: bool = False) -> None:
        """`queued`: a run may wait in a queue after it has been started."""
        self.total, self.slots = len(planned_runs), slots
        self.before = "queued" if queued else "starting"
        self.counts: dict[str, int] = {}  # status -> number of runs that ended with it
        self.seconds: list[float] = []  # training time of each finished run of this sweep
        self.begun: dict[str, float] = {}  # label of a run of ours -> when it began to start up
        self.startup: dict[str, float] = {}  # label -> seconds before it trained; of a run that has ended, also after
        self._looked = self._said = time.monotonic()
        self.console = Console(file=sys.stderr, soft_wrap=True, highlight=False)
        self.live: Live | None = None
        if self.console.is_terminal:  # rich would otherwise capture what a launcher prints on stdout
            self.live = Live(console=self.console, auto_refresh=False, transient=True, redirect_stdout=False)

    def __enter__(self) -> "Overview":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.live:
            self.live.stop()

    def say(self, line: str) -> None:
        self.console.print(line, markup=False)

    def started(self, planned: Planned) -> None:
        if self.before == "starting":
            self.begun[planned.label] = time.monotonic()
        if not self.live:
            self.say(f"{'queued' if self.before == 'queued' else 'started':9} {planned.label}")

    def ended(self, planned: Planned, code: int | None) -> None:
        """Report a run that has ended. `code` is the exit code of our process, or None if another sweep ended it."""
        status, result = planned.directory.status, planned.directory.result() or {}
        self.counts[status] = self.counts.get(status, 0) + 1
        if status == "finished":
            self.seconds.append(result["cost"]["seconds"])
            self._note_startup(planned, result["cost"]["seconds"])
            best = {name: values["best"] for name, values in result["metrics"].items()}
            shown = "  ".join(f"{name} {value:.4g}" for name, value in best.items() if name.startswith("test"))
            where = "" if code is not None else ", by another sweep"
            self.say(f"finished  {planned.label}  {shown}  ({clock(result['cost']['seconds'])}{where})")
        else:
            why = result.get("error") or last_line(planned.directory.log)
            self.say(f"{'refused' if code == EXIT_REFUSED else status:9} {planned.label}: {_how(planned, code)}{why}")

    def update(self, waiting: Sequence[Planned], ours: Sequence[Planned]) -> None:
        """Show the progress now and then. `ours`: the runs that this sweep has started or queued and that go on."""
        now = time.monotonic()
        if self.live and now - self._looked >= 0.5:
            self._looked = now
            self.live.update(self._table(waiting, ours), refresh=True)
        elif not self.live and now - self._said >= LINES_EVERY:
            self._said = now
            running = self._running(ours)
            self.say(self._summary(waiting, ours, running))
            for planned in running:
                headed = [f"{head} {value}" for head, value in zip(HEADS, _cells(planned), strict=False) if value]
                self.say(f"          {planned.label}: {', '.join(headed) or 'starting'}")

    def _table(self, waiting: Sequence[Planned], ours: Sequence[Planned]) -> Group:
        running = self._running(ours)
        grid = Table(box=SIMPLE_HEAD, expand=False)
        grid.add_column("run", no_wrap=True)
        grid.add_column("status")
        for head in HEADS:
            grid.add_column(head, justify="right")
        room = max(self.console.height - 7, 1)  # reads no files of runs that do not fit, which may be thousands
        for planned in running[:room]:
            grid.add_row(Text(planned.label), Text("running", COLOURS["running"]), *(_cells(planned) or ["starting"]))
        for planned in [entry for entry in ours if entry not in running][: max(room - len(running), 0)]:
            grid.add_row(Text(planned.label), Text(self.before, "dim"))
        looked_at = [(planned, planned.directory.status) for planned in waiting[: max(room - len(ours), 0)]]
        for planned, status in sorted(looked_at, key=lambda entry: entry[1] != "running"):
            if status == "running":
                grid.add_row(
                    Text(planned.label),
                    Text("running elsewhere", COLOURS["elsewhere"]),
                    *(_cells(planned) or ["starting"]),
                )
            else:
                grid.add_row(Text(planned.label, "dim"), Text(status, "dim"))
        return Group(grid, Text(self._summary(waiting, ours, running)))

    def _summary(self, waiting: Sequence[Planned], ours: Sequence[Planned], running: Sequence[Planned]) -> str:
        to_begin = len(ours) - len(running)
        before = f", {to_begin} {self.before}" if to_begin else ""
        ended = "".join(f", {count} {status}" for status, count in sorted(self.counts.items()))
        left = self._seconds_left(len(waiting) + to_begin, running)
        about = f"; about {clock(left)} left" if left is not None else ""
        return f"{counted(self.total, 'run')}: {len(running)} running{before}, {len(waiting)} waiting{ended}{about}"

    def _running(self, ours: Sequence[Planned]) -> list[Planned]:
        """Return the runs that are running, and note when each was first seen to, unless we started it at once."""
        running = [planned for planned in ours if planned.directory.status == "running"]
        for planned in running:
            self.begun.setdefault(planned.label, time.monotonic())
        return running

    def _note_startup(self, planned: Planned, trained: float) -> None:
        """Note the time that a run has spent outside training; a resumed run has trained for longer than it is here."""
        if planned.label in self.begun:
            passed = time.monotonic() - self.begun[planned.label]
            if passed > trained:
                self.startup[planned.label] = passed - trained

    def _seconds_left(self, to_begin: int, running: Sequence[Planned]) -> float | None:
        """Estimate the time left: running runs by their own estimates, the others by the mean run and start-up."""
        left, whole = [], []
        for planned in running:
            if progress := planned.directory.progress:
                left.append(progress["seconds_left"])
                whole.append(left[-1] * progress["steps"] / max(progress["steps"] - progress["step"], 1))
                if planned.label not in self.startup:
                    self._note_startup(planned, whole[-1] - left[-1])
        usual, before = [*self.seconds, *whole], [*self.startup.values()]
        if not usual or not (running or to_begin) or (running and not left):
            return None
        each = sum(usual) / len(usual) + sum(before) / max(len(before), 1)
        ahead = sum(left) + (to_begin + len(running) - len(left)) * each
        return max([ahead / self.slots, *left])


def _cells(planned: Planned) -> list[str]:
    """Return how far a run is: a text for each of HEADS, empty if not measured yet; [] before the first step."""
    progress = planned.directory.progress
    if not progress:
        return []
    train, valid = (f"{progress[name]:.4f}" if name in progress else "" for name in ("train_loss", "valid_loss"))
    step = f"{progress['step']:,}/{progress['steps']:,}"
    return [step, train, valid, f"{progress['tokens_per_second']:,.0f}", clock(progress["seconds_left"])]


def _how(planned: Planned, code: int | None) -> str:
    """Return the signal that ended a run, as the beginning of a message; empty if none did."""
    if code is None or code >= 0:
        return ""
    if code == -signal.SIGKILL and planned.experiment:
        less = planned.experiment.trainer.less_memory
        return f"killed by signal 9, as systems do when memory runs out; if that is why, {less}; "
    return f"killed by signal {-code}; "
