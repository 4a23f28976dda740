"""Check a composed Hydra configuration: an `Experiment`, or one sentence that says what is wrong."""

import copy
import dataclasses
import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_origin

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

from highway.config.datasets import DATASETS
from highway.config.experiment import Experiment
from highway.config.fields import declared, options_of
from highway.config.gates import GATES
from highway.config.guard import check_hydra
from highway.config.models import MODELS, Remembers
from highway.config.sections import ROOT, SECTIONS, SWEEP_ONLY
from highway.config.tasks import TASKS
from highway.errors import Refused, as_typed, closest, listing

DESCRIBED = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", type(None): "null"}
LARGEST_SEED = 2**63 - 1  # the largest that torch takes
LARGEST = 2**31 - 1  # the largest whole number of any key
READS = {"sequence": "one text", "pair": "a source and its target"}


def check(config: DictConfig) -> Experiment:
    """Return the configuration as typed objects. Raise `Refused` with one sentence if anything in it is wrong."""
    for key in config:
        if key not in (*ROOT, *SWEEP_ONLY, "hydra"):
            raise Refused(f"'{key!s}' is not a key of the configuration.{closest(str(key), list(ROOT))}")
    if "hydra" in config:
        check_hydra(config.hydra)
    for key in SWEEP_ONLY:
        if config.get(key):
            raise Refused(f"{key}=... belongs to a sweep: add -m, as in highway train -m table=highway_t1.")
    sections: dict[str, Any] = {name: _section(config, name, kind) for name, kind in _kinds(config).items()}
    experiment = Experiment(
        budget=_text(config, "budget"),
        seed=_seed(config),
        data_dir=Path(_text(config, "data_dir")),
        outputs_dir=Path(_text(config, "outputs_dir")),
        **sections,
    )
    _fits_together(experiment)
    return experiment


def check_recorded(values: dict[str, Any]) -> Experiment:
    """Check the configuration of a record, which an earlier version may have written.

    Keys that today's schema does not know are left out.
    """
    known = {key: value for key, value in values.items() if key in ROOT}
    for name, kind in _kinds(OmegaConf.create(known)).items():
        if isinstance(known.get(name), dict):
            known[name] = _declared(kind, known[name])
    trainer = known.get("trainer")
    if isinstance(trainer, dict) and trainer.get("compile") is False:  # 63 published configurations have it for null
        trainer["compile"] = None
    return check(OmegaConf.create(known))


