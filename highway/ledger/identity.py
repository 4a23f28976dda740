"""The identity of an experiment, from which the directory of its runs gets its name.

The hash covers every key whose value differs from its neutral default, the revisions of all cards that the run uses,
and the declared checksums of the user's own data. It leaves out paths, logging, seeds (each has a folder), keys
that nothing reads, and keys declared with names_run=False: they change where or how fast a run computes, but not its
result.
"""

import hashlib
import json
from typing import Any

from highway.cards.gates import GateOptions
from highway.cards.optimisers import SCHEDULE_KEYS
from highway.config.experiment import CARDS, Experiment, Folders, kinds_of
from highway.keys.schema import Written, declared, fields_on, unread

PARTS = ("model", "gate", "layers", "dataset", "task", "optimizer", "schedule", "callback", "trainer")


def identity(experiment: Experiment) -> dict[str, Any]:
    """Return the keys that differ from the neutral defaults, the revisions, and the checksums of the user's data."""
    keys: dict[str, Any] = {}
    for name in PARTS:
        defaults = _defaults(name, getattr(experiment, name))
        if name == "gate":
            for interface in ("score", "state"):
                defaults[interface] = _defaults(f"gate.{interface}", getattr(experiment.gate, interface))
        if name == "trainer":
            defaults["diverged_above"] = experiment.task_card.diverged_above
        differing = _difference(_spelled(experiment, name), defaults)
        if name == "model":
            differing["name"] = experiment.model.name
        if differing:
            keys[name] = differing
    described = {"keys": keys, "revision": named_revisions(experiment.revisions())}
    if experiment.dataset.source == "files" and (checksums := experiment.dataset_card.checksums):
        described["checksums"] = checksums
    return described


def _defaults(name: str, section: Written) -> dict[str, Any]:
    """Return the neutral defaults of a section. The default card is the same for all cards of its kind."""
    defaults = neutral(type(section))
    if name in CARDS:
        shared, key, _ = CARDS[name]
        defaults[key] = shared.model_fields[key].default
    return defaults


def identified(experiment: Experiment) -> str:
    """Return the name of the folder of an experiment's runs: the model and 12 digits of the hash of its identity."""
    content = json.dumps(identity(experiment), sort_keys=True)
    return f"{experiment.model.name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def named_revisions(numbers: dict[str, int]) -> dict[str, int]:
    """Return the revisions that enter an identity: those of model, data set and task, and all above the first."""
    return {name: number for name, number in numbers.items() if name in ("model", "dataset", "task") or number > 1}


def configuration(experiment: Experiment) -> dict[str, Any]:
    """Return every value of a run, for config.yaml, without the folders of this machine."""
    return experiment.model_dump(exclude={*Folders.model_fields})


def neutral(kind: type[Written]) -> dict[str, Any]:
    """Return the neutral defaults of the keys of a section that name a run."""
    return _read(kind())


def names_run(key: str) -> bool:
    """Return True if an override of this key may change the identity of a run."""
    section, *path = key.split(".")
    if section not in PARTS:
        return section not in ("logger", "debug", "hydra", "data_dir", "outputs_dir")
    fields = [field for kind in kinds_of(section) for field in fields_on(kind, path)]
    return all(declared(field, "names_run") for field in fields)


def is_unread(experiment: Experiment, override: str) -> bool:
    """Return True if nothing reads the key of an override under this configuration, as the strength of no gate."""
    name, *path = override.split("=", 1)[0].lstrip("+~").split(".")
    if name not in PARTS or not path:
        return False
    if name == "gate" and path[0] not in ("score", "state") and not any(experiment.gating.layers.values()):
        return path != ["residual"]  # it says that there is no gate
    if name == "optimizer" and path[0] in SCHEDULE_KEYS and experiment.schedule.name != "default":
        return True
    section = getattr(experiment, name)
    for key in path:
        if isinstance(section, Written):
            if key in unread(section):
                return True
            section = getattr(section, key, None)
    return False


def _spelled(experiment: Experiment, name: str) -> dict[str, Any]:
    """Return the values of a section, equal for all spellings of an experiment."""
    gated = experiment.gating.layers
    section = getattr(experiment, name)
    if name == "layers":  # all, l1-3 and [1,2,3] are one choice for a model of three layers
        return {**neutral(type(section)), **{location: list(layers) or "none" for location, layers in gated.items()}}
    values = _read(section)
    if name == "task" and section.name == experiment.dataset_card.task:
        values["name"] = "default"
    if name == "gate" and not any(gated.values()):  # a gate on no layer is no gate
        return {**neutral(GateOptions), **{interface: values[interface] for interface in ("score", "state")}}
    return section.spelled(values) if hasattr(section, "spelled") else values


def _read(section: Written) -> dict[str, Any]:
    """Return the values of the keys that name a run; a key that nothing reads has its default."""
    values: dict[str, Any] = {}
    defaults, idle = type(section)(), unread(section)
    for name, field in type(section).model_fields.items():
        if not declared(field, "names_run"):
            continue
        value = getattr(defaults if name in idle else section, name)
        if isinstance(value, Written):
            value = _read(value)
        elif members := declared(field, "members"):
            value = [member for member in members if member in value]
        values[name] = value
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
