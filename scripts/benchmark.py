"""Compare our training speed with public implementations at the shapes of the tables, or our decoding with the paper's.

    python scripts/benchmark.py highway_t3 --budget smoke --rounds 2
    python scripts/benchmark.py highway_t2 --local-rnn
    python scripts/benchmark.py --decoding outputs/gated_resnet_t1/paper/g1_e4h6/seed1

A GPU measures fp32 (with TF32 products) and bf16. There our model and the public ones are compiled alike, unless
--no-compile is given. Figures are printed and written to outputs/bench/, one CSV file for a command. The exit code is 1
if a table could not be measured.
"""

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from contenders import lacks, rivals
from measuring import Figures, decoded, measure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from swapped import LayerAlone

from highway.config import project
from highway.config.compose import experiment as composed
from highway.config.experiment import Experiment
from highway.config.extras import need
from highway.config.groups import options
from highway.config.home import outputs_folder
from highway.config.sentences import one_sentence
from highway.errors import Refused, counted, listing
from highway.ledger.files import write_json, write_text
from highway.machine import cores, device_name
from highway.run.compiled import lengths_vary, mode_of
from highway.tables.reading import load_table, table_ids
from highway.tables.table import Row, Table
from highway.timing.stopwatch import Entry

ON_CUDA = ("32", "bf16")  # a CPU measures bf16 only if asked: without its instructions a step takes 10 times as long
COLUMNS = (
    *("table", "row", "budget", "options", "device", "threads", "torch", "precision", "mode", "contender"),
    *("parameters", "tokens", "operations", "ms", "tokens_per_second", "ratio", "spread", "kernels", "mib"),
    "share_of_peak",
)


@dataclass(frozen=True)
class Comparison:
    """The contenders of one comparison, all in one precision, and remarks on what is missing from it."""

    table: Table
    row: Row
    entries: list[Entry]
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """The options of a benchmark's command line. They apply to every table."""

    row: str | None
    budget: str
    overrides: list[str]
    precisions: tuple[str, ...]
    device: str
    compiled: bool
    local_rnn: bool


def contenders(table: Table, asked: Asked) -> list[Comparison]:
    """Choose the row of a table, and the contenders that are timed at its shape, in each precision."""
    row, remarks = chosen(table, asked)
    described = shape(table, row, asked)
    gated = [shape(table, row, asked, f"gate={gate}") for gate in described.model_card.timed]
    on_cuda = asked.device == "cuda"
    compiled = (mode_of(described, "cuda") if on_cuda else "default") if asked.compiled else None
    comparisons = []
    for precision in asked.precisions:
        entries: list[Entry] = [LayerAlone(precision, described, asked.device, gathered=each) for each in (False, True)]
        if not asked.local_rnn:
            ours = [Entry(precision, each, asked.device, compiled) for each in (described, *gated)]
            if asked.compiled and on_cuda and not lengths_vary(described):
                ours.append(Entry(precision, described, asked.device, "whole"))
            entries = [*ours, *rivals(described, precision, asked.device, compiled)]
        different = {entry.name: entry for entry in entries}  # a row that has a gate may equal one that is timed anyway
        comparisons.append(Comparison(table, row, list(different.values()), remarks))
    return comparisons


def measurable(table: Table, asked: Asked) -> bool:
    """Return whether a benchmark of all tables has something to measure in this table."""
    if asked.budget not in table.budgets or (asked.row and asked.row not in [row.id for row in table.rows]):
        return False
    return not asked.local_rnn or any(not _problem(table, row, asked) for row in table.at(asked.budget))


def chosen(table: Table, asked: Asked) -> tuple[Row, list[str]]:
    """Return the row asked for, or else the first that can be measured as asked, and remarks on problems."""
    if asked.row:
        row = table.row(asked.row)
        problem = _problem(table, row, asked)
        if problem and asked.local_rnn:
            raise Refused(f"--local-rnn: {problem}. {_instead(table, asked)}")
        return row, [f"{problem}. {_instead(table, asked)}"] if problem else []
    first, *others = table.at(asked.budget)
    problem = _problem(table, first, asked)
    if not problem:
        return first, []
    for row in others:
        if not _problem(table, row, asked):
            return row, [f"{table.id} is measured at its row {row.id}: {problem}."]
    if asked.local_rnn:
        raise Refused(f"--local-rnn: no row of {table.id} has a LocalRNN. {_instead(table, asked)}")
    return first, [f"{problem}."]


