"""Spell a run as a shell command, and texts for Hydra's grammar. Nothing here imports Hydra."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

from highway.errors import as_typed


def command_line(overrides: Sequence[str]) -> str:
    """Return the shell command that repeats a run, without the folders and logger that a launcher adds."""
    kept = [
        override
        for override in overrides
        if not re.match(r"(hydra\.(?!searchpath=)|(data_dir|outputs_dir)=|logger[.=])", override)
    ]
    return f"highway train {shlex.join(kept)}"


def as_override(key: str, value: Any) -> str:
    """Return a setting as one types it: `layers.attention=[1,2,3]`."""
    text = as_typed(value) if value is None or isinstance(value, bool) else str(value).replace(", ", ",")
    return f"{key}={text}"


def quoted(text: str) -> str:
    """Quote a text for Hydra's grammar, which treats backslashes before a quote, before `${` and at the end."""
    escaped = re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
    return "'" + re.sub(r"(\\*)('|$)", lambda match: match[1] * 2 + match[2].replace("'", "\\'"), escaped) + "'"
