"""The keys of the groups trainer, logger and debug."""

from highway.errors import Refused
from highway.keys.schema import Text, Written, choice, key, number

CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune", "whole")  # on a GPU these replay kernels as CUDA graphs
COMPILE_MODES = ("auto", "default", *CUDA_GRAPH_MODES)


class Trainer(Written):
    max_epochs: int = number(1, 1, description="epochs to train")
    max_steps: int | None = number(
        None, 1, description="stop at this step even inside an epoch; null: max_epochs decides"
    )
    validate_every: int | None = number(
        None, 1, description="steps between validations; null: at the end of each epoch"
    )
    test_curve: bool = key(
        False, "evaluate the test split with each validation, only to record its curve", names_run=False
    )
    precision: Text = choice("32", "bf16", "64", description="32: float32; bf16: bfloat16 by autocast; 64: float64")
    accelerator: str = choice(
        "auto", "cpu", "gpu", description="kind of device; auto: a GPU if there is one", names_run=False
    )
    devices: int = number(
        1, 1, description="devices; each has whole lanes, so the number does not change the experiment", names_run=False
    )
    nodes: int = number(
        1,
        1,
        description="machines, each with trainer.devices devices; srun starts a process for each device",
        names_run=False,
    )
    accumulate: int = number(
        1, 1, description="parts of a batch that are computed one after another; saves memory", names_run=False
    )
    threads: int | None = number(
        None,
        1,
        1024,
        description="CPU threads for each device; null: all cores (a launcher divides them). A resumed run keeps it",
        names_run=False,
    )
    deterministic: bool = key(
        False, "torch's deterministic algorithms; a kernel that has none is named in log.txt", names_run=False
    )
    compile: str | None = key(
        "auto",
        "mode of torch.compile for training steps; auto: as device, length and batches allow; null: none; "
        "whole: a whole update as one CUDA graph",
        options=COMPILE_MODES,
        names_run=False,
    )
    evaluation_batch: int = number(
        16, 1, description="independent evaluation windows that are computed at once", names_run=False
    )
    checkpoint_seconds: float = number(
        60.0, 0, description="seconds between checkpoints, and so the work that a kill may cost", names_run=False
    )
    log_every: int = number(50, 1, description="steps between rows of the training curve", names_run=False)
    diverged_above: float = number(
        50.0, 0, description="a mean training loss above this, or not a number, ends the run as diverged"
    )  # its neutral default is that of the task's card

    def check(self) -> None:
        if self.compile in CUDA_GRAPH_MODES and self.accumulate > 1:
            raise Refused(
                f"trainer.compile={self.compile} keeps gradients in CUDA graphs, and the second of "
                f"trainer.accumulate={self.accumulate} parts would overwrite those of the first: "
                "use trainer.compile=default or trainer.accumulate=1."
            )

    @property
    def less_memory(self) -> str:
        """The overrides that need less memory, as a message says them."""
        parts = self.accumulate + 1
        graphs = " trainer.compile=default" if self.compile in CUDA_GRAPH_MODES else ""
        return f"type trainer.accumulate={parts}{graphs} to compute each batch in {parts} parts"

    @property
    def processes(self) -> int:
        """The number of processes on all nodes, one for each device."""
        return self.devices * self.nodes

    @property
    def processes_as_asked(self) -> str:
        """The overrides that set the number of processes, for messages."""
        return f"trainer.devices={self.devices}" + (f" on trainer.nodes={self.nodes}" if self.nodes > 1 else "")


NOT_IN_A_PROJECT = "/\\#?%:"  # W&B refuses these characters, but only when a run begins


class Logger(Written):
    wandb: str | None = key(
        None, "mirrors the curves to Weights & Biases; null: nothing is sent", options=("offline", "online")
    )
    project: Text = key("highway", "project on Weights & Biases")
    group: Text | None = key(None, "group on Weights & Biases; a sweep sets it to the table")
    run: Text | None = key(None, "name on Weights & Biases; a sweep sets it to the row with its seed")

    def check(self) -> None:
        if not self.project or set(self.project) & set(NOT_IN_A_PROJECT):
            raise Refused(f"logger.project={self.project} cannot name a W&B project: it has one of {NOT_IN_A_PROJECT}.")


class Debug(Written):
    """Ways to inspect a run. All except `trace` write to outputs/debug, start afresh each time and yield no result."""

    trace: bool = key(False, "show the stack trace beside the message")
    steps: int | None = number(None, 1, description="stop after this many updates")
    windows: int | None = number(None, 1, description="evaluate only this many windows of validation and test")
    overfit: bool = key(False, "use the first batch again and again, for training, validation and test")
    profile: bool = key(False, "run torch.profiler: write a trace and a table of the slowest operations")
    anomaly: bool = key(False, "name the operation whose gradient is not a number")

    @property
    def scratch(self) -> bool:
        """True if the run is for inspection only."""
        return bool(self.steps or self.windows or self.overfit or self.profile or self.anomaly)
