"""A cell: one experiment with one seed, and the directory that is its identity.

    outputs/cells/<model>-<hash12>/seed<k>/
        config.yaml  curves.csv  result.json  probes/  checkpoints/  log.txt  leases/

The hash covers every key whose value differs from the frozen schema_defaults.yaml, and the revisions
of the model, gate, data set and task. Left out: paths, logging, seeds (they have a folder of their own)
and everything that changes where or how fast a run goes, not what it computes.
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from highway.config import catalogue
from highway.config.schema import Experiment, ScoreGate
from highway.ledger.files import read_json, remove_leftovers
from highway.ledger.lease import HeldLease, Lease, leased

DEFAULTS_FILE = Path(__file__).with_name("schema_defaults.yaml")
WHERE_NOT_WHAT = {
    "trainer": (
        "accelerator",
        "devices",
        "threads",
        "compile",
        "evaluation_batch",
        "checkpoint_seconds",
        "log_every",
        "diverged_above",
    ),
    "dataset": ("vocabulary", "metric"),  # given by form and source, and checked when the data is read
}
DONE = ("finished", "diverged")
SECTIONS = ("model", "gate", "layers", "dataset", "optimizer", "trainer")


@cache
def frozen_defaults() -> dict[str, Any]:
    return yaml.safe_load(DEFAULTS_FILE.read_text())


def identity(experiment: Experiment) -> dict[str, Any]:
    """What makes this experiment what it is: the keys that differ from the frozen defaults, and the revisions."""
    keys: dict[str, Any] = {}
    for section in SECTIONS:
        values = _canonical(experiment, section)
        name = experiment.model.name if section == "model" else section
        if section == "dataset" and experiment.task != "language":
            name = f"dataset_{experiment.task}"
        differing = _difference(values, frozen_defaults()[name])
        if section == "model":
            differing["name"] = experiment.model.name
        if differing:
            keys[section] = differing
    return {"keys": keys, "revision": revisions(experiment)}


def cell_name(model: str, described: dict[str, Any]) -> str:
    content = json.dumps(described, sort_keys=True)
    return f"{model}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def identified(experiment: Experiment) -> str:
    """The name of the cell that an experiment is."""
    return cell_name(experiment.model.name, identity(experiment))


def revisions(experiment: Experiment) -> dict[str, int]:
    return named_revisions(
        {
            "model": catalogue.MODELS[experiment.model.name].revision,
            "gate": catalogue.GATES[experiment.gate.residual].revision,
            "score": catalogue.GATES[experiment.gate.score.name].revision,
            "dataset": catalogue.DATASETS[experiment.dataset.name].revision,
            "task": catalogue.TASK_REVISIONS[experiment.task],
        }
    )


def named_revisions(numbers: dict[str, int]) -> dict[str, int]:
    """As they stand in an identity: a gate's first revision is not named."""
    return {name: number for name, number in numbers.items() if name not in ("gate", "score") or number > 1}


def configuration(experiment: Experiment) -> dict[str, Any]:
    """Every value of a run, for config.yaml, without the folders of this machine."""
    values = dataclasses.asdict(experiment)
    return {key: value for key, value in values.items() if key not in ("data_dir", "outputs_dir")}


def _canonical(experiment: Experiment, section: str) -> dict[str, Any]:
    """A section's values, with different spellings of one experiment made the same."""
    values = dataclasses.asdict(getattr(experiment, section))
    for key in WHERE_NOT_WHAT.get(section, ()):
        values.pop(key, None)
    if "pieces" in values:
        values["pieces"] = list(experiment.dataset.vocabulary_sizes)
    gated = {name: list(experiment.gated(name)) for name in ("attention", "feed_forward")}
    if section == "layers":  # all, l1-3 and [1,2,3] are one choice for a model of three layers
        return {name: layers or "none" for name, layers in gated.items()}
    if section == "gate":
        values["score"] = _canonical_score(experiment.gate.score)
        if not any(gated.values()):  # a gate on no layer is no gate
            return {**frozen_defaults()["gate"], "score": values["score"]}
    return values


def _canonical_score(score: ScoreGate) -> dict[str, Any]:
    """Without what the gate does not read, and the kinds of attention in one order."""
    values, defaults = dataclasses.asdict(score), frozen_defaults()["gate"]["score"]
    read = {"none": (), "realformer": ("name", "predecessors", "accumulated", "attention")}.get(score.name, defaults)
    values = {key: values[key] if key in read else default for key, default in defaults.items()}
    if score.accumulated:
        values["predecessors"] = defaults["predecessors"]
    return {**values, "attention": [kind for kind in defaults["attention"] if kind in values["attention"]]}


def _difference(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    differing: dict[str, Any] = {}
    for key, value in values.items():
        default = defaults.get(key)
        if isinstance(value, dict):
            value, default = _difference(value, default or {}), {}
        if value != default:
            differing[key] = value
    return differing


@dataclass(frozen=True)
class Cell:
    directory: Path

    @classmethod
    def of(cls, experiment: Experiment) -> "Cell":
        kind = "debug" if experiment.debug.scratch else "cells"
        return cls(experiment.outputs_dir / kind / identified(experiment) / f"seed{experiment.seed}")

    @classmethod
    def of_timing(cls, rows: Sequence[Experiment], surroundings: dict[str, Any]) -> "Cell":
        """Rows that are timed together: their identities, and what else the time of a step depends on."""
        described = {"rows": sorted(map(identified, rows)), "revision": catalogue.TIMING_REVISION, **surroundings}
        return cls(rows[0].outputs_dir / "cells" / cell_name("timing", described) / f"seed{rows[0].seed}")

    @property
    def name(self) -> str:
        return self.directory.parent.name

    @property
    def config(self) -> Path:
        return self.directory / "config.yaml"

    @property
    def log(self) -> Path:
        return self.directory / "log.txt"

    @property
    def curves(self) -> Path:
        return self.directory / "curves.csv"

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoints" / "resume.ckpt"

    @property
    def best(self) -> Path:
        return self.directory / "checkpoints" / "best.safetensors"

    @property
    def last(self) -> Path:
        return self.directory / "checkpoints" / "last.safetensors"

    @property
    def leases(self) -> Path:
        return self.directory / "leases"

    def leased(self) -> AbstractContextManager[HeldLease]:
        """Only one process at a time runs a cell, on this machine or on another that shares the folder."""
        return leased(self.leases)

    def begin(self) -> None:
        """What an earlier start left behind that this one would contradict: how it ended, files half written."""
        (self.directory / "result.json").unlink(missing_ok=True)
        for folder in (self.directory, self.checkpoint.parent, self.leases):
            remove_leftovers(folder)

    def result(self) -> dict[str, Any] | None:
        path = self.directory / "result.json"
        return read_json(path) if path.exists() else None

    @property
    def status(self) -> str:
        """waiting, running, interrupted, failed, diverged or finished."""
        result = self.result()
        if result is not None and result["status"] in DONE:
            return result["status"]
        lease = Lease.latest(self.leases)
        if lease is not None and lease.alive:
            return "running"
        if result is not None:
            return result["status"]
        killed = lease is not None and not lease.ended
        return "interrupted" if killed or self.checkpoint.exists() else "waiting"

    @property
    def progress(self) -> dict[str, Any]:
        """How far a running cell is, as its lease says."""
        lease = Lease.latest(self.leases)
        return lease.progress if lease is not None else {}

    @property
    def done(self) -> bool:
        """Nothing is left to run: a second run would give the same again."""
        return self.status in DONE
