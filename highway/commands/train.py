"""Train a model, or with -m a table or a grid: the command line that Hydra reads."""

from highway.commands.cli import train as main

__all__ = ["main"]
