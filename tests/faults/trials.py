"""Try many faults in one process: each command runs in a fork of it, under a time limit, and is judged by what it left.

Only three outcomes are allowed: the result is right, the command is refused in one sentence, or the fault is named and
mended. Everything else counts as WRONG, as a traceback, or as a hang.
"""

import json
import logging
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from highway.commands.arguments import one_sentence
from tests.support.commands import ROOT, run_script

SECONDS = 45.0  # a command that takes longer hangs; it needs one second on an idle core
ALLOWED = ("right", "refused", "mended")
OUTCOMES = (*ALLOWED, "WRONG", "traceback", "hang")
SENTENCE = 600  # characters at most
WITHOUT_ERROR = ("could not be written", "was taken over")  # in sentences that do not begin with "error: "


class Verdict(NamedTuple):
    outcome: str
    details: str = ""


class Case(NamedTuple):
    """A fault: what it is, and a function that tries it in an empty folder."""

    kind: str
    name: str
    attempt: Callable[[Path], Verdict]


class Ended(NamedTuple):
    """How a command ended."""

    code: int | None  # None if it was killed at the time limit
    output: str
    errors: str

    @property
    def said(self) -> bool:
        """True if it named a fault."""
        return any(line.startswith(("WARNING ", "error: ")) for line in self.errors.splitlines())

    def forbidden(self) -> Verdict | None:
        """Return the verdict on an end that is wrong whatever the command was; None if it may be right."""
        if self.code is None:
            return Verdict("hang", self.errors[-300:])
        lines = self.errors.splitlines()
        refusals = [line for line in lines if line.startswith("error: ") or any(part in line for part in WITHOUT_ERROR)]
        if "Traceback (most recent call last)" in self.errors or self.code < 0:
            return Verdict("traceback", f"exit {self.code}: {self.errors[-900:]}")
        if self.code in (1, 2, 4) and (len(refusals) != 1 or not 10 < len(refusals[0]) < SENTENCE):
            return Verdict("traceback", f"exit {self.code} without one sentence: {self.errors[-300:]}")
        if self.code not in (0, 1, 2, 3, 4, 130):
            return Verdict("traceback", f"exit {self.code}: {self.errors[-300:]}")
        return None

    @property
    def refused(self) -> bool:
        return self.code in (1, 2, 4)


def forked(command: Callable[[], Any], seconds: float = SECONDS) -> Ended:
    """Run a function in a fork of this process as a command: it returns its exit code, and Refused is one sentence."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _become(command, output.fileno(), errors.fileno())
        code = _waited(pid, seconds)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Ended(code, *texts)


def _waited(pid: int, seconds: float) -> int | None:
    """Wait for a process; after so many seconds kill it, with all that it started, and return None."""
    handle = os.pidfd_open(pid)
    try:
        ended = select.select([handle], [], [], seconds)[0]
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what it started ends with it
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return code if ended else None
    finally:
        os.close(handle)


def _become(command: Callable[[], Any], output: int, errors: int) -> None:
    """Run the function in this process, which ends with it."""
    code: Any = 70
    try:
        os.setpgid(0, 0)
        empty = os.open(os.devnull, os.O_RDONLY)
        for number, handle in enumerate((empty, output, errors)):
            os.dup2(handle, number)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115  # by lines, as a process has it
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        code = _code_of(command)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 70)


def _code_of(command: Callable[[], Any]) -> Any:
    log = logging.getLogger("highway")
    log.handlers[:] = []
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        with one_sentence():
            return command() or 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def script(
    name: str,
    *arguments: str,
    outputs: Path,
    seconds: float = SECONDS,
    before: Callable[[], None] = lambda: None,
) -> Ended:
    """Run `python scripts/NAME ARGUMENTS` in a fork, after `before`."""

    def run() -> Any:
        os.environ["HIGHWAY_OUTPUTS"] = str(outputs)
        os.chdir(outputs.parent)
        before()
        run_script([str(ROOT / "scripts" / name), *arguments])

    return forked(run, seconds)


@dataclass
class Tally:
    """The outcomes of all cases, by kind."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: list[tuple[Case, Verdict]] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def add(self, case: Case, verdict: Verdict) -> None:
        self.counts.setdefault(case.kind, Counter())[verdict.outcome] += 1
        if verdict.outcome not in ALLOWED:
            self.wrong.append((case, verdict))

    def table(self) -> Table:
        grid = Table(box=SIMPLE_HEAD)
        for head in ("kind", "cases", *OUTCOMES):
            grid.add_column(head, justify="left" if head == "kind" else "right")
        for kind, counts in self.counts.items():
            grid.add_row(kind, str(counts.total()), *(str(counts[outcome]) for outcome in OUTCOMES))
        total = sum(self.counts.values(), Counter())
        grid.add_section()
        grid.add_row("all", str(total.total()), *(str(total[outcome]) for outcome in OUTCOMES))
        return grid


class Kept:
    """The verdicts on cases, a line each in a file, so that a run of the harness that was ended can go on.

    Lines of other code do not count.
    """

    def __init__(self, path: Path, code: str | None) -> None:
        self.path, self.code = path, code
        lines = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
        self.known = {(line["kind"], line["name"]): line for line in lines if line["code"] == code}

    def find(self, case: Case) -> tuple[Verdict, float, float] | None:
        line = self.known.get((case.kind, case.name))
        return line and (Verdict(line["outcome"], line["details"]), line["seconds"], line["cpu_seconds"])

    def add(self, case: Case, verdict: Verdict, seconds: float, cpu_seconds: float) -> None:
        line = {"code": self.code, "kind": case.kind, "name": case.name, **verdict._asdict()}
        with self.path.open("a") as file:
            print(json.dumps({**line, "seconds": seconds, "cpu_seconds": cpu_seconds}), file=file)


def tried(
    cases: Iterable[Case], report: Callable[[Case, Verdict], None] = lambda *_: None, kept: Kept | None = None
) -> Tally:
    """Try every case in a folder of its own. Ctrl-C ends it early, with the tally so far.

    kept: holds cases that were tried before, which are not tried again.
    """
    tally = Tally()
    with suppress(KeyboardInterrupt):
        for case in cases:
            if known := kept and kept.find(case):
                verdict, seconds, used = known
            else:
                began, before = time.monotonic(), _cpu_seconds()
                with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as folder:
                    verdict = attempted(case, Path(folder))
                seconds, used = time.monotonic() - began, _cpu_seconds() - before
                if kept:
                    kept.add(case, verdict, seconds, used)
            tally.add(case, verdict)
            report(case, verdict)
            tally.seconds, tally.cpu_seconds = tally.seconds + seconds, tally.cpu_seconds + used
    return tally


def attempted(case: Case, folder: Path) -> Verdict:
    """Try a case. A mistake in the case itself is WRONG too, and the other cases go on."""
    try:
        return case.attempt(folder)
    except Exception:
        return Verdict("WRONG", f"the harness failed: {traceback.format_exc()[-900:]}")


def _cpu_seconds() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def chosen(cases: list[Case], count: int, seed: int = 1) -> list[Case]:
    """Return this many cases in a random order, the same ones for the same seed."""
    return random.Random(seed).sample(cases, min(count, len(cases)))
