"""Wait for what other processes do. This module imports no torch, so that processes of a test import it at once."""

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