def _problem(table: Table, row: Row, asked: Asked) -> str:
    """Return why a row cannot be measured as asked; empty if it can."""
    described = shape(table, row, asked)
    if asked.local_rnn:
        has = getattr(described.model, "local_layers", 0)
        return "" if has else f"row {row.id} of {table.id} has no LocalRNN (its model is {described.model.name})"
    missing = (lacks(kind, described) for kind in described.model_card.rivals)
    return next((f"{why} (row {row.id})" for why in missing if why), "")


def _instead(table: Table, asked: Asked) -> str:
    """Return what to type: a row of this table, or else another table, that can be measured as asked."""
    rows = [row.id for row in table.at(asked.budget) if not _problem(table, row, asked)]
    if rows:
        return f"Type --row {rows[0]}."
    if not asked.local_rnn:
        return "It is timed without that one."
    others = [other for other in map(load_table, table_ids(trained=True)) if other.id != table.id]
    fitting = [other.id for other in others if measurable(other, asked)]
    return f"Name a table that has one: {listing(fitting)}."


def shape(table: Table, row: Row, asked: Asked, *extra: str) -> Experiment:
    """Return a row's experiment with the vocabulary of its real data, whatever its budget reads."""
    overrides = table.overrides(row.adding(asked.overrides), asked.budget, 1)
    described = composed([*overrides, *extra, "dataset.source=sample"])
    if sizes := getattr(described.dataset, "vocabulary", None):
        sizes.sample = sizes.files
    return described


def benchmark_tables(names: Sequence[str], asked: Asked, rounds: int, threads: int) -> bool:
    """Measure, show and write one table after another; return True if every table has figures.

    All are composed before the first is measured: a mistake costs no waiting.
    """
    need("x_transformers", "bench", "scripts/benchmark.py")
    need("pytorch_tcn", "bench", "scripts/benchmark.py")
    tables = [load_table(name) for name in names or table_ids(trained=True)]
    comparisons = [each for table in tables if names or measurable(table, asked) for each in contenders(table, asked)]
    if not comparisons:
        raise Refused("no table has the row and the budget that are asked for.")
    say(*dict.fromkeys(remark for comparison in comparisons for remark in comparison.remarks))
    path = _folder() / f"{datetime.now():%Y-%m-%d-%H%M%S}.csv"
    lines: list[Figures] = []
    complete = True
    measurements = measure([comparison.entries for comparison in comparisons], rounds, threads)
    for comparison, (rows, remarks) in zip(comparisons, measurements, strict=True):
        say(*remarks)
        lines += [{**setting(comparison, asked, threads), **row} for row in rows]
        if rows:
            show(lines[-len(rows) :])
            write_lines(path, lines)
        complete &= bool(rows)
    if lines:
        say(path)
    return complete


def setting(comparison: Comparison, asked: Asked, threads: int) -> Figures:
    """Return the columns of the CSV file that all contenders of a comparison share."""
    entry = comparison.entries[0]
    return {
        "table": comparison.table.id,
        "row": comparison.row.id,
        "budget": asked.budget,
        "options": " ".join(["--local-rnn"] * asked.local_rnn + asked.overrides),
        "device": device_name(entry.device),
        "threads": threads,
        "torch": torch.__version__,
        "precision": "tf32" if entry.device == "cuda" and entry.precision == "32" else entry.precision,
    }


