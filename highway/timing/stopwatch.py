"""Run training steps outside Lightning, and measure their time, memory and floating-point operations."""

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_all_start_methods, get_context
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from highway.config.experiment import Experiment
from highway.run import build, resources
from highway.run.compiled import compile_training
from highway.run.whole import WARM_UP, WholeUpdates

FIRST_STEPS = WARM_UP + 3  # untimed steps of a compiled model: without a state, then compiling, recording, replaying


@dataclass(frozen=True)
class Contender:
    """A model that can be timed: its loss on a batch, and its training step."""

    name: str
    objective: Callable[[Any], Tensor]  # batch -> loss
    step: Callable[[Any], Tensor]  # batch -> loss, after which the weights are updated
    parameters: int


@dataclass(frozen=True)
class Entry:
    """A contender that is not built yet, so that another process can build it. This class is for our own models."""

    precision: str  # 32 | bf16
    shape: Experiment
    device: str
    compiled: str | None = None  # a mode of torch.compile

    @property
    def kind(self) -> str:
        return "ours"

    @property
    def name(self) -> str:
        whole = " as one graph" if self.compiled == "whole" else ""
        return f"{self.kind}{self._gates()}{whole}, {self.precision}"

    def _gates(self) -> str:
        gates = []
        for interface, name in self.shape.gate.chosen().items():
            psi = self.shape.gate.activation_of(interface)
            gates += [] if name == "none" else [f"{psi} {name}" if psi else name]
        return f" with {' and '.join(gates)}" if gates else ""

    def batch(self) -> Any:
        return build.like_real(self.shape, self.device)

    def task(self) -> Any:
        return build.task(self.shape)

    def build(self) -> Contender:
        task = self.task().to(self.device).train()
        if self.compiled:
            compile_training(task, self.shape, self.compiled)
        optimizer = task.configure_optimizers()

        def objective(batch: Any) -> Tensor:
            if task.replays:
                torch.compiler.cudagraph_mark_step_begin()
            return task.learn(batch).objective

        plain = self.contender(task, objective, optimizer, task.prepare_gradients)
        if self.compiled != "whole":
            return plain
        whole = WholeUpdates(task, lambda: optimizer)

        def step(batch: Any) -> Tensor:
            with torch.autocast(self.device, torch.bfloat16, self.precision == "bf16", cache_enabled=False):
                return whole(batch)["nats"] if whole.fits(batch) else plain.step(batch)

        return replace(plain, step=step)

    def contender(
        self,
        module: nn.Module,
        objective: Callable[[Any], Tensor],
        optimizer: torch.optim.Optimizer,
        prepare_gradients: Callable[[], Any],
    ) -> Contender:
        def forward(batch: Any) -> Tensor:
            kind = "cpu" if self.device == "meta" else self.device
            with torch.autocast(kind, torch.bfloat16, enabled=self.precision == "bf16"):
                return objective(batch)

        def step(batch: Any) -> Tensor:
            loss = forward(batch)
            optimizer.zero_grad()
            loss.backward()
            prepare_gradients()
            optimizer.step()
            return loss.detach()

        parameters = sum(parameter.numel() for parameter in module.parameters())
        return Contender(self.name, forward, step, parameters)


def operations(entry: Entry) -> float:
    """Count the floating-point operations of the products in one training step, on a model without storage."""
    entry = replace(entry, device="meta")
    with torch.device("meta"):
        contender, batch = entry.build(), entry.batch()
        with FlopCounterMode(display=False) as counter:
            contender.objective(batch).backward()
    return float(counter.get_total_flops())


def peak_memory(entry: Entry, threads: int) -> int:
    """Return the peak bytes of two steps: of the device on CUDA, otherwise of their own process, Python included."""
    with own_process() as pool:
        return pool.submit(_peak_of_two_steps, entry, threads).result()


def own_process() -> ProcessPoolExecutor:
    """Return a pool of one new process, whose memory goes back to the system when the pool shuts down.

    The process is forked from a server that has imported torch and done nothing else, if the system has such servers.
    A result of the pool raises BrokenProcessPool if the system kills the process.
    """
    method = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
    context: Any = get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["highway.timing.stopwatch", "highway.tasks.task"])
    return ProcessPoolExecutor(1, mp_context=context)


def _peak_of_two_steps(entry: Entry, threads: int) -> int:
    torch.set_num_threads(threads)
    contender, batch = entry.build(), entry.batch()
    contender.step(batch)
    contender.step(batch)
    return resources.peak_memory_bytes()


def seconds_of(work: Callable[[], Any], device: str) -> float:
    """Return the seconds that a call of `work` takes."""
    if device == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1000
    before = time.perf_counter()
    work()
    return time.perf_counter() - before
