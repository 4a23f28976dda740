"""Read and write times.csv: the measurements of a table whose rows are timed and not trained (`rounds` in its file).

The file has a line for each measurement, row and round. A measurement counts as a seed of each of its rows. Medians,
spread and hours are computed here.
"""

import csv
import io
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from highway.config import home
from highway.errors import Refused, counted, listing
from highway.ledger.files import write_text
from highway.report.sample import Sample
from highway.tables.rows import composed, overrides_of
from highway.tables.table import Table

COLUMNS = (
    *("measured", "row", "round"),  # `measured`, the start in UTC, names the measurement
    *("step_seconds", "relative_time", "peak_memory_mib", "load_average"),
    *("device", "threads", "precision", "compile", "torch", "python", "commit"),
)
NUMBERS = ("round", "step_seconds", "relative_time", "peak_memory_mib", "threads")
OTHER_WORK = 0.5  # load average above that of the measurement's own threads

Line = dict[str, str]  # by column


def times_file(table_id: str, budget: str, outputs: Path) -> Path:
    """Return the path of a table's measurements at a budget; published ones have the same path below REFERENCE."""
    return outputs / table_id / budget / "times.csv"


def read_lines(path: Path) -> list[Line]:
    """Read the lines of a times.csv; an empty list if there is no file."""
    if not path.exists():
        return []
    try:
        with open(path, newline="", encoding="utf-8") as file:
            lines = [{column: line[column].strip() for column in COLUMNS} for line in csv.DictReader(file)]
        for line in lines:
            float(line["load_average"] or 0)  # empty where the system has none
            for column in NUMBERS:
                float(line[column])
    except (KeyError, ValueError, TypeError, AttributeError, csv.Error) as error:
        raise Refused(f"{path} cannot be read as times.csv ({type(error).__name__}: {error}). Move it away.") from None
    return lines


def write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write times.csv atomically."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_text(path, text.getvalue())


@dataclass(frozen=True)
class Measurement:
    """Rows of a table that were timed together, in interleaved rounds."""

    name: str  # when it began
    folder: Path  # of times.csv
    lines: tuple[Line, ...]

    @property
    def setting(self) -> str:
        """Device, threads, precision and compilation, which two measurements must share to be compared."""
        line = self.lines[0]
        mode = line["compile"]
        compiled = f", compiled{'' if mode == 'default' else f' ({mode})'}" if mode else ""
        return f"{line['device']}, {counted(int(line['threads']), 'thread')}, precision {line['precision']}{compiled}"

    @property
    def rounds(self) -> int:
        return len({line["round"] for line in self.lines})

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(line["row"] for line in self.lines))

    @property
    def disturbed(self) -> bool:
        """True if the load average says that other work ran beside it; False where none was recorded."""
        loads = [float(line["load_average"]) for line in self.lines if line["load_average"]]
        return bool(loads) and statistics.median(loads) > int(self.lines[0]["threads"]) + OTHER_WORK

    def values(self, row: str, column: str) -> list[float]:
        """Return the values of a row, by round."""
        return [float(line[column]) for line in self.lines if line["row"] == row]


def measurements(table: Table, budget: str, outputs: Path) -> list[Measurement]:
    """Return the measurements made here, oldest first; if there are none, the published ones."""
    for root in (outputs, home.REFERENCE):
        path = times_file(table.id, budget, root)
        by_name: dict[str, list[Line]] = {}
        for line in read_lines(path):
            by_name.setdefault(line["measured"], []).append(line)
        if by_name:
            return [Measurement(name, path.parent, tuple(by_name[name])) for name in sorted(by_name)]
    return []


def timed_samples(table: Table, budget: str, outputs: Path) -> tuple[dict[str, tuple[Sample, ...]], str]:
    """Return the samples of each row, and a clause on how they were measured.

    They are those of the setting that was measured last: times of two devices do not compare.
    """
    every = measurements(table, budget, outputs)
    shown = [measurement for measurement in every if measurement.setting == every[-1].setting]
    steps = {row.id: composed(overrides_of(table, row, budget)).trainer.max_steps for row in table.at(budget)}
    samples = {
        row.id: tuple(
            _sample(measurement, row.id, number, steps[row.id])
            for number, measurement in enumerate(shown, start=1)
            if row.id in measurement.rows
        )
        for row in table.at(budget)
    }
    return {row.id: samples.get(row.id, ()) for row in table.rows}, _described(every, shown)


def _sample(measurement: Measurement, row: str, number: int, steps: int | None) -> Sample:
    """Return what a measurement says of one row, in the form of a run's record. Spread: interquartile over median."""
    seconds = measurement.values(row, "step_seconds")
    median, (low, _, high) = statistics.median(seconds), statistics.quantiles(seconds, n=4)
    relative = measurement.values(row, "relative_time")
    values = {
        "step_seconds": median,
        "spread": (high - low) / median,
        "relative_time": statistics.median(relative),
        "peak_memory_mib": measurement.values(row, "peak_memory_mib")[0],
        **({"train_time_h": median * steps / 3600} if steps else {}),
    }
    line = measurement.lines[0]
    result: dict[str, Any] = {
        "status": "finished",
        "row": row,
        "metrics": {name: {"best": value, "last": value} for name, value in values.items()},
        "data": {"source": "random", "sha256": {}},
        "environment": {
            "versions": {"torch": line["torch"]},
            "python": line["python"],
            "precision": line["precision"],
            "git_commit": line["commit"],
        },
        "cost": {"device": line["device"], "exclusive": not measurement.disturbed},
    }
    return Sample(measurement.folder, number, result, relative_times=tuple(relative))


def _described(every: Sequence[Measurement], shown: Sequence[Measurement]) -> str:
    """Return a clause on the measurements that a report shows, and on those that it leaves out."""
    if not shown:
        return "medians over interleaved rounds"
    text = f"medians over {_each(measurement.rounds for measurement in shown)} interleaved rounds on {shown[0].setting}"
    if len(shown) > 1:
        text += "; each measurement counts as a seed"
    if others := len(every) - len(shown):
        text += f"; {counted(others, 'measurement')} with other devices or settings {'is' if others == 1 else 'are'}"
        text += " only in times.csv"
    if disturbed := [str(number) for number, measurement in enumerate(shown, start=1) if measurement.disturbed]:
        text += f"; other work ran beside {'measurement' if len(disturbed) == 1 else 'measurements'} "
        text += f"{listing(disturbed)}, so these times do not count"
    return text


def _each(numbers: Iterable[int]) -> str:
    return listing([str(number) for number in sorted(set(numbers))])
