"""Name where and with which code the runs of a table were made."""

from highway.report.collect import Collected
from highway.report.sample import Sample
from highway.report.sections import seeds_text
from highway.sweep.table import Row


def origins(collected: Collected) -> list[str]:
    """Return a text for each device, version and commit of the runs."""
    made_by: dict[str, list[tuple[Row, Sample]]] = {}
    for row in collected.table.rows:
        for sample in collected.samples[row.id]:
            made_by.setdefault(_environment(sample), []).append((row, sample))
    only = len(made_by) == 1
    return [text if only else f"{text}: {_named(runs)}" for text, runs in made_by.items()]


def _environment(sample: Sample) -> str:
    environment, device = sample.result["environment"], sample.result["cost"]["device"]
    torch, precision = environment["versions"].get("torch"), environment["precision"]
    return f"{device}, torch {torch}, precision {precision}, commit {environment['git_commit'] or 'unknown'}"


def _named(runs: list[tuple[Row, Sample]]) -> str:
    """Name runs by the labels of their rows and their seeds: `RNN (seed 1); GRU (seeds 1, 2)`."""
    seeds: dict[str, list[int]] = {}
    for row, sample in runs:
        seeds.setdefault(row.label, []).append(sample.seed)
    return "; ".join(f"{label} ({seeds_text(of_row)})" for label, of_row in seeds.items())
