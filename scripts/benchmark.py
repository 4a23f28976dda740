"""Compare our training speed with public implementations at the shapes of the tables, or our decoding with the paper's.

    python scripts/benchmark.py highway_t3 --budget smoke --rounds 2
    python scripts/benchmark.py highway_t2 --local-rnn
    python scripts/benchmark.py --decoding outputs/gated_resnet_t1/paper/g1_e4h6/seed1

Figures are printed and written to outputs/bench/. The exit code is 1 if a table could not be measured.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from contenders import lacks, rivals
from measuring import MIB, decoded, measure
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
from highway.ledger.files import write_json
from highway.ledger.machine import cores
from highway.run.trial import Entry
from highway.sweep.reading import load_table, table_ids
from highway.sweep.table import Row, Table
from highway.sweep.typed import last_on_each_key

ON_CUDA = ("32", "bf16")  # a CPU measures bf16 only if asked: without its instructions a step takes 10 times as long


@dataclass(frozen=True)
class Comparison:
    """The contenders of one comparison, and remarks on what is missing from it."""

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


def contenders(table: Table, asked: Asked) -> Comparison:
    """Choose the row of a table, and the contenders that are timed at its shape."""
    row, remarks = chosen(table, asked)
    described = shape(table, row, asked)
    if asked.local_rnn:
        alone = [
            LayerAlone(precision, described, asked.device, gathered=gathered)
            for precision in asked.precisions
            for gathered in (False, True)
        ]
        return Comparison(row, list(alone), remarks)
    entries: dict[str, Entry] = {}  # by name: a row that has a gate may equal one that is timed anyway
    for precision in asked.precisions:
        gated = [shape(table, row, asked, f"gate={gate}") for gate in described.model_card.timed]
        ours = [Entry(precision, each, asked.device) for each in (described, *gated)]
        ours += [Entry(precision, described, asked.device, compiled="default")] if asked.compiled else []
        entries |= {entry.name: entry for entry in (*ours, *rivals(described, precision, asked.device))}
    return Comparison(row, list(entries.values()), remarks)


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
    overrides = last_on_each_key([*table.overrides(row, asked.budget, seed=1), *asked.overrides])
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
    tables = map(load_table, names or table_ids(trained=True))
    comparisons = [(table, contenders(table, asked)) for table in tables if names or measurable(table, asked)]
    complete = True
    for table, comparison in comparisons:
        say(*comparison.remarks)
        record = measure(comparison.entries, rounds, threads)
        alone = ["LocalRNN alone"] * asked.local_rnn
        about = " ".join([f"{table.id} {comparison.row.id}, budget {asked.budget}", *asked.overrides, *alone])
        record["title"] = f"{about}: {record['title']}"
        record["remarks"] = [*comparison.remarks, *record["remarks"]]
        name = "-".join([table.id, comparison.row.id, asked.budget] + ["local-rnn"] * asked.local_rnn)
        path = _folder() / f"{name}-{asked.device}.json"
        write_json(path, record)
        say(*record["remarks"][len(comparison.remarks) :])
        show(record)
        say(path)
        complete &= bool(record["rows"])
    return complete


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


def show(record: dict[str, Any]) -> None:
    if not record["rows"]:
        return
    grid = _grid(record["title"], "training step of", "tokens/s", "ratio", "spread", "MiB", "peak")
    for row in record["rows"]:
        cells = [f"{row['tokens_per_second']:,.0f}", f"{row['ratio']:.2f}", f"{row['spread']:.0%}"]
        cells += [f"{row['peak_memory_bytes'] / MIB:,.0f}", f"{row['share_of_peak']:.0%}"]
        grid.add_row(row["name"], *cells)
    Console().print(grid)
    peaks = ", ".join(f"{peak / 1e9:,.0f} GFLOP/s in {name}" for name, peak in record["matrix_peak"].items())
    print(f"ratio: to {record['reference']}; MiB: of a process of its own; peak: model flops utilisation, the share of")
    print(f"the speed of one large matrix product in the same precision, {peaks}")
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
    parser.add_argument("--compile", action="store_true", help="time our model compiled as well")
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
