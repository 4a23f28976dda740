"""Training speed against public implementations, in one run:  python scripts/benchmark.py highway_t1 [--rounds 5]"""

import argparse
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from highway import machine
from highway.bench.contenders import Entry
from highway.bench.timing import matrix_peak, peak_memory, step_operations, timed
from highway.cli import one_sentence
from highway.files import write_json
from highway.sweep.table import load_table

REFERENCE = "torch.nn.TransformerEncoder, 32"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", metavar="TABLE")
    parser.add_argument("--budget", default="paper")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--compile", action="store_true", help="time our model compiled as well")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(arguments.threads)
    with one_sentence():
        table = load_table(arguments.table)
        words = tuple(table.overrides(table.rows[0], arguments.budget, seed=1))
        field = entries(words, device, arguments.compile)
        memory = {entry.name: peak_memory(entry, arguments.threads) for entry in field}
        machine.keep_freed_memory()
        batch = field[0].batch()
        rows = timed([entry.build() for entry in field], batch, arguments.rounds, device)
        peak = matrix_peak(device, torch.float32)
        model = field[0].shape().model
        reference = next(row["tokens_per_second"] for row in rows if row["name"] == REFERENCE)
        for row in rows:
            operations = step_operations(row["parameters"], model.layers, model.width, batch)
            row["ratio"] = round(row["tokens_per_second"] / reference, 3)
            row["share_of_fp32_peak"] = round(operations / row["seconds"] / peak, 3)
            row["peak_memory_bytes"] = memory[row["name"]]
        shape = f"{batch.inputs.shape[0]} x {batch.inputs.shape[1]} tokens"
        title = f"{arguments.table}, budget {arguments.budget}: {shape}, {arguments.threads} threads, {device}"
        show(rows, title)
        print(f"one large fp32 matrix product: {peak / 1e9:,.0f} GFLOP/s; ratios are to {REFERENCE}")
        folder = Path(os.environ.get("HIGHWAY_OUTPUTS", "outputs")) / "bench"
        path = folder / f"{arguments.table}-{arguments.budget}-{device}.json"
        write_json(path, {"title": title, "fp32_peak": peak, "torch": torch.__version__, "rows": rows})
        print(path)


def entries(words: tuple[str, ...], device: str, compiled: bool) -> list[Entry]:
    public = ["torch.nn.TransformerEncoder", *(["x-transformers"] if find_spec("x_transformers") else [])]
    field = []
    for precision in ("32", "bf16"):
        field += [Entry("ours", precision, words, device), Entry("ours", precision, (*words, "gate=sdu_tanh"), device)]
        field += [Entry("ours", precision, words, device, compiled=True)] if compiled else []
        field += [Entry(kind, precision, words, device) for kind in public]
    return field


def show(rows: list[dict[str, Any]], title: str) -> None:
    grid = Table(box=SIMPLE_HEAD, title=title, title_justify="left")
    grid.add_column("training step of", no_wrap=True)
    for head in ("tokens/s", "ratio", "spread", "MiB", "of peak"):
        grid.add_column(head, justify="right")
    for row in rows:
        cells = [f"{row['tokens_per_second']:,.0f}", f"{row['ratio']:.2f}", f"{row['spread']:.0%}"]
        cells += [f"{row['peak_memory_bytes'] / 2**20:,.0f}", f"{row['share_of_fp32_peak']:.0%}"]
        grid.add_row(row["name"], *cells)
    Console().print(grid)


if __name__ == "__main__":
    main()
