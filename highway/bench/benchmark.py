"""Measure training speed, decoding or overhead, for `highway benchmark`; print figures and write them to a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable

from highway.bench.decoding import decoded
from highway.bench.field import Asked, contenders, measurable, precisions
from highway.bench.measure import MIB, measure
from highway.bench.overhead import overhead
from highway.config.extras import need
from highway.config.home import outputs_folder
from highway.errors import counted
from highway.ledger.files import write_json
from highway.sweep.reading import load_table, table_ids


def benchmark_tables(
    names: Sequence[str],
    row: str | None,
    budget: str,
    overrides: Sequence[str],
    precision: str | None,
    compiled: bool,
    local_rnn: bool,
    rounds: int,
    threads: int,
) -> bool:
    """Measure, show and write one table after another; return True if every table has figures.

    All are composed before the first is measured: a mistake costs no waiting.
    """
    need("x_transformers", "bench", "highway benchmark")
    need("pytorch_tcn", "bench", "highway benchmark")
    torch.set_num_threads(threads)
    device = _device()
    chosen, remarks = precisions(precision, device)
    asked = Asked(row, budget, list(overrides), chosen, device, compiled, local_rnn)
    tables = map(load_table, names or table_ids(trained=True))
    fields = [(table, contenders(table, asked)) for table in tables if names or measurable(table, asked)]
    say(*remarks)
    complete = True
    for table, field in fields:
        say(*field.remarks)
        record = measure(field.entries, rounds, threads)
        about = [f"{table.id} {field.row.id}, budget {budget}", *overrides]
        record["title"] = f"{' '.join(about + ['LocalRNN alone'] * local_rnn)}: {record['title']}"
        record["remarks"] = [*field.remarks, *record["remarks"]]
        name = "-".join([table.id, field.row.id, budget] + ["local-rnn"] * local_rnn)
        path = _folder() / f"{name}-{device}.json"
        write_json(path, record)
        say(*record["remarks"][len(field.remarks) :])
        show(record)
        say(path)
        complete &= bool(record["rows"])
    return complete


def benchmark_decoding(run: Path, sentences: int, precision: str | None, threads: int) -> None:
    """Time the translations of a trained model, ours and by the paper's way of inference."""
    torch.set_num_threads(threads)
    device = _device()
    chosen, remarks = precisions(precision, device)
    record = decoded(run, sentences, device, chosen)
    size = f"{counted(record['sentences'], 'sentence')}, {record['parameters']:,} parameters"
    record["title"] = f"{size}, {counted(threads, 'thread')}, {device}"
    path = _folder() / f"decoding-{record['cell']}-{device}.json"
    write_json(path, record)
    say(*remarks)
    show_decoded(record)
    say(path)


def benchmark_overhead() -> None:
    """Measure the waiting that is not training."""
    record = overhead()
    write_json(_folder() / "overhead.json", record)
    show_overhead(record)
    say(_folder() / "overhead.json")


def _folder() -> Path:
    return outputs_folder() / "bench"


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def say(*sentences: object) -> None:
    """Print at once: whoever reads a log sees what was measured before a kill."""
    for sentence in sentences:
        print(sentence, flush=True)


def show_overhead(record: dict[str, Any]) -> None:
    grid = RichTable(box=SIMPLE_HEAD, title=record["title"], title_justify="left")
    grid.add_column("overhead of", no_wrap=True)
    for head in ("seconds", "of processors", "at most"):
        grid.add_column(head, justify="right", no_wrap=True)
    for row in record["rows"]:
        cells = [f"{row['seconds']:.3f}", f"{row['processor_seconds']:.3f}", f"{row['limit']:g}"]
        grid.add_row(row["name"], *cells)
    Console().print(grid)


def show_decoded(record: dict[str, Any]) -> None:
    grid = RichTable(box=SIMPLE_HEAD, title=record["title"], title_justify="left")
    grid.add_column("translation of", no_wrap=True)
    for head in ("seconds", "times as fast", "BLEU", "same text"):
        grid.add_column(head, justify="right", no_wrap=True)
    for row in record["rows"]:
        cells = [f"{row['seconds']:.2f}", f"{row['ratio']:.1f}", f"{row['bleu']:.2f}", f"{row['same']}"]
        grid.add_row(row["name"], *cells)
    Console().print(grid)


def show(record: dict[str, Any]) -> None:
    if not record["rows"]:
        return
    grid = RichTable(box=SIMPLE_HEAD, title=record["title"], title_justify="left")
    grid.add_column("training step of", no_wrap=True)
    for head in ("tokens/s", "ratio", "spread", "MiB", "peak"):
        grid.add_column(head, justify="right", no_wrap=True)
    for row in record["rows"]:
        cells = [f"{row['tokens_per_second']:,.0f}", f"{row['ratio']:.2f}", f"{row['spread']:.0%}"]
        cells += [f"{row['peak_memory_bytes'] / MIB:,.0f}", f"{row['share_of_peak']:.0%}"]
        grid.add_row(row["name"], *cells)
    Console().print(grid)
    peaks = ", ".join(f"{peak / 1e9:,.0f} GFLOP/s in {name}" for name, peak in record["matrix_peak"].items())
    print(f"ratio: to {record['reference']}; MiB: of a process of its own; peak: share of the speed of")
    print(f"one large matrix product in the same precision, {peaks}")
    for precision in record["matrix_peak"]:
        show_ours(precision, [row for row in record["rows"] if row["precision"] == precision])


def show_ours(precision: str, rows: list[dict[str, Any]]) -> None:
    """Show what compiling and gates cost our model, in one precision."""
    ours = [row for row in rows if row["kind"] == "ours"]
    if not ours:
        return
    plain, *others = ours
    for row in others:
        if row["compiled"]:
            print(f"{row['name']}: the first step took {row['first_seconds']:.0f} s")
        else:
            time, work = (row[key] / plain[key] for key in ("seconds", "operations"))
            print(f"{row['name']}: {time:.2f} times the time of {plain['name']}, {work:.2f} times its operations")
