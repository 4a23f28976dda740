"""The processes of one run, one a device: who starts them, and which of them is the first."""

import os

from pytorch_lightning.plugins.environments import ClusterEnvironment, LightningEnvironment, SLURMEnvironment

from highway.config.training import Trainer
from highway.errors import Refused


def started_by_srun() -> int:
    """How many srun has started, of which this is one; a job's shell, in which everything else is set, is none."""
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) if "SLURM_STEP_ID" in os.environ else 1


def first_process() -> bool:
    """Whether this one keeps the record; Lightning and torchrun set their variables before they start the others."""
    if started_by_srun() > 1:
        return os.environ["SLURM_PROCID"] == "0"
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0


def environment(trainer: Trainer) -> ClusterEnvironment:
    """Lightning would take any shell on a cluster for srun's, and requeue the job by itself; so it is told."""
    tasks = started_by_srun()
    if tasks > 1 and tasks != trainer.processes:
        raise Refused(f"srun has started {tasks} processes, {trainer.processes_as_asked} takes {trainer.processes}.")
    if tasks > 1:
        return SLURMEnvironment(auto_requeue=False)
    if trainer.nodes > 1 and "RANK" not in os.environ:
        raise Refused(
            f"trainer.nodes={trainer.nodes}, but this process is alone: hydra/launcher=slurm starts them all, or srun "
            "--nodes and --ntasks-per-node."
        )
    return LightningEnvironment()
