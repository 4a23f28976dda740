"""What a sweep shows while it runs: a live table on a terminal, plain lines anywhere else."""

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
from highway.sweep.launch import Planned, last_words

LINES_EVERY = 60.0  # seconds, off a terminal
EXIT_REFUSED = 2
COLOURS = {"running": "cyan", "elsewhere": "blue"}


class Overview:
    def __init__(self, cells: Sequence[Planned], slots: int, queued: bool = False) -> None:
        """`queued`: a cell of ours may wait for long before it begins."""
        self.total, self.slots = len(cells), slots
        self.before = "queued" if queued else "starting"
        self.remarks: dict[str, str] = {}  # by label of a run, what it said while it was running
        self.counts: dict[str, int] = {}  # of cells that ended, by status
        self.seconds: list[float] = []  # that cells of this sweep took
        self._looked = self._said = time.monotonic()
        self.console = Console(file=sys.stderr, soft_wrap=True, highlight=False)
        self.live: Live | None = None
        if self.console.is_terminal:  # what an engine prints on stdout is none of the table's business
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
        if not self.live:
            self.say(f"{'queued' if self.before == 'queued' else 'started':9} {planned.label}")

    def ended(self, planned: Planned, code: int | None) -> None:
        """`code` is the exit code of our process; None where another sweep ended the cell."""
        status, result = planned.cell.status, planned.cell.result() or {}
        self.counts[status] = self.counts.get(status, 0) + 1
        if status == "finished":
            self.seconds.append(result["cost"]["seconds"])
            best = {name: values["best"] for name, values in result["metrics"].items()}
            shown = "  ".join(f"{name} {value:.4g}" for name, value in best.items() if name.startswith("test"))
            where = "" if code is not None else ", by another sweep"
            self.say(f"finished  {planned.label}  {shown}  ({clock(result['cost']['seconds'])}{where})")
        else:
            why = result.get("error") or last_words(planned.cell.log)
            self.say(f"{'refused' if code == EXIT_REFUSED else status:9} {planned.label}: {_how(code)}{why}")

    def update(self, waiting: Sequence[Planned], ours: Sequence[Planned]) -> None:
        """`ours`: the cells that this sweep has started, or queued, and that have not ended."""
        now = time.monotonic()
        if self.live and now - self._looked >= 0.5:
            self._looked = now
            self.live.update(self._table(waiting, ours), refresh=True)
        elif not self.live and now - self._said >= LINES_EVERY:
            self._said = now
            running = _running(ours)
            self._say_remarks(running)
            self.say(self._summary(waiting, ours, running))
            for planned in running:
                self.say(f"          {planned.label}  {'  '.join(_cells(planned))}")

    def _say_remarks(self, running: Sequence[Planned]) -> None:
        """Repeat, once, what a run remarks in its own log, as that it has become slow."""
        for planned in running:
            remark = (planned.cell.progress or {}).get("remark")
            if remark and self.remarks.get(planned.label) != remark:
                self.remarks[planned.label] = remark
                self.say(f"          {planned.label}: {remark}")

    def _table(self, waiting: Sequence[Planned], ours: Sequence[Planned]) -> Group:
        running = _running(ours)
        self._say_remarks(running)
        grid = Table(box=SIMPLE_HEAD, expand=False)
        grid.add_column("cell", no_wrap=True)
        grid.add_column("state")
        for head in ("step", "train", "valid", "tokens/s", "left"):
            grid.add_column(head, justify="right")
        room = max(self.console.height - 7, 1)  # of the others, which may be thousands, nothing is read
        for planned in running[:room]:
            grid.add_row(Text(planned.label), Text("running", COLOURS["running"]), *_cells(planned))
        for planned in [one for one in ours if one not in running][: max(room - len(running), 0)]:
            grid.add_row(Text(planned.label), Text(self.before, "dim"))
        looked_at = [(planned, planned.cell.status) for planned in waiting[: max(room - len(ours), 0)]]
        for planned, status in sorted(looked_at, key=lambda one: one[1] != "running"):
            if status == "running":
                grid.add_row(Text(planned.label), Text("elsewhere", COLOURS["elsewhere"]), *_cells(planned))
            else:
                grid.add_row(Text(planned.label, "dim"), Text(status, "dim"))
        return Group(grid, Text(self._summary(waiting, ours, running)))

    def _summary(self, waiting: Sequence[Planned], ours: Sequence[Planned], running: Sequence[Planned]) -> str:
        to_begin = len(ours) - len(running)
        before = f", {to_begin} {self.before}" if to_begin else ""
        ended = "".join(f", {count} {status}" for status, count in sorted(self.counts.items()))
        left = self._seconds_left(len(waiting) + to_begin, running)
        about = f"; about {clock(left)} left" if left is not None else ""
        return f"{self.total} cells: {len(running)} running{before}, {len(waiting)} waiting{ended}{about}"

    def _seconds_left(self, to_begin: int, running: Sequence[Planned]) -> float | None:
        """The running cells as they say of themselves; the others as long as those take, in our slots."""
        known = [progress for planned in running if (progress := planned.cell.progress)]
        left = [progress["seconds_left"] for progress in known]
        whole = [one["seconds_left"] * one["steps"] / max(one["steps"] - one["step"], 1) for one in known]
        usual = [*self.seconds, *whole]
        if not usual or not (running or to_begin) or (running and not known):
            return None
        ahead = sum(left) + to_begin * sum(usual) / len(usual)
        return max([ahead / self.slots, *left])


def _running(ours: Sequence[Planned]) -> list[Planned]:
    return [planned for planned in ours if planned.cell.status == "running"]


def _cells(planned: Planned) -> list[str]:
    """How far a running cell is, for the columns after its state."""
    progress = planned.cell.progress
    if not progress:
        return ["starting"]
    train, valid = (f"{progress[name]:.4f}" if name in progress else "—" for name in ("train_loss", "valid_loss"))
    step = f"{progress['step']:,}/{progress['steps']:,}"
    return [step, train, valid, f"{progress['tokens_per_second']:,.0f}", clock(progress["seconds_left"])]


def _how(code: int | None) -> str:
    return f"killed by signal {-code}; " if code is not None and code < 0 else ""
