"""Notice when a run becomes far slower than usual, for example because other work takes its processors."""

import time

WINDOW = 20.0  # seconds over which a rate is measured
FAR = 4.0  # times slower than usual; batches of unequal length vary by less


class Pace:
    """The rate of a run in tokens per second, window by window.

    usual: the rate of other seeds of the run on this device, or None if it is unknown. A faster window replaces it.
    """

    def __init__(self, usual: float | None = None) -> None:
        self.usual = usual
        self.remark: str | None = None
        self._start: tuple[float, int] | None = None

    def restart(self) -> None:
        """Begin a new window, after something other than training."""
        self._start = None

    def look(self, tokens: int, threads: int | None) -> str | None:
        """Return a sentence at the first window that is far too slow, else None; `tokens` counts from the start."""
        now = time.monotonic()
        if self._start is None:
            self._start = now, tokens
        since, before = self._start
        if self.remark or now - since < WINDOW:
            return None
        rate, self._start = (tokens - before) / (now - since), (now, tokens)
        if self.usual is None or rate * FAR > self.usual:
            self.usual = max(self.usual or 0.0, rate)
            return None
        self.remark = (
            f"slow: {rate:,.0f} tokens/s where {self.usual:,.0f} are usual (trainer.threads={threads}); other work "
            "seems to take the processors. Stop the run, and type the same command when the machine is quiet: it "
            "continues from its checkpoint."
        )
        return self.remark
