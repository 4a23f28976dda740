"""Estimate when the runs of a sweep end, from what each run measures itself and from the runs that have finished."""

import heapq
import time
from statistics import fmean
from typing import Any

from highway.ledger.record import STATUSES
from highway.sweep.planned import Planned


class Estimate:
    """The times of a sweep's runs, from the start of a process to its end. Runs that stop early say nothing."""

    def __init__(self) -> None:
        self.progress: dict[Planned, dict[str, Any]] = {}  # what a run has last measured (highway/run/progress.py)
        self._began: dict[Planned, float] = {}
        self._expected: dict[Planned, float] = {}  # when a run ends, as it has said itself
        self._late: dict[Planned, float] = {}  # seconds from this time to the end of its process, once it has finished
        self._lengths: dict[Planned, float] = {}  # seconds that a run takes: expected, then measured

    def begin(self, planned: Planned) -> None:
        self._began.setdefault(planned, time.monotonic())

    def measure(self, planned: Planned, progress: dict[str, Any]) -> None:
        """Note the progress of a running run, which stays as it is until the run's next step."""
        now = time.monotonic()
        if progress != self.progress.get(planned) and "seconds_left" in progress:
            self._expected[planned] = now + progress["seconds_left"]
            self._lengths[planned] = self._spent(planned, progress["seconds"]) + progress["seconds_left"]
        self.progress[planned] = progress

    def end(self, planned: Planned, seconds: float | None) -> None:
        """Note that a run has ended. `seconds`: its time in training, or None if it has not finished."""
        if seconds is None:
            for known in (self.progress, self._began, self._expected, self._lengths):
                known.pop(planned, None)
        elif planned in self._began:
            self._lengths[planned] = self._spent(planned, seconds)
            if planned in self._expected:
                self._late[planned] = time.monotonic() - self._expected[planned]

    def _spent(self, planned: Planned, trained: float) -> float:
        """Return the seconds of a run until now; a resumed run has trained for longer than its process is there."""
        now = time.monotonic()
        return max(now - self._began.get(planned, now), trained)

    def left(self, planned: Planned) -> float | None:
        """Return the seconds until a run has ended, 0 if it is overdue; None before there is a measurement."""
        now = time.monotonic()
        if planned in self._expected:
            return max(self._expected[planned] + (_usual(self._late, planned) or 0) - now, 0)
        usual = _usual(self._lengths, planned)
        return None if usual is None else max(usual - (now - self._began.get(planned, now)), 0)

    def left_of_sweep(self, states: dict[Planned, str], slots: int) -> float | None:
        """Return the seconds until all have ended: each waiting run starts in the slot that is free first."""
        if not self._lengths:
            return None
        free: list[float] = []
        ahead: list[float] = []
        elsewhere: list[float] = []
        for planned, state in states.items():
            left = 0.0 if state in STATUSES else self.left(planned) or 0.0
            {"queued": ahead, "waiting": ahead, "running elsewhere": elsewhere}.get(state, free).append(left)
        free += [0.0] * (slots - len(free))
        heapq.heapify(free)
        for seconds in ahead:
            heapq.heapreplace(free, free[0] + seconds)
        return max([*free, *elsewhere])


def _usual(seconds: dict[Planned, float], planned: Planned) -> float | None:
    """Return the mean over the other seeds of a run's configuration, else over all runs; None without any."""
    folder = planned.directory.path.parent
    alike = [value for run, value in seconds.items() if run.directory.path.parent == folder]
    return fmean(alike or seconds.values()) if seconds else None
