"""Load a trained model from its run directory or from a single file of weights, whose header has its configuration.

The vocabulary is built from the training text, which must be present and unchanged.
"""

import csv
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from highway.config import project
from highway.config.compose import dataset
from highway.config.experiment import Experiment, checked_record
from highway.config.project import needs_project
from highway.errors import Refused, closest, listing
from highway.keys.yaml_file import parsed
from highway.ledger.directory import RunDirectory
from highway.run import build, resources
from highway.run.checkpoint import put_into, read_weights


class Spelling:
    """A vocabulary of words, characters or bytes that encodes text as numbers, and decodes them."""

    def __init__(self, vocabulary: list[str], in_words: bool, in_bytes: bool) -> None:
        self.vocabulary, self.in_words, self.in_bytes = vocabulary, in_words, in_bytes
        self.numbers = {symbol: number for number, symbol in enumerate(vocabulary)}

    def numbers_of(self, text: str) -> list[int]:
        """Encode a text as numbers of symbols."""
        if self.in_words:
            symbols = re.sub("\n", " <eos> ", text).split()
        else:
            symbols = [chr(byte) for byte in text.encode()] if self.in_bytes else list(text)
        unknown = [symbol for symbol in symbols if symbol not in self.numbers]
        if unknown:
            symbol = f"the byte {ord(unknown[0]):#x}" if self.in_bytes else repr(unknown[0])
            raise Refused(f"the text has {symbol}, which the model's vocabulary lacks. Remove or replace it.")
        return [self.numbers[symbol] for symbol in symbols]

    def spelled(self, number: int) -> bytes:
        """Decode a symbol as UTF-8, or as a single byte of a character."""
        symbol = self.vocabulary[number]
        if self.in_words:
            return b"\n" if symbol == "<eos>" else f"{symbol} ".encode()
        return bytes([ord(symbol)]) if self.in_bytes else symbol.encode()


@dataclass(frozen=True, repr=False)
class RecordedRun:
    """A record without weights, as `highway publish` writes it: a run, its configuration and its curves."""

    directory: RunDirectory
    experiment: Experiment  # its folders are those of this machine

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.directory.path})"

    def __getattr__(self, name: str) -> Any:
        if name in ("model", "streams", "spelling", "logits"):
            raise Refused(
                f"{self.directory.path} is a record without weights, so it has no {name}. "
                "It has experiment, metrics and curve."
            )
        raise AttributeError(name)

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """The numbers of the run: metrics["test_loss"]["best"] or ["last"]; empty for a file of weights."""
        return (self.directory.result() or {}).get("metrics", {})

    def curve(self, split: str, metric: str) -> tuple[Any, Any]:
        """Return a curve of the run as two arrays: steps and values."""
        if not self.directory.curves.exists():
            raise Refused(f"{self.directory.path} has no curves.csv. Load the run directory, not a file of weights.")
        curves: dict[str, list[tuple[int, float]]] = {}
        with open(self.directory.curves, newline="") as file:
            for row in csv.DictReader(file):
                curves.setdefault(f"{row['split']} {row['metric']}", []).append((int(row["step"]), float(row["value"])))
        name = f"{split} {metric}"
        if name not in curves:
            known = listing(list(curves)) or "none yet"
            raise Refused(
                f"{self.directory.path} has no curve '{name}'.{closest(name, list(curves))} Available: {known}."
            )
        steps, values = zip(*curves[name], strict=True)
        return np.array(steps), np.array(values)


@dataclass(frozen=True, repr=False)
class Trained(RecordedRun):
    """A trained model with its run, its configuration and its data."""

    model: Any
    streams: Any  # the data set, with its vocabulary

    @property
    def spelling(self) -> Spelling:
        """The conversion between text and the symbols of a language model's vocabulary."""
        spelled = self.experiment.dataset_card.forms[self.experiment.dataset.form]
        if spelled not in ("words", "characters", "bytes"):
            raise Refused(
                f"a {self.experiment.dataset_card.task} model does not read text. "
                f"Use {self.experiment.task_card.command} instead."
            )
        return Spelling(self.streams.vocabulary, in_words=spelled == "words", in_bytes=spelled == "bytes")

    def logits(self, text: Any) -> Any:
        """Return logits (T, V): for each of the T symbols of a text, those of the next symbol; the state starts empty.

        For a model that reads vectors, `text` is a tensor (B, T, width) and the logits are (B, T, V).
        """
        if isinstance(text, torch.Tensor):
            with torch.inference_mode():
                return self.model.logits(self.model(text)[0])
        numbers = self.spelling.numbers_of(text)
        if not numbers:
            raise Refused("an empty text has no logits: pass at least one symbol.")
        with torch.inference_mode():
            features, _ = self.model(torch.tensor([numbers]))
            return self.model.logits(features[0])


