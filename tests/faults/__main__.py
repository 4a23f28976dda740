"""Try faults by the thousand, and print what came of them:  python -m tests.faults [--share 0.1] [--only WORD]

The cases run in forks of this process, in a random order; Ctrl-C ends them and prints the table so far, and with --kept
FILE the next start goes on from there. The sweeps run as real processes, unless --kills is 0.
"""

import argparse
import gc
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console

from highway.files.system import commit
from tests.faults import sweeps
from tests.faults.every import cases
from tests.faults.scenes import Scenes, small_data
from tests.faults.trials import ALLOWED, Case, Kept, Tally, Verdict, chosen, tried


def report(case: Case, verdict: Verdict) -> None:
    if verdict.outcome not in ALLOWED:
        print(f"{verdict.outcome}  {case.kind}: {case.name}\n    {verdict.details}", file=sys.stderr, flush=True)


def add_sweeps(tally: Tally, folder: Path, kills: int, only: str) -> None:
    """Add the outcomes of the sweeps. What an undisturbed sweep also leaves behind counts as mended."""
    for name, outcome in sweeps.tried(folder, kills // 3, only):
        wrong = outcome.wrong or len(outcome.said)
        tally.counts[f"sweeps: {name}"] = Counter(mended=max(outcome.injected - wrong, 0), WRONG=wrong)
        if not outcome.clean:
            report(case := Case(name, "", lambda _: verdict), verdict := Verdict("WRONG", str(outcome)))
            tally.wrong.append((case, verdict))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="the part of the cases that is tried; default: all")
    parser.add_argument("--seed", type=int, default=1, help="chooses the part")
    parser.add_argument("--only", default="", help="the cases whose kind or name has this word")
    parser.add_argument("--kills", type=int, default=51, help="kill -9 in sweeps; 0: no sweeps; default: 51")
    parser.add_argument("--kept", type=Path, help="a file of what came of cases; those of this commit are not repeated")
    arguments = parser.parse_args()
    kept = Kept(arguments.kept, commit()) if arguments.kept else None
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's & ignores it
    with tempfile.TemporaryDirectory() as folder:
        with small_data(Path(folder)):
            scenes = Scenes.made(Path(folder))
            gc.freeze()  # forks then share the memory of what is loaded
            found = [case for case in cases(scenes) if arguments.only in f"{case.kind} {case.name}"]
            few = chosen(found, round(len(found) * arguments.share), arguments.seed)
            print(f"{len(few)} of {len(found)} cases", file=sys.stderr)
            tally = tried(few, report, kept)
        if arguments.kills:
            add_sweeps(tally, Path(folder) / "sweeps", arguments.kills, arguments.only)
    Console(width=120).print(tally.table())
    print(f"{tally.seconds:.0f} seconds, of which {tally.cpu_seconds:.0f} on a processor, without the sweeps")
    sys.exit(bool(tally.wrong))


if __name__ == "__main__":
    main()
