"""The checks that `make gpu-check` does on a device, by name, in the order in which they run."""

import statistics
from collections.abc import Iterator
from functools import partial

import torch

from highway.bench.agreement import BOUNDS, Trace, trace, train, without_dropout
from highway.bench.checklist import Check, Failed, Setting
from highway.bench.device_runs import benchmark_at_four_shapes, cuda_tests, kill_and_resume, two_at_once
from highway.config.compose import experiment
from highway.config.experiment import Experiment
from highway.ledger.identity import identified
from highway.models import rhn
from highway.run import build, resources
from highway.run.compiled import compile_training
from highway.run.trial import Entry, seconds_of
from highway.sweep.reading import load_table, table_ids

SAME = BOUNDS["32"]  # same precision, other kernels: cuBLAS may choose others in a graph, the compiler fuses
COMPILED_ROWS = ("highway_t3 tanh", "highway_t5 tanh", "r_transformer_t3 r_transformer", "hsg_t1 hsg_10")


def rows_of(setting: Setting, budget: str) -> Iterator[tuple[str, Experiment]]:
    """Yield the name and experiment of every table row at this budget, on generated data, each configuration once."""
    seen = set()
    for table in map(load_table, setting.tables or table_ids()):
        for row in table.at(budget) if budget in table.budgets else ():
            described = experiment([*table.overrides(row, budget, seed=1), "dataset.source=sample"])
            if (setting.rows and row.id not in setting.rows) or identified(described) in seen:
                continue
            seen.add(identified(described))
            yield f"{table.id} {row.id}", described


def rows_agree(setting: Setting) -> list[str]:
    """Compare ten steps of every row on the device, in fp32, TF32 and bf16, with fp32 on the CPU."""
    lines = [
        "Relative differences to fp32 on the CPU: first loss, gradient (the middle of three), furthest loss of ten.",
        f"Bounds: {'; '.join(f'{name} {bound}' for name, bound in BOUNDS.items())}.",
        *("", "| row | fp32 | TF32 | bf16 |", "| --- | --- | --- | --- |"),
    ]
    wrong: list[str] = []
    for name, described in rows_of(setting, "smoke"):
        described = without_dropout(described)
        cells: list[str] = []
        try:
            reference = trace(described, "cpu", "32")
        except Exception as failure:
            wrong.append(f"{name} on the CPU ({type(failure).__name__})")
            continue
        for precision, bound in BOUNDS.items():
            try:
                apart = trace(described, setting.device, precision).apart(reference)
                ended, within = str(apart), apart.within(bound)
            except Exception as failure:
                ended, within = f"{type(failure).__name__}: {failure}".splitlines()[0].replace("|", "/"), False
            cells.append(ended if within else f"**{ended}**")
            wrong += [] if within else [f"{name} in {precision}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    if wrong:
        raise Failed(f"{len(wrong)} of these are out of bounds: {', '.join(wrong[:6])}", lines)
    return lines


def families(setting: Setting) -> dict[str, tuple[str, Experiment]]:
    """Return the first row of each model: model name -> (row name, experiment)."""
    first_rows: dict[str, tuple[str, Experiment]] = {}
    for name, described in rows_of(setting, setting.budget):
        first_rows.setdefault(described.model.name, (name, described))
    return first_rows


def shapes_of_the_papers(setting: Setting) -> list[str]:
    """Measure time and peak memory of a training step at the paper's shape, for one row of each model family."""
    lines = ["| model | row | ms a step | peak MiB |", "| --- | --- | ---: | ---: |"]
    wrong: list[str] = []
    for model, (name, described) in families(setting).items():
        try:
            cells = "{:.1f} | {}".format(*_time_and_memory(described, setting.device))
        except Exception as failure:
            wrong.append(name)
            cells = f"{type(failure).__name__}: {failure}".splitlines()[0].replace("|", "/") + " |"
        lines.append(f"| {model} | {name} | {cells} |")
    if wrong:
        raise Failed(f"no step of {', '.join(wrong)}", lines)
    return lines


def _time_and_memory(described: Experiment, device: str) -> tuple[float, str]:
    """Return the milliseconds of a step (median of five, after three to warm up) and the peak MiB of the device."""
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    entry = Entry("32", described, device)
    contender, batch = entry.build(), entry.batch()
    seconds = [seconds_of(partial(contender.step, batch), device) for _ in range(8)][3:]
    peak = f"{torch.cuda.max_memory_allocated() / 2**20:,.0f}" if device == "cuda" else "not measured"
    return 1000 * statistics.median(seconds), peak


def graphs_equal_eager(setting: Setting) -> list[str]:
    """Compare the loops of a recurrent highway network, recorded as CUDA graphs, with the same kernels one by one."""
    table = load_table("hsg_t1")
    lines, wrong = [], []
    for row in ("rhn_10", "hsg_10"):
        overrides = [*table.overrides(table.row(row), "smoke", seed=1), "dataset.source=sample"]
        described = without_dropout(experiment(overrides))
        apart = _steps(described, setting.device).apart(_steps(described, setting.device, in_graphs=False))
        lines.append(f"- {row}: {apart} (bounds {SAME})")
        wrong += [] if apart.within(SAME) else [row]
    if wrong:
        raise Failed(f"graphs give other numbers than their kernels one by one: {', '.join(wrong)}", lines)
    return lines


def compiled_equals_eager(setting: Setting) -> list[str]:
    """Compare ten steps of trainer.compile=reduce-overhead, whose CUDA graphs overwrite outputs, with eager steps."""
    lines, wrong = [], []
    for name in COMPILED_ROWS:
        table_id, row = name.split()
        table = load_table(table_id)
        described = without_dropout(
            experiment([*table.overrides(table.row(row), "smoke", seed=1), "dataset.source=sample"])
        )
        apart = _steps(described, setting.device, "reduce-overhead").apart(_steps(described, setting.device))
        lines.append(f"- {name}: {apart} (bounds {SAME})")
        wrong += [] if apart.within(SAME) else [name]
    if wrong:
        raise Failed(f"compiled steps give other numbers: {', '.join(wrong)}", lines)
    return lines


def _steps(described: Experiment, device: str, mode: str | None = None, in_graphs: bool = True) -> Trace:
    """Train ten steps on ten batches, carrying the state; in_graphs: CUDA graphs may record the recurrent loops."""
    resources.give_back_freed_memory()  # as in agreement.py
    torch.manual_seed(0)
    batches = [build.like_real(described, "cpu") for _ in range(10)]
    task = build.task(described).to(device).train()
    for module in task.modules():
        if isinstance(module, rhn.Layer):
            module.loop.in_graphs = in_graphs
    if mode:
        compile_training(task, described, mode)
    return train(task, batches, traced=1)  # the first step that continues from a state


CHECKS: dict[str, Check] = {
    "cuda tests": cuda_tests,
    "rows": rows_agree,
    "shapes of the papers": shapes_of_the_papers,
    "graphs": graphs_equal_eager,
    "kill and resume": kill_and_resume,
    "two at once": two_at_once,
    "compiled": compiled_equals_eager,
    "benchmark": benchmark_at_four_shapes,
}
