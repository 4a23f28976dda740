"""The keys of the groups optimizer, trainer, logger and debug."""

from dataclasses import dataclass
from typing import Any

from highway.config.fields import choice, key, number, part
from highway.errors import Refused

COMPILE_MODES = ("default", "reduce-overhead", "max-autotune")
CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")  # on a GPU these replay a step's kernels as CUDA graphs


@dataclass
class Plateau:
    """After epoch `after_epoch`: divide lr when the validation loss is above the worst of the last `window`."""

    after_epoch: int = number(5, 0)
    window: int = number(3, 1)
    divide_by: float = number(10.0, 1)
    strict: bool = key(True, "true: above; false: above or equal")


@dataclass
class Steps:
    every_epochs: int = number(10, 1)
    divide_by: float = number(10.0, 1)
    after_epoch: int = number(0, 0)


@dataclass
class Optimizer:
    name: str = choice("sgd", "adam")
    lr: float = number(1.0, 0)
    betas: list[float] = key([0.9, 0.999], read_when={"name": ("adam",)})
    epsilon: float = number(1e-8, 0, read_when={"name": ("adam",)})
    clip: float | None = number(None, 0, words="largest L2 norm of the gradient; null: none")
    weight_decay: float = number(0.0, 0, words="this / 2 times the sum of all squared weights is part of the loss")
    schedule: str = choice("constant", "plateau", "cosine", "inverse_square_root", "steps")
    warmup_steps: int = number(0, 0, read_when={"schedule": ("constant", "cosine", "inverse_square_root")})
    label_smoothing: float = number(0.0, 0, 0.999, words="of the training loss")
    plateau: Plateau = part(Plateau, read_when={"schedule": ("plateau",)})
    steps: Steps = part(Steps, read_when={"schedule": ("steps",)})

    def check(self) -> None:
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise Refused(f"optimizer.betas takes two numbers in [0, 1); it is {list(self.betas)}.")
        if self.schedule == "inverse_square_root" and self.warmup_steps == 0:
            raise Refused("optimizer.schedule=inverse_square_root needs optimizer.warmup_steps above 0.")


@dataclass
class Trainer:
    max_epochs: int = number(1, 1)
    max_steps: int | None = number(None, 1, words="stop at this step even inside an epoch; null: max_epochs decides")
    validate_every: int | None = number(None, 1, words="steps between validations; null: at the end of each epoch")
    test_curve: bool = key(False, "evaluate the test split with each validation, for its curve alone", aside=True)
    precision: str = choice("32", "bf16", "64", words="bf16: by autocast")
    accelerator: str = choice("auto", "cpu", "gpu", aside=True)
    devices: int = number(1, 1, words="each owns whole lanes, so the number does not change the experiment", aside=True)
    nodes: int = number(1, 1, words="machines, each with so many devices: srun starts a process for each", aside=True)
    accumulate: int = number(1, 1, words="parts that a batch is learnt in, one after another: less memory", aside=True)
    threads: int | None = number(
        None,
        1,
        1024,
        words="of the CPU, for each device; null: all cores (the launcher shares them out). Kept on every resume",
        aside=True,
    )
    deterministic: bool = key(
        False, "torch's deterministic algorithms; a kernel that has none is named in log.txt", aside=True
    )
    compile: str | None = key(
        None,
        "mode of torch.compile for training steps; null: none. true means default, false means null",
        options=COMPILE_MODES,
        aside=True,
    )
    evaluation_batch: int = number(16, 1, words="independent evaluation windows computed at once", aside=True)
    checkpoint_seconds: float = number(60.0, 0, words="how much work a kill may cost", aside=True)
    log_every: int = number(50, 1, words="steps between rows of the training curve", aside=True)
    diverged_above: float = number(
        50.0, 0, words="a mean training loss above this, or one that is no number, ends the run as diverged", aside=True
    )

    @staticmethod
    def spelled(values: dict[str, Any]) -> dict[str, Any]:
        """Return the values with `compile`, which used to be true or false, as a mode or null."""
        if isinstance(values.get("compile"), bool):
            return {**values, "compile": "default" if values["compile"] else None}
        return values

    def check(self) -> None:
        if self.compile in CUDA_GRAPH_MODES and self.accumulate > 1:
            raise Refused(
                f"trainer.compile={self.compile} keeps gradients in CUDA graphs, and the second of "
                f"trainer.accumulate={self.accumulate} parts would overwrite those of the first: "
                "use trainer.compile=default or trainer.accumulate=1."
            )

    @property
    def processes(self) -> int:
        """One a device, on all nodes."""
        return self.devices * self.nodes

    @property
    def processes_as_asked(self) -> str:
        return f"trainer.devices={self.devices}" + (f" on trainer.nodes={self.nodes}" if self.nodes > 1 else "")


@dataclass
class Logger:
    wandb: str | None = key(None, "null, offline or online: mirrors the curves to Weights & Biases")
    project: str = "highway"
    group: str | None = key(None, "a sweep sets this and the next: the table, and the row with its seed")
    run: str | None = None

    def check(self) -> None:
        if self.wandb not in (None, "offline", "online"):
            raise Refused(f"logger.wandb={self.wandb} is unknown; it takes null, offline or online.")


@dataclass
class Debug:
    """Ways of looking into a run. All but `trace` go to outputs/debug, begin anew each time, and are never a result."""

    trace: bool = key(False, "the stack trace beside the sentence")
    steps: int | None = number(None, 1, words="only so many updates")
    windows: int | None = number(None, 1, words="only so many windows of validation and test")
    overfit: bool = key(False, "the first batch again and again, for training, validation and test")
    profile: bool = key(False, "torch.profiler: a trace, and a table of the slowest operations")
    anomaly: bool = key(False, "names the operation whose gradient is not a number")

    @property
    def scratch(self) -> bool:
        return bool(self.steps or self.windows or self.overfit or self.profile or self.anomaly)
