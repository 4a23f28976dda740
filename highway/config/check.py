"""Check a composed Hydra configuration: an `Experiment`, or one sentence that says what is wrong."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from highway.cards.datasets import DATASETS
from highway.cards.models import MODELS
from highway.config.experiment import Experiment, Folders
from highway.config.guard import check_hydra
from highway.config.sections import CARDS, ROOT, SWEEP_ONLY, kind_of
from highway.errors import Refused, as_typed, closest, listing
from highway.keys.declare import Written
from highway.keys.mistakes import Extra, validated


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
    return _experiment(_plain(config, ROOT))


def check_recorded(values: dict[str, Any]) -> Experiment:
    """Check the configuration of a record, which an earlier version may have written."""
    known = {key: value for key, value in values.items() if key in ROOT}
    trainer = known.get("trainer")
    if isinstance(trainer, dict) and trainer.get("compile") is False:  # 63 published configurations have it for null
        known["trainer"] = {**trainer, "compile": None}
    return _experiment(known, "ignore")


def check_dataset(config: DictConfig) -> tuple[Any, Path, Path]:
    """Check the data set alone. Return it, data_dir and outputs_dir; the model may be anything."""
    values = _plain(config, ("dataset", *Folders.model_fields))
    folders = validated(Folders, {name: values[name] for name in Folders.model_fields})
    _check_name(values, "dataset", list(DATASETS))
    dataset = validated(kind_of("dataset", values["dataset"]), values["dataset"], "dataset")
    return dataset, folders.data_dir, folders.outputs_dir


def _plain(config: DictConfig, keys: Sequence[str]) -> dict[str, Any]:
    """Return these keys as plain values, interpolations resolved."""
    try:
        values: dict[str, Any] = {key: config[key] for key in keys if key in config}
        for key, value in values.items():
            if OmegaConf.is_config(value):
                values[key] = OmegaConf.to_container(value, resolve=True, throw_on_missing=True)
        return values
    except MissingMandatoryValue as error:
        raise Refused(f"{error.full_key} has no value. Set it: {error.full_key}=VALUE.") from error


def _experiment(values: dict[str, Any], extra: Extra = None) -> Experiment:
    _check_name(values, "model", list(MODELS))
    _check_name(values, "dataset", list(DATASETS))
    sections: dict[str, Any] = {}
    if isinstance(gate := values.get("gate"), dict):
        inside = {name: gate[name] for name in ("score", "state") if name in gate}
        sections["gate"] = {**gate, **{name: _section(f"gate.{name}", keys, extra) for name, keys in inside.items()}}
    for name in ("model", "dataset", *CARDS):
        if name in values:
            sections[name] = _section(name, sections.get(name, values[name]), extra)
    if {"schedule", "optimizer"} <= sections.keys() and sections["schedule"].name != "default":
        sections["optimizer"] = sections["optimizer"].without_schedule()
    experiment: Experiment = validated(Experiment, values | sections, extra=extra)
    return experiment


def _section(name: str, values: Any, extra: Extra) -> Written:
    """Check a section whose keys depend on what it chooses."""
    return validated(kind_of(name, values), values, name, extra=extra)


def _check_name(values: dict[str, Any], section: str, known: list[str]) -> None:
    """Refuse an unknown name of the model or of the data set, which decides the keys of its section."""
    keys = values.get(section)
    name = keys.get("name") if isinstance(keys, dict) else None
    if name not in known:
        raise Refused(f"{section}.name={as_typed(name)} is unknown. Available: {listing(known)}.")


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
