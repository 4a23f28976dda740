"""All private parts of Lightning that this project uses."""

import pytorch_lightning as pl

CHECKED = "2.6"  # version of Lightning; a test fails on any other


def ignore_signals(trainer: pl.Trainer) -> None:
    """Keep Lightning from handling signals: its handler of SIGTERM waits for processes that may wait elsewhere."""
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]
