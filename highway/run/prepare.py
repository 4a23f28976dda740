"""List, prepare and verify data sets, for `highway data`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from highway.config.compose import dataset as composed_dataset
from highway.config.datasets import DATASETS, PUBLISHED, DatasetCard
from highway.ledger.files import file_sha256
from highway.run import build


def list_datasets(names: Sequence[str]) -> None:
    """Print the data sets, and which of their files are missing."""
    data_dir = Path(os.environ.get("HIGHWAY_DATA", "data"))
    grid = Table(box=SIMPLE_HEAD, title=f"data sets, with files in {data_dir}", title_justify="left")
    for head in ("data set", "form", "vocabulary", "files"):
        grid.add_column(head)
    for name in names:
        dataset, data_dir, _ = composed_dataset([f"dataset={name}"])
        files = build.files(dataset, data_dir).values()
        missing = [path.name for path in files if not path.exists()]
        state = f"missing {', '.join(missing)}" if missing else "present" if files else "generated"
        grid.add_row(name, dataset.form, _sizes(dataset), state)
    Console().print(grid)


def prepare(name: str, source: str) -> None:
    """Download missing files, check every sha256, build the vocabulary, and print the sizes."""
    dataset, *folders = composed_dataset([f"dataset={name}", f"dataset.source={source}"])
    streams = build.streams(dataset, *folders)
    vocabulary = f": vocabulary {_sizes(dataset)}, sha256 {streams.vocabulary_sha256}" if _sizes(dataset) else ""
    files = build.files(dataset, folders[0])
    print(f"{name} ({source if files else 'generated'}){vocabulary}")
    for split, stream in streams.splits.items():
        print(f"  {split:5} {len(stream):>11,} {streams.units}   sha256 of the text {streams.sha256[split]}")
    for remark in getattr(streams, "remarks", []):
        print(f"  {remark}")
    if files and source == "files":
        suggest_checksums(DATASETS[dataset.name], files)


def verify(name: str) -> None:
    """Check the sha256 of the files that are present, without downloading any."""
    dataset, data_dir, _ = composed_dataset([f"dataset={name}"])
    if not build.files(dataset, data_dir):
        return print(f"{name}: generated, so there is nothing to check")
    build.verify(dataset, data_dir)
    print(f"{name}: {DATASETS[dataset.name].checked}")


def suggest_checksums(card: DatasetCard, files: dict[str, Path]) -> None:
    """Print the lines with which the card of your own data declares its files, if it does not declare them yet."""
    if card.reader in PUBLISHED or card.checksums:
        return
    print(
        "  Add these lines to its card: a changed file is then refused, and runs on it have directories of their own."
    )
    print("    checksums={")
    for path in files.values():
        print(f'        "{path.name}": "{file_sha256(path)}",')
    print("    },")


def _sizes(dataset: Any) -> str:
    return " + ".join(f"{size:,}" for size in getattr(dataset, "vocabulary_sizes", ()))
