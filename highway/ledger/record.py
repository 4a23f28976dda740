"""Write and read records. The classes below are the schema of result.json, checked whenever a record is read."""

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from highway.config.metrics import METRICS
from highway.config.schema import Number, Pattern, Range, as_key, problem_of
from highway.errors import Corrupt
from highway.files import seal
from highway.files.plain import read_bytes
from highway.files.writing import written_atomically

log = logging.getLogger("highway")
ROUNDING = 1e-6  # how far sums of floats may exceed the range of a metric
Count = Annotated[int, Range(0)]
Amount = Annotated[float, Range(0)]
Sizes = dict[str, Count]  # split -> number
MemberPath = Annotated[str, Pattern(r"(?!.*\.\.)\w[\w./-]*", "a path below the folder of the run")]


class Record(TypedDict):
    """A record of any status. A run that failed while it was built has nothing more."""

    status: Literal["finished", "failed", "diverged", "interrupted", "paused", "dropped"]
    cell: str
    seed: Count
    budget: str
    metrics: dict[str, Any]
    files: dict[MemberPath, str]  # name -> sha256
    command: NotRequired[str | None]
    error: NotRequired[str | None]


class Words(TypedDict):
    """Statistics of the training sentences in a language."""

    sentences_by_length: list[Count]
    mean: Amount
    median: Amount
    distinct: Count


class Data(TypedDict):
    source: str
    sha256: dict[str, str]
    vocabulary_sha256: NotRequired[str]
    form: NotRequired[str | None]
    counting_loss: NotRequired[float | None]
    images: NotRequired[Sizes]
    pieces: NotRequired[Sizes]
    symbols: NotRequired[Sizes]
    words: NotRequired[dict[str, Words]]


class Environment(TypedDict):
    git_commit: str | None
    versions: dict[str, str]
    precision: str
    threads: Annotated[int, Range(1)]
    compile: bool | str | None


class Cost(TypedDict):
    seconds: Amount
    device: str
    exclusive: bool


class LoadAverage(TypedDict):
    """The load average of the machine as a run starts, or resumes, and as it ends; null where the system has none."""

    start: Amount | None
    end: Amount | None


class RunCost(Cost):
    tokens_per_second: Amount
    peak_memory_bytes: NotRequired[Amount | None]
    load_average: NotRequired[LoadAverage]


class Parameters(TypedDict):
    total: Count


class RunParameters(Parameters):
    gate: Count


class Notes(TypedDict):
    bleu_counts: NotRequired[list[Annotated[str, Pattern(r"[0-9]{1,9}( [0-9]{1,9}){9}", "ten counts")]]]


class Ended(Record):
    """A record with a result."""

    data: Data
    environment: Environment
    revision: NotRequired[dict[str, Count]]


class Value(TypedDict):
    """A metric of the best and of the last model."""

    best: float
    last: float


class Undefined(TypedDict):
    """A metric of a diverged run, which may be NaN or infinite."""

    best: Annotated[Any, Number()]
    last: Annotated[Any, Number()]


class OfARun(Ended):
    steps: NotRequired[Count]
    best_step: NotRequired[Annotated[int, Range(-1)]]  # the step of best.safetensors; records before 2026-11-23 lack it
    cost: RunCost
    parameters: RunParameters
    notes: NotRequired[Notes]


class Finished(OfARun):
    metrics: dict[str, Value]


class Diverged(OfARun):
    metrics: dict[str, Undefined]


class TimedRow(TypedDict):
    metrics: dict[str, Value]
    parameters: Parameters


class Timing(Ended):
    cost: Cost
    rows: dict[str, TimedRow]


def write_record(folder: Path, content: dict[str, Any], check: Callable[[dict[str, str]], Any] = dict) -> None:
    """Write result.json, with its own checksum and those of the files that are read with it.

    check: called with the checksums before they are written; raises `Corrupt` if one of them is wrong.
    """
    companions = [folder / "config.yaml", folder / "curves.csv", *(folder / "probes").glob("*.npz")]
    files = seal.checksums(folder, filter(Path.is_file, companions))
    check(files)
    with written_atomically(folder / "result.json") as file:
        file.write(seal.sealed({**content, "files": files}))


def read_record(path: Path) -> dict[str, Any] | None:
    """Return the content of a result.json; None if it is missing.

    Also None, with a warning, if the record is not valid, or if it or a file that belongs to it is corrupt.
    """
    try:
        content = seal.opened(read_bytes(path), path)
        if wrong := problem(content):
            return leave_out(path.parent, wrong)
        belongs_to(path.parent, f"{content['cell']}/seed{content['seed']}")
        seal.check_files(path.parent, content["files"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        return leave_out(path.parent, f"result.json cannot be read ({type(error).__name__})")
    except Corrupt as damage:
        return leave_out(path.parent, str(damage).removeprefix(f"{path.parent}/"))
    return content


def belongs_to(folder: Path, run: str) -> None:
    """Raise `Corrupt` if a file in the directory of one run says that it is of another run."""
    if folder.resolve().parts[-2:] != tuple(run.split("/")):
        raise Corrupt(f"it belongs to {run}")


@cache
def leave_out(folder: Path, why: str) -> None:
    """Log once that a record is left out, and return None."""
    log.warning("%s: %s. This record is left out.", folder, why)


def problem(content: object) -> str | None:
    """Return what is wrong with the content of a result.json; None if it is valid."""
    if not isinstance(content, dict):
        return "result.json is not a record"
    wrong = problem_of(content, Record)
    if wrong or content["status"] not in ("finished", "diverged"):
        return wrong
    if content["cell"].startswith("timing-"):
        wrong = problem_of(content, Timing)
        tables = {} if wrong else {f"rows.{as_key(name)}.": row["metrics"] for name, row in content["rows"].items()}
    else:
        wrong = problem_of(content, Finished if content["status"] == "finished" else Diverged)
        tables = {"": content["metrics"]}
        if not wrong and content["status"] == "finished" and "test_loss" not in content["metrics"]:
            wrong = "metrics.test_loss is missing"
    bounded = content["status"] == "finished"
    wrongs = (_wrong_metric(values, bounded, where) for where, values in tables.items())
    return wrong or next(filter(None, wrongs), None)


def _wrong_metric(metrics: dict[str, dict[str, float]], bounded: bool, where: str) -> str | None:
    for name, values in metrics.items():
        card = METRICS.get(name)
        if card is None:
            return f"{where}metrics names {as_key(name)!r}, which is not a metric"
        low, high = card.range
        for select in ("best", "last"):
            if bounded and not low - ROUNDING <= values[select] <= high + ROUNDING:
                return f"{where}metrics.{name}.{select} is not {Range(low, high)}"
    return None
