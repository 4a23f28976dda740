"""Training speed against public implementations, in one run:  python scripts/benchmark.py highway_t1 [--rounds 5]

With --decoding CELL, how fast that trained model translates, against the paper's way of inference.
With --overhead, what there is to wait for besides training: in a sweep, for `table.py status`, before the first step.
"""

from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

from highway.bench.contenders import rivals
from highway.bench.decoding import decoded
from highway.bench.overhead import overhead
from highway.bench.rounds import matrix_peak, timed
from highway.bench.swapped import LayerAlone
from highway.blocks.products import rate
from highway.cli import Arguments, one_sentence, outputs_folder, whole
from highway.config.compose import experiment as composed
from highway.config.experiment import Experiment
from highway.config.guard import options
from highway.errors import Refused
from highway.ledger.device import cores
from highway.ledger.files import write_json
from highway.run import build, machine
from highway.run.trial import Entry, operations, peak_memory
from highway.sweep.reading import load_table, table_ids
from highway.sweep.table import last_on_each_key


def main() -> None:
    parser = Arguments(__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="at whose shape; every table by default")
    parser.add_argument("--row", help="of the table; the first by default")
    parser.add_argument("--local-rnn", action="store_true", help="time one LocalRNN alone, forward and backward")
    parser.add_argument("--budget", default="paper", choices=options("budget"))
    parser.add_argument("--rounds", type=whole(1, 1000), default=5)
    parser.add_argument("--threads", type=whole(1, 1024), default=cores())
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="as in dataset.train.lanes=4")
    parser.add_argument("--compile", action="store_true", help="time our model compiled as well")
    parser.add_argument("--decoding", type=Path, metavar="CELL", help="time this trained model's translations instead")
    parser.add_argument("--sentences", type=whole(1), default=500, help="of the test set, for --decoding")
    parser.add_argument("--overhead", action="store_true", help="measure instead what there is to wait for besides")
    arguments = parser.parse_args()
    folder = outputs_folder() / "bench"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with one_sentence():
        if (arguments.decoding or arguments.overhead) and arguments.tables:
            raise Refused("--decoding and --overhead are not of a table: name none.")
        if arguments.overhead:
            record = overhead()
            write_json(folder / "overhead.json", record)
            show_overhead(record)
            print(folder / "overhead.json")
            return
        torch.set_num_threads(arguments.threads)
        if arguments.decoding:
            record = decoded(arguments.decoding, arguments.sentences, device)
            size = f"{record['sentences']} sentences, {record['parameters']:,} parameters"
            record["title"] = f"{size}, {arguments.threads} threads, {device}"
            path = folder / f"decoding-{record['cell']}-{device}.json"
            write_json(path, record)
            show_decoded(record)
            print(path)
            return
        for table in map(load_table, arguments.tables or table_ids("training")):
            if not arguments.tables and arguments.budget not in table.budgets:
                continue
            row = table.row(arguments.row) if arguments.row else table.rows[0]
            words = last_on_each_key([*table.overrides(row, arguments.budget, seed=1), *arguments.set])
            field = layers(words, device) if arguments.local_rnn else entries(words, device, arguments.compile)
            record = measure(field, arguments.rounds, arguments.threads)
            about = [f"{table.id} {row.id}, budget {arguments.budget}", *arguments.set]
            record["title"] = " ".join(about + ["LocalRNN alone"] * arguments.local_rnn) + record["title"]
            names = [table.id, row.id, arguments.budget] + ["local-rnn"] * arguments.local_rnn
            path = folder / f"{'-'.join(names)}-{record['device']}.json"
            write_json(path, record)
            show(record)
            print(path)


