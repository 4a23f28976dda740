"""Train runs in this process, and read what they left behind."""

import csv
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from safetensors.torch import load_file

from highway.config.experiment import Experiment
from highway.files.writing import read_json
from highway.ledger.cell import Cell
from highway.train import run


def trained(experiment: Experiment, *callbacks: pl.Callback) -> tuple[Cell, dict[str, Any]]:
    cell = Cell.of(experiment)
    run(experiment, cell, "test", callbacks)
    return cell, read_json(cell.directory / "result.json")


def curve(cell: Cell) -> list[list[str]]:
    """Return the rows of curves.csv without the clock."""
    with open(cell.curves, newline="") as file:
        return [[value for name, value in row.items() if name != "seconds"] for row in csv.DictReader(file)]


def same_weights(first: Path, second: Path) -> bool:
    one, two = load_file(first), load_file(second)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def numbers(result: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics of a record without the clock."""
    return {name: value for name, value in result["metrics"].items() if not name.endswith("_seconds")}
