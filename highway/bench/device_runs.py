"""Check a device with real runs, started as a user would: highway train, highway benchmark and pytest."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

from highway.bench.checklist import Failed, Setting
from highway.config.compose import experiment
from highway.ledger.directory import RunDirectory

ROOT = Path(__file__).parents[2]
FOUR_SHAPES = ("highway_t3", "highway_t5", "r_transformer_t3", "hsg_t1")
RUN = (  # overrides of a run that a kill can hit between two checkpoints, and that takes seconds
    *("budget=smoke", "dataset=ptb_char", "gate=sdu_tanh", "model.width=64", "model.heads=4", "model.feed_forward=128"),
    *("dataset.train={lanes:16,window:80,stride:80,scored:80}", "trainer.max_epochs=1", "trainer.max_steps=60"),
    *("dataset.evaluation={lanes:40,window:80,stride:80,scored:80}", "trainer.validate_every=30"),
    *("trainer.checkpoint_seconds=0", "trainer.threads=1", "trainer.deterministic=true"),
)
NAMED = re.compile(r"(\S+) does not have a deterministic implementation")
BOUND = 1e-3  # relative difference of weights that is allowed if a kernel is not deterministic


def cuda_tests(setting: Setting) -> list[str]:
    """Run the tests marked cuda."""
    output = _finished([sys.executable, "-m", "pytest", "-q", "-m", "cuda", "-p", "no:cacheprovider", "tests"], setting)
    last = output.strip().splitlines()[-1]
    if re.search(r"skipped", last) and not re.search(r"\d+ passed", last):
        raise Failed(f"every test was skipped: {last}")
    return [last]


def benchmark_at_four_shapes(setting: Setting) -> list[str]:
    """Run `highway benchmark` at the shapes of four tables."""
    lines, wrong = [], []
    for table in FOUR_SHAPES:
        arguments = [table, "--budget", setting.budget, "--rounds", "3"]
        try:
            output = _finished([sys.executable, "-m", "highway", "benchmark", *arguments], setting)
        except Failed as failure:
            wrong.append(f"{table} ({failure.reason})")
            output = "\n".join(failure.lines)
        printed = (line.replace(str(setting.folder), "OUTPUTS") for line in output.strip().splitlines())
        lines += ["", f"{table}:", "```", *printed, "```"]
    if wrong:
        raise Failed(f"no figures of {'; '.join(wrong)}", lines)
    return lines


def kill_and_resume(setting: Setting) -> list[str]:
    """Check that a run killed with SIGKILL and resumed ends with the weights of an undisturbed run, bit for bit."""
    whole, printed = run_alone(setting, "whole", 1)
    killed = start(setting, "killed", 1)
    directory = directory_of(setting, "killed", 1)
    deadline = time.monotonic() + 120
    while killed.poll() is None and not directory.checkpoints and time.monotonic() < deadline:
        time.sleep(0.02)
    was_running = killed.poll() is None
    killed.kill()
    killed.communicate()
    if not was_running:
        raise Failed("the run ended before it could be killed")
    resumed, printed_later = run_alone(setting, "killed", 1)
    return compared(whole, resumed, printed + printed_later, "the resumed run")


def two_at_once(setting: Setting) -> list[str]:
    """Check that the first of two runs at the same time on the device ends with the weights that it has alone."""
    alone, printed = run_alone(setting, "alone", 1)
    processes = {seed: start(setting, "together", seed) for seed in (1, 2)}
    for seed, process in processes.items():
        output = process.communicate()[0]
        printed += output
        if process.returncode:
            raise Failed(f"seed {seed} ended with exit code {process.returncode}", _end_of(output))
    return compared(alone, directory_of(setting, "together", 1), printed, "the run beside another")


def compared(expected: RunDirectory, actual: RunDirectory, printed: str, which: str) -> list[str]:
    """Check that weights are equal bit for bit, or within BOUND if torch named a kernel that is not deterministic."""
    weights, others = load_file(expected.last), load_file(actual.last)
    if all(torch.equal(weights[name], others[name]) for name in weights):
        return ["Weights are equal, bit for bit."]
    apart = max(float((others[name] - weights[name]).norm() / weights[name].norm().clamp(min=1e-6)) for name in weights)
    kernels = sorted(set(NAMED.findall(printed)))
    lines = [f"Kernels without a deterministic implementation: {', '.join(kernels) or 'none named by torch'}."]
    lines.append(f"Largest relative difference of a parameter: {apart:.1e}; bound {BOUND:g} with such a kernel.")
    if not kernels or apart > BOUND:
        raise Failed(f"{which} has other weights, by {apart:.1e}", lines)
    return lines


def overrides(setting: Setting, folder: str, seed: int) -> list[str]:
    accelerator = "gpu" if setting.device == "cuda" else "cpu"
    added = [f"outputs_dir={setting.folder / folder}", "dataset.source=sample"]
    return [*RUN, f"seed={seed}", f"trainer.accelerator={accelerator}", *added]


def directory_of(setting: Setting, folder: str, seed: int) -> RunDirectory:
    return RunDirectory.of(experiment(overrides(setting, folder, seed)))


def start(setting: Setting, folder: str, seed: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "highway", "train", *overrides(setting, folder, seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_surroundings())


def run_alone(setting: Setting, folder: str, seed: int) -> tuple[RunDirectory, str]:
    """Train a run with nothing beside it. Return the run and what it printed."""
    process = start(setting, folder, seed)
    printed = process.communicate()[0]
    if process.returncode:
        raise Failed(f"a run ended with exit code {process.returncode}", _end_of(printed))
    return directory_of(setting, folder, seed), printed


def _finished(command: list[str], setting: Setting) -> str:
    surroundings = {**_surroundings(), "HIGHWAY_OUTPUTS": str(setting.folder)}
    ended = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True)
    printed = ended.stdout + ended.stderr
    if ended.returncode:
        raise Failed(f"{Path(command[1]).name or command[2]} ended with exit code {ended.returncode}", _end_of(printed))
    return printed


def _surroundings() -> dict[str, str]:
    paths = (str(ROOT), os.environ.get("PYTHONPATH"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def _end_of(printed: str) -> list[str]:
    return ["```", *printed.replace(str(ROOT), ".").strip().splitlines()[-15:], "```"]
