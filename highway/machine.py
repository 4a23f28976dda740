"""Describe the machine, its processes and the code that runs on it. Unknown values are None, NaN or empty."""

import math
import os
import platform
import re
import socket
import subprocess
import uuid
from functools import cache
from importlib.metadata import version
from pathlib import Path

import psutil

from highway.config.home import HOME, SHIPPED
from highway.errors import Refused

PROC = Path("/proc")
FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")  # instructions that change how fast torch computes
UNSET = "Type `unset RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR`, and start again."


@cache
def this_machine() -> str:
    """Return a name for this machine, shared by exactly the processes that can see one another's process ids.

    Two containers may share a host name but not a process namespace. macOS has no such namespaces, and changes the
    host name with the network, so there the network card names the machine.
    """
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink(PROC / 'self/ns/pid')}"
    except OSError:
        return f"{uuid.getnode():x}"


def process_start(pid: int) -> float | None:
    """Return a number that tells when a process started; None if it does not exist or is a zombie.

    Return NaN if it exists and /proc hides it from this user. On Linux the times of creation and of boot both move when
    the system clock is set; their difference does not. Elsewhere the time of creation stays.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:  # it exists, and belongs to another user
        pass
    try:
        process = psutil.Process(pid)
        boot = psutil.boot_time() if psutil.LINUX else 0.0
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time() - boot
    except psutil.Error:
        return math.nan


def processor_name() -> str:
    """Return the processor's model name, or its architecture if nothing says more."""
    return (
        _field("model name", _cpuinfo())
        or _field("Model name", output_of("lscpu"))  # Linux on arm64
        or output_of("sysctl", "-n", "machdep.cpu.brand_string").strip()  # macOS
        or platform.processor()
        or platform.machine()
    )


def device_name(kind: str) -> str:
    """Return the name of the `cuda` or `cpu` device; a processor's with the vector instructions that torch uses.

    A virtual machine may call processors with and without AVX-512 by one name, and they round differently.
    """
    import torch

    if kind == "cuda":
        return torch.cuda.get_device_name()
    vectors = torch.backends.cpu.get_cpu_capability()
    return f"{processor_name()}, {vectors}" if vectors in ("AVX512", "AVX2") else processor_name()


def cores() -> int:
    """Return the number of cores that this process may use. A cluster or taskset may grant fewer than exist."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rank() -> int:
    """Return the number of this process among those of its run, as whoever started it says; 0 for a single one.

    This project and torchrun set MASTER_ADDR with the rank, so a rank without it is left over in the shell.
    """
    name = next((name for name in ("RANK", "LOCAL_RANK") if name in os.environ), None)
    if name is None:
        return 0
    number = os.environ[name]
    if "MASTER_ADDR" not in os.environ or not number.isdecimal():
        raise Refused(f"{name}={number} is left over in this shell from another run. {UNSET}")
    return int(number)


def started_by_srun() -> int:
    """Return how many processes srun started, this one included; 1 if srun did not start it.

    The shell of a Slurm job has the other variables of Slurm, but no SLURM_STEP_ID.
    """
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) if "SLURM_STEP_ID" in os.environ else 1


def commit(folder: Path = HOME) -> str | None:
    """Return the commit of the code in a folder, with `+` if files differ from it; None if it is unknown.

    An installed package holds the commit from which it was built.
    """
    if folder == SHIPPED:
        return (SHIPPED / "COMMIT").read_text() or None
    described = output_of("git", "-C", str(folder), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*")
    return described.strip() or None


def versions() -> str:
    """Describe the package, its commit, torch, Python, and the processor with those of FLAGS that it has."""
    present = _field("flags", _cpuinfo()).split()  # of an x86 processor under Linux, by the kernel's names
    flags = ", ".join(flag for flag in FLAGS if flag in present)
    lines = [
        f"highway {version('highway')}, commit {commit() or 'unknown'}",
        f"torch {version('torch')}, Python {platform.python_version()}",
        f"{processor_name()}{f': {flags}' if flags else ''}",
    ]
    return "\n".join(lines)


def _cpuinfo() -> str:
    try:
        return (PROC / "cpuinfo").read_text()
    except OSError:
        return ""


def _field(name: str, text: str) -> str:
    """Return the first value of a field in lines of `name: value`; empty if there is none."""
    match = re.search(rf"^{name}\s*: *(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def output_of(*command: str) -> str:
    """Return what a command prints, in English; nothing if it is missing or fails."""
    surroundings = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=surroundings, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