def write_lines(path: Path, lines: list[Figures]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_text(path, text.getvalue())


def benchmark_decoding(run: Path, sentences: int, asked: Asked, threads: int) -> None:
    """Time the translations of a trained model, ours and by the paper's way of inference."""
    record = decoded(run, sentences, asked.device, asked.precisions)
    size = f"{counted(record['sentences'], 'sentence')}, {record['parameters']:,} parameters"
    record["title"] = f"{size}, {counted(threads, 'thread')}, {asked.device}"
    path = _folder() / f"decoding-{record['cell']}-{asked.device}.json"
    write_json(path, record)
    show_decoded(record)
    say(path)


def _folder() -> Path:
    return outputs_folder() / "bench"


def say(*sentences: object) -> None:
    """Print at once: whoever reads a log sees what was measured before a kill."""
    for sentence in sentences:
        print(sentence, flush=True)


def _grid(title: str, first: str, *others: str) -> RichTable:
    grid = RichTable(box=SIMPLE_HEAD, title=title, title_justify="left")
    grid.add_column(first, no_wrap=True)
    for head in others:
        grid.add_column(head, justify="right", no_wrap=True)
    return grid


def show_decoded(record: dict[str, Any]) -> None:
    grid = _grid(record["title"], "translation of", "seconds", "times as fast", "BLEU", "same text")
    for row in record["rows"]:
        cells = [f"{row['seconds']:.2f}", f"{row['ratio']:.1f}", f"{row['bleu']:.2f}", f"{row['same']}"]
        grid.add_row(row["name"], *cells)
    Console().print(grid)


def show(rows: list[Figures]) -> None:
    title = "{table} {row}, budget {budget}, {precision}, {mode} {options}".format_map(rows[0]).rstrip()
    title += ": {tokens:,} tokens a step, {device}, {threads} CPU threads".format_map(rows[0])
    counts = {key: head for key, head in {"kernels": "kernels", "mib": "MiB"}.items() if key in rows[0]}
    grid = _grid(title, "training step of", "ms", "tokens/s", "ratio", "peak", *counts.values())
    for row in rows:
        cells = [f"{row['ms']:,.2f}", f"{row['tokens_per_second']:,.0f}", f"{row['ratio']:.2f}"]
        grid.add_row(row["contender"], *cells, f"{row['share_of_peak']:.0%}", *(f"{row[key]:,}" for key in counts))
    Console().print(grid)
    print("ratio: to the first public implementation; peak: model flops utilisation, the share of the speed of one")
    print("large matrix product in the same precision")
    plain, *gated = [row for row in rows if row["kind"] == "ours"] or rows[:1]
    for row in gated:
        time, work = (row[key] / plain[key] for key in ("ms", "operations"))
        print(f"{row['contender']}: {time:.2f} times the time of {plain['contender']}, {work:.2f} times its operations")


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="default: every table")
    parser.add_argument("--row", help="default: the first row with a public counterpart")
    parser.add_argument("--local-rnn", action="store_true", help="time one LocalRNN alone, forward and backward")
    parser.add_argument("--budget", choices=options("budget"), default="paper", help="default: paper")
    parser.add_argument("--precision", choices=ON_CUDA, help="default: both on a GPU, 32 on a CPU")
    parser.add_argument("--rounds", type=_number, default=5, metavar="N", help="interleaved rounds; default: 5")
    parser.add_argument("--threads", type=_number, default=cores(), metavar="N", help="default: every core")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an override; may be repeated")
    compiled: dict[str, Any] = {"action": argparse.BooleanOptionalAction, "default": torch.cuda.is_available()}
    parser.add_argument("--compile", **compiled, help="compile every model alike; default: on a GPU")
    parser.add_argument("--decoding", type=Path, metavar="RUN", help="time the translations of this trained model")
    parser.add_argument("--sentences", type=_number, default=500, metavar="N", help="for --decoding; default: 500")
    return parser


def main() -> None:
    arguments = _options().parse_args()
    with one_sentence():
        project.load()
        if arguments.decoding and arguments.tables:
            raise Refused("--decoding measures no table: leave out the table's name.")
        torch.set_num_threads(arguments.threads)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        default = ON_CUDA if device == "cuda" else ("32",)
        precisions = (arguments.precision,) if arguments.precision else default
        settings = (arguments.row, arguments.budget, arguments.set, precisions, device)
        asked = Asked(*settings, arguments.compile, arguments.local_rnn)
        if arguments.decoding:
            benchmark_decoding(arguments.decoding, arguments.sentences, asked, arguments.threads)
        elif not benchmark_tables(arguments.tables, asked, arguments.rounds, arguments.threads):
            sys.exit(1)


if __name__ == "__main__":
    main()