def _declared(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values whose keys a section declares, and so below each key."""
    declared_values = {}
    for item in dataclasses.fields(kind):
        if item.name in values:
            value = values[item.name]
            kinds = (item.type, *get_args(item.type))  # X, or X | None
            below = [part for part in kinds if isinstance(part, type) and dataclasses.is_dataclass(part)]
            declared_values[item.name] = _declared(below[0], value) if below and isinstance(value, dict) else value
    return declared_values


def check_dataset(config: DictConfig) -> tuple[Any, Path, Path]:
    """Check the data set alone. Return it, data_dir and outputs_dir; the model may be anything."""
    return (
        _section(config, "dataset", _dataset_options(config)),
        Path(_text(config, "data_dir")),
        Path(_text(config, "outputs_dir")),
    )


def _name(config: DictConfig, section: str, known: list[str]) -> str:
    name: str = OmegaConf.select(config, f"{section}.name")
    if name not in known:
        raise Refused(f"{section}.name={as_typed(name)} is unknown. Available: {listing(known)}.")
    return name


def _kinds(config: DictConfig) -> dict[str, type]:
    """Return the dataclass of each section; the model and the data set decide two of them."""
    model = MODELS[_name(config, "model", list(MODELS))].options
    return {**SECTIONS, "dataset": _dataset_options(config), "model": model}


def _dataset_options(config: DictConfig) -> type:
    return TASKS[DATASETS[_name(config, "dataset", list(DATASETS))].task].options


def _section(config: DictConfig, name: str, section: type) -> Any:
    node = config.get(name)
    if not isinstance(node, DictConfig):
        raise Refused(f"{name}={as_typed(node)} is not an option of the group '{name}'.")
    try:
        values = OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise Refused(f"{error.full_key} has no value. Set it: {error.full_key}=VALUE.") from error
    return copy.deepcopy(_checked(name, section, json.dumps(values, default=str)))


@lru_cache(maxsize=1024)
def _checked(name: str, section: Any, content: str) -> Any:
    """Return one section, typed and checked. Cached: the runs of a sweep share most sections, and OmegaConf is slow."""
    values = json.loads(content)
    try:
        value = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(section), values))
    except ConfigKeyError as error:
        path = f"{name}.{error.full_key!s}"
        keys = [item.name for item in dataclasses.fields(section)]
        raise Refused(
            f"{path} is not a key.{closest(str(error.key), keys)} Keys of {name}: {listing(keys)}."
        ) from error
    except (OmegaConfBaseException, OverflowError) as error:
        path = getattr(error, "full_key", None) or _wrong_key(section, values)
        wrong = as_typed(OmegaConf.select(OmegaConf.create(values), path))
        raise Refused(f"{name}.{path}={wrong} must be {_described_type(section, path)}.") from error
    _bounds(value, name)
    return value


def _wrong_key(section: type, values: dict[str, Any]) -> str:
    """Return the key whose value has the wrong type, for errors of OmegaConf that name none."""
    for key, value in values.items():
        try:
            OmegaConf.merge(OmegaConf.structured(section), {key: value})
        except (OmegaConfBaseException, OverflowError):
            return key
    raise AssertionError("every value has the right type")


def _described_type(section: type, path: str) -> str:
    """Describe the declared type of a key below a section."""
    name, *inside = path.split("[")
    kind = declared(section, name.split("."))[-1].type
    if inside:
        kind = get_args(kind)[0]
    kinds = (kind,) if get_origin(kind) is list else get_args(kind) or (kind,)
    return " or ".join(map(_described_kind, kinds))


def _described_kind(kind: Any) -> str:
    if get_origin(kind) is list:
        return "a list, as in [0.9,0.98]" if get_args(kind) == (float,) else "a list, as in [a,b]"
    return "keys with values in braces" if dataclasses.is_dataclass(kind) else DESCRIBED[kind]


def _bounds(values: Any, path: str) -> None:
    for item in dataclasses.fields(values):
        value, where = getattr(values, item.name), f"{path}.{item.name}"
        options, members = options_of(item), item.metadata.get("members", ())
        if dataclasses.is_dataclass(value):
            _bounds(value, where)
        elif value is None:
            continue
        elif isinstance(value, list) and any(isinstance(member, list | dict) for member in value):
            raise Refused(f"{where}={as_typed(value)} is nested: its members must be plain values, as in [a,b].")
        elif isinstance(value, float) and math.isinf(value):
            raise Refused(f"{where}={value} is infinite; it must be a finite number.")
        elif isinstance(value, int) and value > LARGEST:
            raise Refused(f"{where}={value} is out of range; it must be at most {LARGEST}.")
        elif options and value not in options:
            known = f"{listing(options)}.{closest(value, options)}"
            raise Refused(f"{where}={as_typed(value)} is unknown. Available: {known}")
        elif members and not value:
            raise Refused(f"{where}=[] is empty. Name at least one of {listing(list(members))}.")
        elif members and not set(value) <= set(members):
            wrong = next(member for member in value if member not in members)
            raise Refused(f"{where}={as_typed(wrong)} is unknown. Available: {listing(list(members))}.")
        elif "low" in item.metadata and not item.metadata["low"] <= value <= item.metadata["high"]:
            low, high = item.metadata["low"], item.metadata["high"]
            allowed = f"at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
            raise Refused(f"{where}={value} is out of range; it must be {allowed}.")
    if hasattr(values, "check"):
        values.check()


def _text(config: DictConfig, key: str) -> str:
    value = config.get(key)
    if not isinstance(value, str | int | float) or isinstance(value, bool) or not str(value).strip():
        raise Refused(f"{key}={'' if value == '' else as_typed(value)} is not a name: it must be a word or a number.")
    return str(value)


def _seed(config: DictConfig) -> int:
    seed = config.get("seed")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
        raise Refused(f"seed={as_typed(seed)} is not a whole number from 0 upwards to 2^63 - 1.")
    return seed


def _fits_together(experiment: Experiment) -> None:
    model, dataset, card = experiment.model, experiment.dataset, experiment.model_card
    if card.reads != experiment.task_card.reads:
        fitting = [name for name, other in MODELS.items() if other.reads == experiment.task_card.reads]
        raise Refused(
            f"{model.name} reads {READS[card.reads]}, and {dataset.name} is {experiment.task} data. "
            f"Models that read it: {listing(fitting)}."
        )
    _gates_have_locations(experiment)
    for location in card.locations.get("residual", ()):  # also without a gate: a wrong layer number is a mistake
        experiment.layers.at(location, model.layers)
    dataset.fits(experiment)


def _gates_have_locations(experiment: Experiment) -> None:
    gate, model, locations = experiment.gate, experiment.model, experiment.model_card.locations
    for interface, name in gate.chosen().items():
        if name == "none":
            continue
        if interface not in locations:
            offering = [other for other, card in MODELS.items() if interface in card.locations]
            raise Refused(
                f"{model.name} has no location for the {interface} gate {name}"
                f"{f'. Models that have one: {listing(offering)}' if offering else ''}."
            )
        if GATES[interface][name].sideways and experiment.remembers is not Remembers.NOTHING:
            raise Refused(
                f"{name} reads neighbouring positions, and {model.name} continues from {experiment.remembers}, "
                "which does not contain them. Choose another gate or model."
            )
    gate.fits(experiment)


def flat(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Return nested keys as dotted keys, as in an override."""
    dotted_values: dict[str, Any] = {}
    for key, value in values.items():
        dotted = joined(path, str(key))
        dotted_values |= flat(value, dotted) if isinstance(value, dict) and value else {dotted: value}
    return dotted_values


def joined(path: str | None, key: str) -> str:
    """Return the dotted key below a path; a file of the package `_global_` sets keys at the top."""
    return f"{path}.{key}" if path and path != "_global_" else key
