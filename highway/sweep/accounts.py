"""Sentences on what a sweep has to do, and on how it has ended."""

import logging
from collections import Counter
from collections.abc import Iterable

from highway.errors import SweepFailed, counted
from highway.ledger.directory import is_published
from highway.sweep.launcher import Planned, last_line

log = logging.getLogger("highway")


def to_do(unique: list[Planned], missing: list[Planned]) -> str:
    """Return one line that counts the runs: finished, ended otherwise and not to be repeated, and to train."""
    ended = Counter(planned.before for planned in unique if planned not in missing)
    finished = ended.pop("finished", 0)
    others = "".join(f"{count} {status} already, " for status, count in sorted(ended.items()))
    count = f"{counted(len(unique), 'run')}: {finished} finished already, {others}{len(missing)} to train."
    return " ".join([count, *published(missing)])


def published(missing: Iterable[Planned]) -> list[str]:
    """Return a sentence if the numbers of some of these runs are published, so that nobody waits days for them."""
    count = sum(is_published(planned.directory) for planned in missing)
    are, them = ("is", "it") if count == 1 else ("are", "them")
    return [f"{count} of these runs {are} published already: highway report shows {them}."] if count else []


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
