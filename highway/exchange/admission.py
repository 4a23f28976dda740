"""Check the files of a record from another machine before it is imported; a problem is one sentence."""

import csv
import io
import math
import zipfile
import zlib
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from highway.config.check import check_recorded
from highway.config.experiment import Experiment
from highway.config.metrics import KINDS, SPLITS
from highway.config.yaml_file import parsed
from highway.errors import Refused, as_typed
from highway.ledger.identity import identified

COLUMNS = ["step", "epoch", "seconds", "tokens", "split", "metric", "value"]
RUN_METRICS = (*KINDS, "learning_rate", "gradient_norm", "gate_norm")
TIMING_METRICS = ("step_seconds", "relative_time")  # in the curves of a timing, which have rows in place of splits
LARGEST_PROBE = 64 << 20  # bytes, unpacked


def problem(folder: str, result: dict[str, Any], files: dict[str, bytes]) -> str | None:
    """Return what is wrong with the files of a record whose result.json is valid, or None."""
    rows = result["rows"] if folder.startswith("timing-") and isinstance(result.get("rows"), dict) else {}
    config, curves = files["config.yaml"], files["curves.csv"]
    splits, metrics = (tuple(rows), TIMING_METRICS) if rows else (SPLITS, RUN_METRICS)
    wrong = _timing_problem(config, set(rows)) if rows else _config_problem(config, folder, result)
    wrong = wrong or _curves_problem(curves, splits, metrics, may_be_empty=result["status"] != "finished")
    probes = ((name, content) for name, content in files.items() if name.startswith("probes/"))
    return wrong or next((f"{name} {wrong}" for name, content in probes if (wrong := _probe_problem(content))), None)


def _config_problem(text: bytes, folder: str, result: dict[str, Any]) -> str | None:
    experiment = _experiment(_read(text))
    if isinstance(experiment, str):
        return f"config.yaml {experiment}"
    if (experiment.seed, experiment.budget) != (result["seed"], result["budget"]):
        return "config.yaml has another seed or budget than result.json"
    if folder != identified(experiment):
        return "config.yaml belongs to another run"
    return None


def _timing_problem(text: bytes, folders: set[str]) -> str | None:
    """Check that config.yaml has a configuration for each row that result.json names."""
    rows = _read(text)
    experiments = [_experiment(values) for values in rows.values()] if isinstance(rows, dict) else [str(rows)]
    names = [identified(row) for row in experiments if isinstance(row, Experiment)]
    if len(names) < len(experiments) or set(names) != folders:
        return "config.yaml does not describe the rows of result.json"
    return None


def _read(text: bytes) -> Any:
    """Return the values of config.yaml, or a text that says what is wrong."""
    try:
        return parsed(text, "it")
    except Refused as error:
        return f"cannot be read: {str(error).rstrip('.')}"


def _experiment(values: Any) -> Experiment | str:
    """Return the experiment with these settings, or a text that says what is wrong."""
    if not isinstance(values, dict):
        return values if isinstance(values, str) else "is not a table of settings"
    if "${" in str(values):
        return "refers to something outside the file"
    try:
        return check_recorded({**values, "data_dir": "data", "outputs_dir": "outputs"})
    except Refused as error:
        return f"is refused: {error}"
    except Exception as error:  # settings from elsewhere may make our reader fail in any way
        return f"cannot be read ({type(error).__name__})"


def _curves_problem(text: bytes, splits: Sequence[str], metrics: Sequence[str], may_be_empty: bool) -> str | None:
    last: dict[tuple[str, str], int] = {}
    try:
        lines = csv.reader(io.StringIO(text.decode()), strict=True)
        if next(lines, None) != COLUMNS:
            return f"curves.csv has other columns than {', '.join(COLUMNS)}"
        for number, line in enumerate(lines, start=2):
            step, epoch, seconds, tokens, split, metric, value = line
            if split not in splits or metric not in metrics:
                return f"curves.csv, line {number}, names {split[:40]!r}, {metric[:40]!r}, which is not a curve"
            if not all(0 <= float(count) < math.inf for count in (epoch, seconds, tokens)):
                return f"curves.csv, line {number}, has a negative or infinite count"
            float(value)  # NaN if the run diverged
            if int(step) < last.get((split, metric), 0):
                return f"curves.csv, line {number}, goes back in its steps"
            last[split, metric] = int(step)
    except (ValueError, csv.Error) as error:
        return f"curves.csv cannot be read ({as_typed(error)})"
    return None if last or may_be_empty else "curves.csv has no rows"


def _probe_problem(content: bytes) -> str | None:
    """Check the header of each array ourselves: numpy allocates whatever shape a header declares."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(member.file_size for member in archive.infolist()) > LARGEST_PROBE:
                return "is too large"
            for member in archive.infolist():
                with archive.open(member) as file:
                    if not member.filename.endswith(".npy") or not _is_array(file):
                        return f"contains {member.filename[:40]!r}, which is not an array of numbers"
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, RuntimeError) as error:
        return f"is not a file of arrays ({type(error).__name__})"
    return None


def _is_array(file: IO[bytes]) -> bool:
    if np.lib.format.read_magic(file) != (1, 0):
        return False
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    size = math.prod(shape) * kind.itemsize if min(shape, default=0) >= 0 else -1
    return kind.kind in "fiub" and len(file.read()) == size
