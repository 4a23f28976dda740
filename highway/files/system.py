"""Ask the operating system about its processes and about the machine.

Linux answers everything in /proc. Without it (macOS, a container that hides it) the commands ps, sysctl and lscpu
answer the same questions. If these are missing too, the answer is UNKNOWN or None, and callers do what is safe.
"""

import os
import platform
import re
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from highway.config.home import HOME, SHIPPED

PROC = Path("/proc")
VECTORS = {"AVX512": {"avx512vl", "avx512bw", "avx512dq", "fma"}, "AVX2": {"avx2", "fma"}}  # as torch chooses them
UNKNOWN = ""


class Process(NamedTuple):
    """A process by its number and its time of birth, since numbers are used again."""

    number: str
    born: str


class Spent(NamedTuple):
    """The parent of a process, and its processor time."""

    parent: str
    seconds: float  # processor time; on Linux it includes that of its children that have ended


def machine_identity() -> str:
    """Return a text that all processes share that can see one another, until the next boot; else UNKNOWN."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink(PROC / 'self/ns/pid')}"
    except OSError:  # macOS changes the host's name with its network, and has no process namespaces
        return _output_of("sysctl", "-n", "kern.bootsessionuuid").strip()


def born(pid: int) -> str | None:
    """Return when a process started. Another process with the same number has another start.

    None if it is dead (a zombie is dead, too); UNKNOWN if it is alive and the system does not tell since when.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        state, start = fields[0], fields[19]
    except OSError:
        state, _, start = _output_of("ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)).strip().partition(" ")
    return None if state[:1] in ("Z", "X") else start.strip() or UNKNOWN


def processes() -> dict[Process, Spent] | None:
    """Return the processor time of every process that can be seen; None if the system does not tell."""
    spent = {}
    tick = os.sysconf("SC_CLK_TCK")
    for path in PROC.glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            spent[Process(path.parent.name, fields[19])] = Spent(fields[1], sum(map(int, fields[11:15])) / tick)
    return spent or _processes_by_ps()


def _processes_by_ps() -> dict[Process, Spent] | None:
    spent = {}
    for line in _output_of("ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "time=", "-o", "lstart=").splitlines():
        number, parent, time, start = line.split(None, 3)
        spent[Process(number, start.strip())] = Spent(parent, _seconds(time))
    return spent or None


def _seconds(text: str) -> float:
    """Return the seconds of [[days-]hours:]minutes:seconds, as ps writes them; macOS adds hundredths."""
    days, _, clock = text.rpartition("-")
    hours, minutes, seconds = ["0", *clock.split(":")][-3:]
    return ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60 + float(seconds)


def processor_name() -> str:
    """Return the processor's model name, or its architecture if nothing says more."""
    with suppress(OSError):
        if match := re.search(r"^model name\s*: *(.+)$", (PROC / "cpuinfo").read_text(), re.MULTILINE):
            return match[1].strip()
    if match := re.search(r"^Model name: *(.+)$", _output_of("lscpu"), re.MULTILINE):  # Linux on arm64
        return match[1].strip()
    name = _output_of("sysctl", "-n", "machdep.cpu.brand_string").strip()
    return name or platform.processor() or platform.machine()


def processor_flags() -> set[str]:
    """Return the instructions of an x86 processor under Linux by the kernel's names; empty elsewhere."""
    with suppress(OSError):
        if match := re.search(r"^flags\s*: *(.+)$", (PROC / "cpuinfo").read_text(), re.MULTILINE):
            return set(match[1].split())
    return set()


def vector_instructions() -> str:
    """Return the vector instructions of an x86 processor that torch uses, AVX512 or AVX2: they decide its rounding.

    torch's variable ATEN_CPU_CAPABILITY may choose lower ones. Empty: others, or no x86 processor.
    """
    chosen, flags = os.environ.get("ATEN_CPU_CAPABILITY", "").upper(), processor_flags()
    available = [name for name, needed in VECTORS.items() if needed <= flags]
    return next((name for name in available if not chosen or name == chosen), "")


def commit(folder: Path = HOME) -> str | None:
    """Return the commit of the code in a folder, with `+` if files differ from it; None if it is unknown.

    An installed package holds the commit from which it was built.
    """
    if folder == SHIPPED:
        return (SHIPPED / "COMMIT").read_text() or None
    described = _output_of("git", "-C", str(folder), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*")
    return described.strip() or None


def way_to_start_processes() -> str:
    """Return the name of a multiprocessing context: macOS's own libraries do not survive a fork."""
    return "fork" if sys.platform == "linux" else "spawn"


def _output_of(*command: str) -> str:
    """Return what a command prints, in C's language and UTC; nothing if it is missing or fails."""
    surroundings = {**os.environ, "LC_ALL": "C", "TZ": "UTC0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=surroundings, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
