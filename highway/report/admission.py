"""What the files of a record from elsewhere must be before it is taken: one sentence for what is wrong with one."""

import csv
import io
import math
import zipfile
import zlib
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import yaml
from omegaconf import OmegaConf

from highway.config.check import check
from highway.config.experiment import Experiment
from highway.config.metrics import KINDS, SPLITS
from highway.errors import Refused
from highway.report.collect import cell_names

COLUMNS = ["step", "epoch", "seconds", "tokens", "split", "metric", "value"]
IN_CURVES = (*KINDS, "learning_rate", "gradient_norm", "gate_norm")
OF_ROUNDS = ("step_seconds", "relative_time")  # what a timing's curves have, by row in place of a split
LARGEST_CONFIG = 1 << 18  # bytes
LARGEST_PROBE = 64 << 20  # bytes, unpacked


class _NoAliases(yaml.SafeLoader):
    """A few aliases of aliases stand for more values than any memory holds."""

    def compose_node(self, *where: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(*where)


def problem(cell: str, result: dict[str, Any], files: dict[str, bytes]) -> str | None:
    """What is wrong with the files beside a result.json that is right."""
    rows = result["rows"] if cell.startswith("timing-") and isinstance(result.get("rows"), dict) else {}
    wrong = _of_timing(files["config.yaml"], set(rows)) if rows else _of_config(files["config.yaml"], cell, result)
    splits, metrics = (tuple(rows), OF_ROUNDS) if rows else (SPLITS, IN_CURVES)
    wrong = wrong or _of_curves(files["curves.csv"], splits, metrics, may_be_empty=result["status"] != "finished")
    probes = ((name, content) for name, content in files.items() if name.startswith("probes/"))
    return wrong or next((f"{name} {wrong}" for name, content in probes if (wrong := _of_probe(content))), None)


def _of_config(text: bytes, cell: str, result: dict[str, Any]) -> str | None:
    experiment = _experiment(_read(text))
    if isinstance(experiment, str):
        return f"config.yaml {experiment}"
    if (experiment.seed, experiment.budget) != (result["seed"], result["budget"]):
        return "config.yaml has another seed or budget than result.json"
    if cell not in dict(cell_names(experiment)):  # at today's revisions, and at older ones
        return "config.yaml is that of another cell"
    return None


def _of_timing(text: bytes, cells: set[str]) -> str | None:
    """Its config.yaml has a configuration a row, and its result.json the cell that each row is."""
    read = _read(text)
    found = [_experiment(one) for one in read.values()] if isinstance(read, dict) else [str(read)]
    names = [set(dict(cell_names(one))) for one in found if isinstance(one, Experiment)]
    if len(names) < len(found) or len(found) != len(cells) or not all(cells & of_row for of_row in names):
        return "config.yaml does not describe the rows of result.json"
    return None


def _read(text: bytes) -> Any:
    """The values; a text in their place says what is wrong."""
    if len(text) > LARGEST_CONFIG:
        return "is too large"
    try:
        return _NoAliases(text).get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return f"cannot be read ({type(error).__name__})"


def _experiment(values: Any) -> Experiment | str:
    if not isinstance(values, dict):
        return values if isinstance(values, str) else "is no table of settings"
    if "${" in str(values):
        return "refers to something outside of it"
    try:
        return check(OmegaConf.create({**values, "data_dir": "data", "outputs_dir": "outputs"}))
    except Refused as error:
        return f"is refused: {error}"
    except Exception as error:  # whatever a stranger's settings make our reader do
        return f"cannot be read ({type(error).__name__})"


def _of_curves(text: bytes, splits: Sequence[str], metrics: Sequence[str], may_be_empty: bool) -> str | None:
    last: dict[tuple[str, str], int] = {}
    try:
        lines = csv.reader(io.StringIO(text.decode()), strict=True)
        if next(lines, None) != COLUMNS:
            return f"curves.csv has other columns than {', '.join(COLUMNS)}"
        for number, line in enumerate(lines, start=2):
            step, epoch, seconds, tokens, split, metric, value = line
            if split not in splits or metric not in metrics:
                return f"curves.csv, line {number}, names {split[:40]!r}, {metric[:40]!r}, which no curve is"
            if not all(0 <= float(one) < math.inf for one in (epoch, seconds, tokens)):
                return f"curves.csv, line {number}, has a negative or infinite count"
            float(value)  # of one that diverged it may be no number
            if int(step) < last.get((split, metric), 0):
                return f"curves.csv, line {number}, goes back in its steps"
            last[split, metric] = int(step)
    except (ValueError, csv.Error) as error:
        return f"curves.csv cannot be read ({error})"
    return None if last or may_be_empty else "curves.csv has no rows"


def _of_probe(content: bytes) -> str | None:
    """An array is judged by its own header: numpy would make room for whatever shape that declares."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(one.file_size for one in archive.infolist()) > LARGEST_PROBE:
                return "is too large"
            for one in archive.infolist():
                with archive.open(one) as file:
                    if not one.filename.endswith(".npy") or not _is_array(file):
                        return f"holds {one.filename[:40]!r}, which is no array of numbers"
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, RuntimeError) as error:
        return f"is no file of arrays ({type(error).__name__})"
    return None


def _is_array(file: IO[bytes]) -> bool:
    if np.lib.format.read_magic(file) != (1, 0):
        return False
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    size = math.prod(shape) * kind.itemsize if min(shape, default=0) >= 0 else -1
    return kind.kind in "fiub" and len(file.read()) == size
