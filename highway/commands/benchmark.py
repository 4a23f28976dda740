"""Compare training speed with public implementations:  highway benchmark highway_t1 [--rounds 5]

--decoding RUN compares how fast that trained model translates with the paper's way of inference.
--overhead measures the waiting that is not training: in a sweep, for `highway table status`, before the first step.
"""

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

from highway.bench.decoding import decoded
from highway.bench.field import PRECISIONS, Asked, contenders, measurable, precisions
from highway.bench.measure import MIB, measure
from highway.bench.overhead import overhead
from highway.commands.arguments import Arguments, one_sentence, whole
from highway.config.extras import need
from highway.config.groups import options
from highway.config.home import outputs_folder
from highway.errors import Refused, counted
from highway.files.device import cores
from highway.files.writing import write_json
from highway.sweep.reading import load_table, table_ids


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="measure at its shape; every table by default")
    parser.add_argument("--row", help="row of the table; by default the first that has a public counterpart")
    parser.add_argument("--local-rnn", action="store_true", help="time one LocalRNN alone, forward and backward")
    parser.add_argument("--budget", default="paper", choices=options("budget"), help="default: paper")
    parser.add_argument("--precision", choices=PRECISIONS, help="by default both; without bf16 where that is slower")
    parser.add_argument("--rounds", type=whole(1, 1000), default=5, help="interleaved rounds; default: 5")
    parser.add_argument("--threads", type=whole(1, 1024), default=cores(), help="default: every core")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="as in dataset.train.lanes=4")
    parser.add_argument("--compile", action="store_true", help="time our model compiled as well")
    other = parser.add_argument_group("instead of training speed")
    other.add_argument(
        "--decoding", type=Path, metavar="RUN", help="time the translations of this trained model instead"
    )
    other.add_argument("--sentences", type=whole(1), default=500, help="of the test set, for --decoding")
    other.add_argument("--overhead", action="store_true", help="measure the waiting that is not training instead")
    arguments = parser.parse_args()
    folder = outputs_folder() / "bench"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with one_sentence():
        if (arguments.decoding or arguments.overhead) and arguments.tables:
            raise Refused("--decoding and --overhead measure no table: leave out the table's name.")
        if arguments.overhead:
            record = overhead()
            write_json(folder / "overhead.json", record)
            show_overhead(record)
            print(folder / "overhead.json")
            return
        if not arguments.decoding:
            need("x_transformers", "bench", "highway benchmark")
            need("pytorch_tcn", "bench", "highway benchmark")
        torch.set_num_threads(arguments.threads)
        chosen, remarks = precisions(arguments.precision, device)
        if arguments.decoding:
            decoding(arguments, chosen, remarks, device, folder)
        else:
            sys.exit(tables(arguments, chosen, remarks, device, folder))


def decoding(arguments: Namespace, chosen: tuple[str, ...], remarks: list[str], device: str, folder: Path) -> None:
    record = decoded(arguments.decoding, arguments.sentences, device, chosen)
    size = f"{counted(record['sentences'], 'sentence')}, {record['parameters']:,} parameters"
    record["title"] = f"{size}, {counted(arguments.threads, 'thread')}, {device}"
    path = folder / f"decoding-{record['cell']}-{device}.json"
    write_json(path, record)
    say(*remarks)
    show_decoded(record)
    print(path)


def tables(arguments: Namespace, chosen: tuple[str, ...], remarks: list[str], device: str, folder: Path) -> int:
    """Measure, show and write one table after another; return 1 if a table has no figures.

    All are composed before the first is measured: a mistake costs no waiting.
    """
    failed = 0
    asked = Asked(
        arguments.row, arguments.budget, arguments.set, chosen, device, arguments.compile, arguments.local_rnn
    )
    several = map(load_table, arguments.tables or table_ids(trained=True))
    fields = [(table, contenders(table, asked)) for table in several if arguments.tables or measurable(table, asked)]
    say(*remarks)
    for table, field in fields:
        say(*field.remarks)
        record = measure(field.entries, arguments.rounds, arguments.threads)
        about = [f"{table.id} {field.row.id}, budget {asked.budget}", *asked.overrides]
        record["title"] = f"{' '.join(about + ['LocalRNN alone'] * asked.local_rnn)}: {record['title']}"
        record["remarks"] = [*field.remarks, *record["remarks"]]
        names = [table.id, field.row.id, asked.budget] + ["local-rnn"] * asked.local_rnn
        path = folder / f"{'-'.join(names)}-{device}.json"
        write_json(path, record)
        say(*record["remarks"][len(field.remarks) :])
        show(record)
        say(path)
        failed |= not record["rows"]
    return failed


def say(*sentences: object) -> None:
    """Print at once: whoever reads a log sees what was measured before a kill."""
    for sentence in sentences:
        print(sentence, flush=True)


def show_overhead(record: dict[str, Any]) -> None:
    grid = Grid(box=SIMPLE_HEAD, title=record["title"], title_justify="left")
    grid.add_column("overhead of", no_wrap=True)
    for head in ("seconds", "of processors", "at most"):
        grid.add_column(head, justify="right", no_wrap=True)
    for row in record["rows"]:
        cells = [f"{row['seconds']:.3f}", f"{row['processor_seconds']:.3f}", f"{row['limit']:g}"]
        grid.add_row(row["name"], *cells)
    Console().print(grid)


def show_decoded(record: dict[str, Any]) -> None:
    grid = Grid(box=SIMPLE_HEAD, title=record["title"], title_justify="left")
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
    grid = Grid(box=SIMPLE_HEAD, title=record["title"], title_justify="left")
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
        show_ours(precision, [row for row in record["rows"] if row["precision"] == precision], record["step_peak"])


def show_ours(precision: str, rows: list[dict[str, Any]], step_peak: dict[str, float]) -> None:
    """Show what compiling and gates cost our model, in one precision."""
    ours = [row for row in rows if row["kind"] == "ours"]
    if not ours:
        return
    plain, *others = ours
    if peak := step_peak.get(precision):
        share = plain["operations"] / plain["seconds"] / peak
        print(f"one product of a step alone, {precision}: {peak / 1e9:,.0f} GFLOP/s; ours has {share:.0%} of it")
    for row in others:
        if row["compiled"]:
            print(f"{row['name']}: the first step took {row['first_seconds']:.0f} s")
        else:
            time, work = (row[key] / plain[key] for key in ("seconds", "operations"))
            print(f"{row['name']}: {time:.2f} times the time of {plain['name']}, {work:.2f} times its operations")
