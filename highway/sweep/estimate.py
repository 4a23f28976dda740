"""Estimate when the runs of a sweep end, from what each run measures itself and from the runs that have finished."""

import heapq
import time
from statistics import fmean
from typing import Any

from highway.ledger.record import STATUSES
from highway.sweep.planned_run import Planned


class Estimate:
    """The times of a sweep's runs, from the start of a process to its end. Runs that do not finish are left out."""

    def __init__(self) -> None:
        self.progress: dict[Planned, dict[str, Any]] = {}  # what a run has last measured (highway/run/progress.py)
        self._start: dict[Planned, float] = {}
        self._expected_end: dict[Planned, float] = {}  # when a run will have tested, as it has said itself
        self._overrun: dict[
            Planned, float
        ] = {}  # seconds by which the process of a finished run ended later than expected
        self._duration: dict[Planned, float] = {}  # seconds that a run takes: expected, then measured

    def begin(self, planned: Planned) -> None:
        self._start.setdefault(planned, time.monotonic())

    def measure(self, planned: Planned, progress: dict[str, Any]) -> None:
        """Note the progress of a running run. Until the run's next step it says the same, and so does the estimate."""
        now = time.monotonic()
        if progress != self.progress.get(planned) and "seconds_left" in progress:
            self._expected_end[planned] = now + progress["seconds_left"]
            self._duration[planned] = self._spent(planned, progress["seconds"]) + progress["seconds_left"]
        self.progress[planned] = progress

    def end(self, planned: Planned, seconds: float | None) -> None:
        """Note that a run has ended. `seconds`: its time in training, or None if it has not finished."""
        if seconds is None:
            for known in (self.progress, self._start, self._expected_end, self._duration):
                known.pop(planned, None)
        elif planned in self._start:
            self._duration[planned] = self._spent(planned, seconds)
            if planned in self._expected_end:
                self._overrun[planned] = time.monotonic() - self._expected_end[planned]

    def _spent(self, planned: Planned, trained: float) -> float:
        """Return the seconds of a run until now; a resumed run has trained for longer than its process has existed."""
        now = time.monotonic()
        return max(now - self._start.get(planned, now), trained)

    def left(self, planned: Planned) -> float | None:
        """Return the seconds until a run has ended, 0 if it is overdue; None before there is a measurement."""
        now = time.monotonic()
        if planned in self._expected_end:
            return max(self._expected_end[planned] + (_usual(self._overrun, planned) or 0) - now, 0)
        usual = _usual(self._duration, planned)
        return None if usual is None else max(usual - (now - self._start.get(planned, now)), 0)

    def left_of_sweep(self, states: dict[Planned, str], slots: int) -> float | None:
        """Return the seconds until all have ended: each waiting run starts in the slot that is free first."""
        if not self._duration:
            return None
        free: list[float] = []
        ahead: list[float] = []
        elsewhere: list[float] = []
        for planned, state in states.items():
            left = 0.0 if state in STATUSES else self.left(planned) or 0.0  # 0: nothing is known yet
            if state == "running elsewhere":
                elsewhere.append(left)
            elif state in ("queued", "waiting"):
                ahead.append(left)
            else:
                free.append(left)  # it has a slot until then
        free += [0.0] * (slots - len(free))
        heapq.heapify(free)
        for seconds in ahead:
            heapq.heapreplace(free, free[0] + seconds)
        return max([*free, *elsewhere])


def _usual(seconds: dict[Planned, float], planned: Planned) -> float | None:
    """Return the mean over the seeds of a run's configuration, else over all runs; None without any."""
    folder = planned.directory.path.parent
    alike = [value for run, value in seconds.items() if run.directory.path.parent == folder]
    return fmean(alike or seconds.values()) if seconds else None
