"""Write the records of a large grid, each as the one real run that they are copied from would have left it.

python -m tests.support.many RUN_DIRECTORY OUTPUTS [--rows 667] [--seeds 8]
"""

import argparse
import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from highway.config.compose import experiment
from highway.files.writing import read_json, write_text
from highway.ledger.directory import RunDirectory
from highway.ledger.identity import configuration
from highway.ledger.record import write_record
from highway.sweep import grid
from highway.sweep.reading import parse_table
from highway.sweep.table import Table


def copied(source: Path, outputs: Path, recipe: Sequence[str], rows: int, seeds: int, name: str = "many") -> Table:
    """Write a grid of learning rates with a record for each row and seed; return its table.

    `recipe` holds the overrides of the run in `source`, without its seed.
    """
    rates = [f"{(number + 1) / 1000:g}" for number in range(rows)]
    choices = {**{key: [value] for key, value in (word.split("=", 1) for word in recipe)}, "optimizer.lr": rates}
    content = grid.as_table(name, "a copied grid", choices, [experiment([*recipe])])
    grid.keep(content, outputs)
    table = parse_table(content)
    for number, row in enumerate(table.rows):
        for seed in range(1, seeds + 1):
            put_copy(source, outputs, [*table.overrides(row, table.usual_budget, seed)], seed, number / 1000)
    return table


def put_copy(source: Path, outputs: Path, overrides: list[str], seed: int, shift: float) -> Path:
    """Write the record of one experiment: the source's, with its own names, and every value shifted."""
    described = experiment([*overrides, f"outputs_dir={outputs}"])
    folder = RunDirectory.of(described).path
    write_text(folder / "config.yaml", yaml.safe_dump(configuration(described)), durable=False)
    write_text(folder / "curves.csv", _shifted((source / "curves.csv").read_text(), shift + seed / 100), durable=False)
    record: dict[str, Any] = read_json(source / "result.json")
    metrics = {
        metric: {select: value + shift + seed / 100 for select, value in values.items()}
        for metric, values in record["metrics"].items()
    }
    write_record(folder, {**record, "cell": folder.parent.name, "seed": seed, "metrics": metrics})
    return folder


def _shifted(curves: str, shift: float) -> str:
    """Return the text of a curves.csv whose values are raised."""
    head, *lines = csv.reader(io.StringIO(curves))
    value = head.index("value")
    rows = [[*line[:value], f"{float(line[value]) + shift:.9g}", *line[value + 1 :]] for line in lines]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("outputs", type=Path)
    parser.add_argument("--rows", type=int, default=667)
    parser.add_argument("--seeds", type=int, default=8)
    arguments = parser.parse_args()
    words = str(read_json(arguments.source / "result.json")["command"]).split()
    recipe = [word for word in words if "=" in word and not word.startswith("seed=")]
    copied(arguments.source, arguments.outputs, recipe, arguments.rows, arguments.seeds)


if __name__ == "__main__":
    main()
