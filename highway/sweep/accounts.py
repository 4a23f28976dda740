"""Sentences on what a sweep has to do, and on how it has ended."""

import logging
from collections import Counter

from highway.errors import SweepFailed, counted
from highway.sweep.launch import Planned, last_line

log = logging.getLogger("highway")


def to_do(unique: list[Planned], missing: list[Planned]) -> str:
    """Return one line that counts the runs: finished, ended otherwise and not to be repeated, and to train."""
    ended = Counter(planned.before for planned in unique if planned not in missing)
    finished = ended.pop("finished", 0)
    others = "".join(f"{count} {status} already, " for status, count in sorted(ended.items()))
    return f"{counted(len(unique), 'run')}: {finished} finished already, {others}{len(missing)} to train."


def summarise(to_run: list[Planned]) -> None:
    """Log why each run did not finish, and raise SweepFailed: Hydra ignores what a sweeper returns."""
    unfinished = {planned: planned.directory.status for planned in to_run if planned.directory.status != "finished"}
    for planned, status in unfinished.items():
        error = (planned.directory.result() or {}).get("error") or last_line(planned.directory.log)
        log.error("%s: %s (%s)", planned.label, status, error)
    if unfinished:
        again = " Add retry_failed=true to train failed runs again." if "failed" in unfinished.values() else ""
        raise SweepFailed(
            f"{len(unfinished)} of {counted(len(to_run), 'run')} did not finish. "
            f"Type the same command again to resume interrupted runs.{again}"
        )
