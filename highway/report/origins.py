"""Name where and with which code the runs of a table were made, and which of them were trained again since."""

from highway.report.collect import Collected
from highway.report.provenance import seeds_text
from highway.report.sample import Sample
from highway.sweep.table import Row


def origins(collected: Collected) -> list[str]:
    """Return a text for each device, version and commit of the runs, and for each check of their first steps."""
    made_by: dict[str, list[tuple[Row, Sample]]] = {}
    checked_by: dict[str, list[tuple[Row, Sample]]] = {}
    for row in collected.table.rows:
        for sample in collected.samples[row.id]:
            made_by.setdefault(_environment(sample), []).append((row, sample))
            if sample.check:
                checked_by.setdefault(f"{sample.check.mark} {sample.check.when}", []).append((row, sample))
    only = len(made_by) == 1
    made = [text if only else f"{text}: {_named(runs)}" for text, runs in made_by.items()]
    return [*made, *(f"{text[0].upper()}{text[1:]}: {_named(checked_by[text])}" for text in sorted(checked_by))]


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
