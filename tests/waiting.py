"""Waiting for what other processes do. Without torch, so that processes which a test spawns import this at once."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
