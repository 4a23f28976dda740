"""The identity of an experiment, from which the directory of its runs gets its name.

The hash covers every key whose value differs from its neutral default, the revisions of model, gates, data set and
task, and the declared checksums of the user's own data. It leaves out paths, logging, seeds (each has a folder) and
keys without effect. It also leaves out keys declared `unhashed`: they change where or how fast a run computes, but not
its result.
"""

import dataclasses
import hashlib
import json
from typing import Any

from highway.config.experiment import Experiment
from highway.config.fields import canonical, differing_by_task, is_unhashed, neutral, unread
from highway.config.gates import GATES, GateOptions
from highway.config.sections import kinds_of

PARTS = ("model", "gate", "layers", "dataset", "optimizer", "trainer")


def identity(experiment: Experiment) -> dict[str, Any]:
    """Return the keys that differ from the neutral defaults, the revisions, and the checksums of the user's data."""
    keys: dict[str, Any] = {}
    for name in PARTS:
        section = getattr(experiment, name)
        differing = _difference(_spelled(experiment, name), neutral(type(section)))
        differing |= differing_by_task(section, experiment.task_card)
        if name == "model":
            differing["name"] = experiment.model.name
        if differing:
            keys[name] = differing
    described = {"keys": keys, "revision": named_revisions(experiment.revisions())}
    if experiment.dataset.source == "files" and (checksums := experiment.dataset_card.checksums):
        described["checksums"] = checksums
    return described


def identified(experiment: Experiment) -> str:
    """Return the name of the folder of an experiment's runs: the model and 12 digits of the hash of its identity."""
    content = json.dumps(identity(experiment), sort_keys=True)
    return f"{experiment.model.name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def named_revisions(numbers: dict[str, int]) -> dict[str, int]:
    """Return the revisions that enter an identity: all except the first revision of a gate."""
    return {name: number for name, number in numbers.items() if name not in ("gate", *GATES) or number > 1}


def configuration(experiment: Experiment) -> dict[str, Any]:
    """Return every value of a run, for config.yaml, without the folders of this machine."""
    values = dataclasses.asdict(experiment)
    return {key: value for key, value in values.items() if key not in ("data_dir", "outputs_dir")}


def changes_nothing(key: str) -> bool:
    """Return True if an override of this key never changes the identity of a run."""
    section, *path = key.split(".")
    if section not in PARTS:
        return section in ("logger", "debug", "hydra", "data_dir", "outputs_dir")
    return any(is_unhashed(kind, path) for kind in kinds_of(section))


def ignored(experiment: Experiment, override: str) -> bool:
    """Return True if nothing reads the key of an override under this configuration, as the strength of no gate."""
    name, *path = override.split("=", 1)[0].lstrip("+~").split(".")
    if name not in PARTS or not path:
        return False
    if name == "gate" and path[0] not in ("score", "state") and not any(experiment.gating.layers.values()):
        return path != ["residual"]  # it says that there is no gate
    section = getattr(experiment, name)
    for key in path:
        if dataclasses.is_dataclass(section):
            if key in unread(section):
                return True
            section = getattr(section, key, None)
    return False


def _spelled(experiment: Experiment, name: str) -> dict[str, Any]:
    """Return the values of a section, equal for all spellings of an experiment."""
    gated = experiment.gating.layers
    if name == "layers":  # all, l1-3 and [1,2,3] are one choice for a model of three layers
        return {
            **neutral(type(experiment.layers)),
            **{location: list(layers) or "none" for location, layers in gated.items()},
        }
    values = canonical(getattr(experiment, name))
    if name == "gate" and not any(gated.values()):  # a gate on no layer is no gate
        return {**neutral(GateOptions), **{interface: values[interface] for interface in ("score", "state")}}
    return values


def _difference(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    differing: dict[str, Any] = {}
    for key, value in values.items():
        default = defaults.get(key)
        if isinstance(value, dict):
            value, default = _difference(value, default or {}), {}
        if value != default:
            differing[key] = value
    return differing