def measure(field: list[Entry], rounds: int, threads: int) -> dict[str, Any]:
    """One shape: memory of each contender in a process of its own, then all of them timed in turn."""
    device = field[0].device
    memory = {entry.name: peak_memory(entry, threads) for entry in field}
    machine.keep_freed_memory()
    batch = field[0].batch()
    tokens = build.task(field[0].shape).tokens(build.like_real(field[0].shape, device))
    peaks = {"32": matrix_peak(device, torch.float32), "bf16": matrix_peak(device, torch.bfloat16)}
    rows = timed([entry.build() for entry in field], batch, tokens, rounds, device)
    reference = next((row for row, entry in zip(rows, field, strict=True) if entry.kind != "ours"), rows[0])
    for row, entry in zip(rows, field, strict=True):
        row["operations"] = operations(entry)
        row["ratio"] = round(row["tokens_per_second"] / reference["tokens_per_second"], 3)
        row["share_of_peak"] = round(row["operations"] / row["seconds"] / peaks[entry.precision], 3)
        row["peak_memory_bytes"] = memory[row["name"]]
    shape, in_steps = field[0].shape, {}
    if shape.model_card.code.startswith("highway.models.rhn") and device == "cpu":
        about = (shape.dataset.train.lanes, shape.model.width)
        in_steps = {"32": rate(torch.float32, *about), "bf16": rate(torch.bfloat16, *about)}
    return {
        "title": f": {tokens:,} tokens a step, {threads} threads, {device}",
        "reference": reference["name"],
        "device": device,
        "rounds": rounds,
        "matrix_peak": peaks,
        "step_peak": in_steps,
        "torch": torch.__version__,
        "rows": rows,
    }


def entries(words: list[str], device: str, compiled: bool) -> list[Entry]:
    plain = shape(words)
    gated = [shape([*words, f"gate={gate}"]) for gate in plain.model_card.timed]
    field: list[Entry] = []
    for precision in ("32", "bf16"):
        field += [Entry(precision, described, device) for described in (plain, *gated)]
        field += [Entry(precision, plain, device, compiled="default")] if compiled else []
        field += rivals(plain, precision, device)
    return field


def layers(words: list[str], device: str) -> list[Entry]:
    described = shape(words)
    if not getattr(described.model, "local_layers", 0):
        raise Refused(f"--local-rnn: this {described.model.name} has no LocalRNN; r_transformer has.")
    return [
        LayerAlone(precision, described, device, gathered=gathered)
        for precision in ("32", "bf16")
        for gathered in (False, True)
    ]


def shape(words: list[str]) -> Experiment:
    """The experiment with the vocabulary of its real data, whatever its budget reads."""
    described = composed([*words, "dataset.source=sample"])
    if sizes := getattr(described.dataset, "vocabulary", None):
        sizes.sample = sizes.files
    return described


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
    grid = Grid(box=SIMPLE_HEAD, title=record["title"], title_justify="left")
    grid.add_column("training step of", no_wrap=True)
    for head in ("tokens/s", "ratio", "spread", "MiB", "peak"):
        grid.add_column(head, justify="right", no_wrap=True)
    for row in record["rows"]:
        cells = [f"{row['tokens_per_second']:,.0f}", f"{row['ratio']:.2f}", f"{row['spread']:.0%}"]
        cells += [f"{row['peak_memory_bytes'] / 2**20:,.0f}", f"{row['share_of_peak']:.0%}"]
        grid.add_row(row["name"], *cells)
    Console().print(grid)
    peaks = ", ".join(f"{peak / 1e9:,.0f} GFLOP/s in {name}" for name, peak in record["matrix_peak"].items())
    print(f"ratio: to {record['reference']}; peak: share of one large matrix product in the same precision, {peaks}")
    by_name = {row["name"]: row for row in record["rows"]}
    for precision, peak in record["step_peak"].items():
        ours = by_name[f"ours, {precision}"]
        share = ours["operations"] / ours["seconds"] / peak
        print(f"one product of a step alone, {precision}: {peak / 1e9:,.0f} GFLOP/s; ours has {share:.0%} of it")
    for name, row in by_name.items():
        if "compiled" in name:
            print(f"{name}: the first step took {row['first_seconds']:.0f} s")
    for precision in record["matrix_peak"]:
        plain = by_name[f"ours, {precision}"]
        for name, gated in by_name.items():
            if name.startswith("ours with") and name.endswith(f", {precision}"):
                time, work = (gated[key] / plain[key] for key in ("seconds", "operations"))
                print(f"{name}: {time:.2f} times the time of ours for {work:.2f} times the operations")


if __name__ == "__main__":
    main()
