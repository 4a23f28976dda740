"""Run checks, each in its own process, and write one report.

A check is a function of a `Setting` that returns lines for the report, or raises. Whatever happens to a check (an
exception, a crash of its process, too much time), the next check starts. The report is written again after each check.
"""

import multiprocessing
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from highway.ledger.files import write_text

SECONDS = 600.0  # for all checks together


class Failed(Exception):
    """A check's reason for failing, in one sentence, with lines for the report."""

    def __init__(self, reason: str, lines: list[str] | None = None) -> None:
        super().__init__(reason)
        self.reason, self.lines = reason, lines or []

    def __reduce__(self) -> tuple[type["Failed"], tuple[str, list[str]]]:
        return Failed, (self.reason, self.lines)


@dataclass(frozen=True)
class Setting:
    device: str  # cuda, or cpu to try the checks themselves
    folder: Path  # for the runs that checks start
    tables: tuple[str, ...] = ()  # the tables whose rows are compared; empty: all tables
    rows: tuple[str, ...] = ()  # the rows of those tables that are compared; empty: all rows
    budget: str = "paper"  # budget of the shapes that are measured only on the device


Check = Callable[[Setting], list[str]]


@dataclass(frozen=True)
class Result:
    name: str
    passed: bool
    reason: str
    seconds: float
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        outcome = "passed" if self.passed else f"FAILED: {self.reason}"
        return f"{self.name:<22} {self.seconds:6.1f} s  {outcome}"


def run_all(
    checks: Mapping[str, Check],
    setting: Setting,
    report: Path,
    header: list[str],
    tell: Callable[[str], None],
    apart: bool = True,
) -> list[Result]:
    """Run every check. apart: each in its own process, so that a crash or a broken device affects only that check."""
    results: list[Result] = []
    end = time.monotonic() + SECONDS
    for name, check in checks.items():
        left = end - time.monotonic()
        if left <= 0:
            results.append(Result(name, False, f"not run: the {SECONDS:.0f} seconds for all checks were used up", 0.0))
        else:
            results.append(_in_a_process(name, check, setting, left) if apart else run_one(name, check, setting))
        tell(str(results[-1]))
        write_text(report, "\n".join([*header, *as_markdown(results)]) + "\n")
    return results


def run_one(name: str, check: Check, setting: Setting) -> Result:
    started = time.monotonic()
    try:
        lines = check(setting)
        return Result(name, True, "", time.monotonic() - started, lines)
    except Failed as failure:
        return Result(name, False, failure.reason, time.monotonic() - started, failure.lines)
    except Exception as failure:
        reason = f"{type(failure).__name__}: {failure}".splitlines()[0]
        trace = ["```", *traceback.format_exc().splitlines()[-12:], "```"]
        return Result(name, False, reason, time.monotonic() - started, trace)


def _in_a_process(name: str, check: Check, setting: Setting, seconds: float) -> Result:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(there, name, check, setting))
    started = time.monotonic()
    process.start()
    there.close()
    try:
        if here.poll(seconds):
            return here.recv()
        return Result(name, False, f"stopped after {seconds:.0f} seconds", time.monotonic() - started)
    except EOFError:  # the process ended without an answer
        process.join()
        reason = f"its process ended with exit code {process.exitcode}"
        return Result(name, False, reason, time.monotonic() - started)
    finally:
        process.kill()
        process.join()


def _send(there: Connection, name: str, check: Check, setting: Setting) -> None:
    there.send(run_one(name, check, setting))


def as_markdown(results: list[Result]) -> list[str]:
    """Return the table of all results, then the lines of each."""
    lines = ["| check | result | seconds |", "| --- | --- | ---: |"]
    for result in results:
        outcome = "passed" if result.passed else f"**failed**: {result.reason.replace('|', '/')}"
        lines.append(f"| {result.name} | {outcome} | {result.seconds:.1f} |")
    for result in results:
        lines += ["", f"## {result.name}", "", *result.lines] if result.lines else []
    return lines
