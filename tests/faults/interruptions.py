"""Runs, reports and imports that are killed or asked to stop whenever they touch a file, and then started again."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

from tests.faults import archives, damage
from tests.faults.events import AtEvent
from tests.faults.scenes import Scenes, trains
from tests.faults.trials import Case, Verdict, forked, script

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ENDS = (0, 130, *(-number for number in SIGNALS))


def cases(scenes: Scenes, count: int = 100) -> list[Case]:
    runs = [
        _case("interruptions of a run", n, lambda folder, chance: run(scenes, folder, chance)) for n in range(count)
    ]
    imports = [
        _case("kills of an import", n, lambda folder, chance: merge(scenes, folder, chance)) for n in range(count // 4)
    ]
    return [*runs, *imports]


def _case(kind: str, number: int, attempt: Callable[[Path, random.Random], Verdict]) -> Case:
    return Case(kind, f"number {number}", lambda folder: attempt(folder, random.Random(f"{kind} {number}")))


def run(scenes: Scenes, folder: Path, chance: random.Random) -> Verdict:
    """Interrupt a run up to three times; the command that follows ends as an undisturbed run does."""
    outputs, hits = folder / "outputs", []
    for _ in range(chance.randint(1, 3)):
        number, event = chance.choice(SIGNALS), chance.randrange(1, damage.EVENTS)
        hits.append(f"{number.name} at {event}")

        def hit(number: signal.Signals = number, event: int = event) -> int:
            AtEvent(outputs, event, lambda: os.kill(os.getpid(), number))
            return trains(scenes.at(outputs))()

        ended = forked(hit)
        if ended.code is None or ended.code not in ENDS:
            return Verdict("hang" if ended.code is None else "traceback", f"{hits}: {ended.code} {ended.errors[-600:]}")
    verdict = scenes.judged(outputs)
    outcome = "WRONG" if verdict.outcome == "refused" else verdict.outcome  # it must always go on
    return Verdict(outcome, f"{hits}: {verdict.details}")


def merge(scenes: Scenes, folder: Path, chance: random.Random) -> Verdict:
    """Kill an import; the next one imports what was exported."""
    outputs, event = folder / "outputs", chance.randrange(1, 60)

    def before() -> None:
        AtEvent(outputs, event, lambda: os.kill(os.getpid(), signal.SIGKILL))

    archive = scenes.folder / "records.tar.gz"
    script("records.py", "import", str(archive), outputs=outputs, before=before)
    verdict = archives.imported(scenes, folder, archive)
    missing = [
        path
        for path in scenes.grid.glob("cells/*/*/result.json")
        if not (outputs / path.relative_to(scenes.grid)).exists()
    ]
    if missing and verdict.outcome == "right":
        return Verdict("WRONG", f"killed at {event}: {missing[0]} was not imported")
    return Verdict(
        "WRONG" if verdict.outcome == "refused" else verdict.outcome, f"killed at {event}: {verdict.details}"
    )
