"""Prepare data sets: fetch, verify and cache their files, before a run has a directory and for `highway data`.

The card of a data set names the module that reads it, its `Reader`.
"""

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from highway.cards.datasets import DATASETS, PUBLISHED
from highway.config.compose import dataset as composed_dataset
from highway.config.experiment import Experiment


class Reader(Protocol):
    """The functions of the module that the card of a data set names as its reader.

    A reader that generates its data has only `streams`.
    """

    def files(self, dataset: Any, data_dir: Path) -> dict[str, Path]:
        """Return the paths of the files by name, whether they exist or not."""

    def verify(self, dataset: Any, data_dir: Path) -> None:
        """Raise Refused if a file is missing or differs from the published file."""

    def streams(self, dataset: Any, data_dir: Path, cache_dir: Path) -> Any:
        """Return the splits of the data set; fetch, check and cache them first if needed."""


def _reader(dataset: Any) -> Reader:
    return import_module(DATASETS[dataset.name].reader)


def files(dataset: Any, data_dir: Path) -> dict[str, Path]:
    """Return the paths of a data set's files by name, whether they exist or not; none if its data is generated."""
    reader = _reader(dataset)
    return reader.files(dataset, data_dir) if hasattr(reader, "files") else {}


def verify(dataset: Any, data_dir: Path) -> None:
    """Raise Refused if a file of the data set is missing or differs from the published file."""
    if files(dataset, data_dir):
        _reader(dataset).verify(dataset, data_dir)


def streams(dataset: Any, data_dir: Path, outputs_dir: Path) -> Any:
    """Return the splits of a data set; fetch, check and cache them first if needed."""
    return _reader(dataset).streams(dataset, data_dir, outputs_dir / "cache")


def prepare_all(experiments: Iterable[Experiment]) -> None:
    """Prepare each data set once, even if several runs read it. Raise Refused at the first that is not available."""
    reading = {(repr(run.dataset), run.data_dir, run.outputs_dir): run for run in experiments}
    for run in reading.values():
        streams(run.dataset, run.data_dir, run.outputs_dir)


# highway data


def list_named(names: Sequence[str]) -> None:
    """Print the data sets, and which of their files are missing."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    data_dir = Path(os.environ.get("HIGHWAY_DATA", "data"))
    grid = Table(box=SIMPLE_HEAD, title=f"data sets, with files in {data_dir}", title_justify="left")
    for head in ("data set", "form", "vocabulary", "files"):
        grid.add_column(head)
    for name in names:
        dataset, data_dir, _ = composed_dataset([f"dataset={name}"])
        paths = files(dataset, data_dir).values()
        state = _missing(paths, data_dir) or ("present" if paths else "generated")
        grid.add_row(name, dataset.form, _sizes(dataset), state)
    Console().print(grid)


def prepare_named(name: str, source: str) -> None:
    """Download missing files, check every sha256, build the vocabulary, and print the sizes."""
    dataset, data_dir, outputs_dir = composed_dataset([f"dataset={name}", f"dataset.source={source}"])
    prepared = streams(dataset, data_dir, outputs_dir)
    vocabulary = f": vocabulary {_sizes(dataset)}, sha256 {prepared.vocabulary_sha256}" if _sizes(dataset) else ""
    print(f"{name} ({source if files(dataset, data_dir) else 'generated'}){vocabulary}")
    for split, stream in prepared.splits.items():
        print(f"  {split:5} {len(stream):>11,} {prepared.units:7}   sha256 of the text {prepared.sha256[split]}")
    for remark in getattr(prepared, "remarks", []):
        print(f"  {remark}")


def verify_named(name: str, refuse_missing: bool) -> None:
    """Check the sha256 of the files, without downloading any. Refuse missing files, or only name them."""
    dataset, data_dir, _ = composed_dataset([f"dataset={name}"])
    paths, card = files(dataset, data_dir), DATASETS[dataset.name]
    if not paths:
        return print(f"{name}: generated, so there is nothing to check")
    if not refuse_missing and (missing := _missing(paths.values(), data_dir)):
        return print(f"{name}: {missing}")
    verify(dataset, data_dir)
    declared = card.reader in PUBLISHED or card.checksums
    print(f"{name}: {card.checked if declared else 'its card declares no checksums, so nothing was checked'}")


def _missing(paths: Iterable[Path], data_dir: Path) -> str:
    names = [str(path.relative_to(data_dir)) for path in paths if not path.exists()]
    return f"missing {', '.join(names)}" if names else ""


def _sizes(dataset: Any) -> str:
    return " + ".join(f"{size:,}" for size in getattr(dataset, "vocabulary_sizes", ()))
