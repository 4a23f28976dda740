"""highway --version: the package, its commit, torch, Python, and the instructions of the processor that torch uses."""

import platform
from importlib.metadata import version

from highway.files.system import commit, processor_flags, processor_name

FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")  # instructions that change how fast torch computes


def describe() -> str:
    flags = processor_flags()
    has = ", ".join(flag for flag in FLAGS if flag in flags)
    lines = [
        f"highway {version('highway')}, commit {commit() or 'unknown'}",
        f"torch {version('torch')}, Python {platform.python_version()}",
        f"{processor_name()}{f': {has}' if has else ''}",
    ]
    return "\n".join(lines)
