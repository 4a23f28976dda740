"""The processes of a run, one per device: who starts them, and which one is the first."""

import os

from pytorch_lightning.plugins.environments import ClusterEnvironment, LightningEnvironment, SLURMEnvironment

from highway.config.training import Trainer
from highway.errors import Refused
from highway.ledger.machine import UNSET, rank


def started_by_srun() -> int:
    """Return how many processes srun started, this one included; 1 if srun did not start it.

    The shell of a Slurm job has the other variables of Slurm, but no SLURM_STEP_ID.
    """
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) if "SLURM_STEP_ID" in os.environ else 1


def first_process() -> bool:
    """Return whether this process keeps the record.

    This project and torchrun set RANK or LOCAL_RANK for the processes that they start, and MASTER_ADDR with it.
    """
    if started_by_srun() > 1:
        return os.environ["SLURM_PROCID"] == "0"
    return rank() == 0


def environment(trainer: Trainer) -> ClusterEnvironment:
    """Return Lightning's environment. Lightning itself takes any shell on a cluster for srun's, and requeues jobs."""
    tasks = started_by_srun()
    if trainer.processes == 1 and not first_process():
        raise Refused(f"{trainer.processes_as_asked} takes one process, but this one has the rank of another. {UNSET}")
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