def load(run: Any, last: bool = False) -> Any:
    """Load the trained model of a run directory, or of a file of weights, with the best weights or the last.

    It has `experiment`, `metrics`, `model` (a torch module), `streams`, `logits(text)`, `curve(split, metric)`. A
    record without weights, such as a published one, has only `experiment`, `metrics` and `curve`.

    run: a path, or a row of the frame that `highway.runs` returns.
    """
    project.load()
    return load_for(Path(getattr(run, "directory", run)), last)


def load_for(where: Path, last: bool, *tasks: str) -> Any:
    """Load the model of a path. With `tasks`, refuse models of other tasks, and records without weights."""
    directory = RunDirectory(where.resolve().parents[1] if where.is_file() else where.resolve())
    path = where if where.is_file() else directory.last if last else directory.best
    if where.is_file() and last:
        raise Refused(f"--last chooses a checkpoint of a run, but {where} is a file of weights. Leave --last out.")
    if not path.exists():
        if directory.result() and not (last or tasks):
            return RecordedRun(directory, experiment_of(directory.config.read_text(encoding="utf-8"), directory))
        mend = "Records are published without weights: name" if directory.done else "Name"
        raise Refused(f"{where} has no {path.name}. {mend} the directory in which a run was trained.")
    tensors, header = read_weights(path)
    if where.is_dir():
        check_owner(path, header, directory, "steps" if last else "best_step")
    experiment = experiment_of(header["config"], directory)
    if tasks and experiment.dataset_card.task not in tasks:
        raise Refused(
            f"{where} holds a {experiment.dataset_card.task} model. Use {experiment.task_card.command} instead."
        )
    resources.keep_freed_memory()
    model = build.model(experiment)
    if broken := [name for name, tensor in tensors.items() if not tensor.isfinite().all()]:
        raise Refused(f"{path} has NaN or infinity in {broken[0]}: the model diverged. Choose another run or seed.")
    put_into(model, tensors, path)
    streams = build.streams(experiment.dataset, experiment.data_dir, experiment.outputs_dir)
    if header.get("vocabulary_sha256") not in (None, getattr(streams, "vocabulary_sha256", None)):
        raise Refused(
            f"{path} was trained with another vocabulary than that of {experiment.dataset.name} here. "
            f"Put the text on which it was trained into {experiment.data_dir}, or set HIGHWAY_DATA to its folder."
        )
    return Trained(directory, experiment, model.eval(), streams)


def check_owner(path: Path, header: dict[str, str], directory: RunDirectory, key: str) -> None:
    """Refuse weights in a run directory that are of another run, or of another step than the record has at `key`."""
    if header["run"] != directory.id:
        raise Refused(f"{path} belongs to {header['run']}, not to {directory.id}. Name the file to load it anyway.")
    recorded = (directory.result() or {}).get(key)
    if recorded is not None and header["step"] != str(recorded):
        raise Refused(
            f"{path} has the weights of step {header['step']}, but result.json says step {recorded}. "
            "Name the file to load it anyway."
        )


def experiment_of(config: str, directory: RunDirectory) -> Experiment:
    """Return the experiment that a config.yaml describes, with the folders of this machine.

    A run of another project that cannot be read without it is refused with the name of that project.
    """
    try:
        values = parsed(config.encode(), "the configuration").content
    except Refused:
        values = None
    if not isinstance(values, dict):
        raise Refused(f"{directory.path}: the configuration cannot be read. Use what this project has written.")
    _, data_dir, _ = dataset([])
    try:
        return checked_record({**values, "data_dir": str(data_dir), "outputs_dir": str(_outputs_dir(directory))})
    except Refused as refused:
        package = (directory.result() or {}).get("environment", {}).get("project", {}).get("package")
        if package is None or package in sys.modules:
            raise
        raise needs_project(str(directory.path), package, str(refused)) from refused


def _outputs_dir(directory: RunDirectory) -> Path:
    """Return the outputs folder of a run, which has the cache of its data; else a folder that is no one's project."""
    if directory.path.parent.parent.name in ("cells", "debug"):
        return directory.path.parents[2]
    if os.environ.get("HIGHWAY_OUTPUTS"):
        return Path(os.environ["HIGHWAY_OUTPUTS"])
    return Path.home() / ".cache" / "highway"
