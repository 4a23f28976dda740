"""A stand-in for the CUDA graph of trainer.compile=whole: the same updates, kernel by kernel."""

import pytest

from highway.run.whole import Update, WholeUpdates


class StandIn:
    """Runs what a graph would replay, and records which calls there were."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        monkeypatch.setattr(WholeUpdates, "aside", lambda _, update: self.run("aside", update))
        monkeypatch.setattr(WholeUpdates, "record", lambda _, update: self.recorded(update))

    def run(self, name: str, update: Update) -> None:
        self.calls.append(name)
        update()

    def recorded(self, update: Update) -> Update:
        self.calls.append("record")
        return lambda: self.run("replay", update)
