"""highway --version: the package, its commit, torch, Python, and the instructions of the processor that torch uses."""

import platform
import re
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from highway.files.system import commit, processor_name

FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")  # instructions that change how fast torch computes


def describe() -> str:
    flags: set[str] = set()
    with suppress(OSError):
        found = re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        flags = set(found[1].split()) if found else set()
    has = ", ".join(flag for flag in FLAGS if flag in flags)
    lines = [
        f"highway {version('highway')}, commit {commit() or 'unknown'}",
        f"torch {version('torch')}, Python {platform.python_version()}",
        f"{processor_name()}{f': {has}' if has else ''}",
    ]
    return "\n".join(lines)
