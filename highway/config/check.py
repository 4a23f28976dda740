"""From a composed Hydra configuration to a checked `Experiment`, or one sentence that says what is wrong."""

import dataclasses
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

from highway.config import catalogue, layers, schema
from highway.config.schema import Experiment
from highway.errors import Refused, closest, listing

CONF = Path(__file__).parents[2] / "conf"
MODELS: dict[str, Any] = {
    "transformer": schema.Transformer,
    "transformer_xl": schema.TransformerXL,
    "encoder_decoder": schema.EncoderDecoder,
}
DATASETS: dict[str, Any] = {"language": schema.Dataset, "translation": schema.TranslationDataset}  # by task
SECTIONS: dict[str, Any] = {
    "gate": schema.Gate,
    "layers": schema.Layers,
    "dataset": schema.Dataset,  # or another of DATASETS, as its name says
    "optimizer": schema.Optimizer,
    "trainer": schema.Trainer,
    "logger": schema.Logger,
    "debug": schema.Debug,
}
WANTED = {"Integer": "a whole number", "Float": "a number", "bool": "true or false", "list": "a list, as in [0.9,0.98]"}
SWEEP_ONLY = ("table", "seeds", "arms", "rows", "fail_fast", "retry_failed")
ROOT = ("model", *SECTIONS, "budget", "seed", "data_dir", "outputs_dir")


def check(config: DictConfig) -> Experiment:
    """The configuration as typed objects; `Refused` with one sentence when anything in it is wrong."""
    for key in config:
        if key not in (*ROOT, *SWEEP_ONLY, "hydra"):
            raise Refused(f"'{key!s}' is not a key of the configuration.{closest(str(key), list(ROOT))}")
    for key in SWEEP_ONLY:
        if config.get(key):
            raise Refused(f"{key}=... describes a sweep: add -m, as in python scripts/train.py -m table=highway_t1.")
    schemas = {**SECTIONS, "dataset": _dataset_schema(config)}
    sections = {name: _section(config, name, section) for name, section in schemas.items()}
    experiment = Experiment(
        model=_section(config, "model", _model_schema(config)),
        budget=_text(config, "budget"),
        seed=_seed(config),
        data_dir=Path(_text(config, "data_dir")),
        outputs_dir=Path(_text(config, "outputs_dir")),
        **sections,
    )
    _fits_together(experiment)
    return experiment


def check_dataset(config: DictConfig) -> tuple[Any, Path, Path]:
    """The data set alone, whatever the model, with the folders of data and outputs."""
    return (
        _section(config, "dataset", _dataset_schema(config)),
        Path(_text(config, "data_dir")),
        Path(_text(config, "outputs_dir")),
    )


def _model_schema(config: DictConfig) -> Any:
    name = OmegaConf.select(config, "model.name")
    if name not in MODELS:
        raise Refused(f"model.name={name} is unknown; there is {listing(list(MODELS))}.")
    return MODELS[name]


def _dataset_schema(config: DictConfig) -> Any:
    name = OmegaConf.select(config, "dataset.name")
    if name not in catalogue.DATASETS:
        raise Refused(f"dataset.name={name} is unknown; there is {listing(list(catalogue.DATASETS))}.")
    return DATASETS[catalogue.DATASETS[name].task]


def _section(config: DictConfig, name: str, section: Any) -> Any:
    node = config.get(name)
    if not isinstance(node, DictConfig):
        raise Refused(f"{name}={node} is not an option of the group '{name}'.")
    try:
        merged = OmegaConf.merge(OmegaConf.structured(section), node)
        value = OmegaConf.to_object(merged)
    except ConfigKeyError as error:
        path = f"{name}.{error.full_key!s}"
        keys = [item.name for item in dataclasses.fields(section)]
        raise Refused(f"{path} is not a key.{closest(str(error.key), keys)} {name} has {listing(keys)}.") from error
    except MissingMandatoryValue as error:
        raise Refused(f"{name}.{error.full_key} has no value.") from error
    except OmegaConfBaseException as error:
        value = OmegaConf.select(node, error.full_key or "")
        wanted = next((text for kind, text in WANTED.items() if kind in str(error.msg)), "of another type")
        raise Refused(f"{name}.{error.full_key!s}={value} must be {wanted}.") from error
    _bounds(value, name)
    return value


def _bounds(values: Any, path: str) -> None:
    for item in dataclasses.fields(values):
        value, where = getattr(values, item.name), f"{path}.{item.name}"
        if dataclasses.is_dataclass(value):
            _bounds(value, where)
        elif value is None:
            continue
        elif "options" in item.metadata and value not in item.metadata["options"]:
            options = list(item.metadata["options"])
            raise Refused(f"{where}={value} is unknown; it takes {listing(options)}.{closest(value, options)}")
        elif "low" in item.metadata and not item.metadata["low"] <= value <= item.metadata["high"]:
            low, high = item.metadata["low"], item.metadata["high"]
            allowed = f"at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
            raise Refused(f"{where}={value} is out of range; it must be {allowed}.")
    if hasattr(values, "check"):
        values.check()


def _text(config: DictConfig, key: str) -> str:
    value = config.get(key)
    if value is None or isinstance(value, DictConfig):
        raise Refused(f"{key} has no value.")
    return str(value)


def _seed(config: DictConfig) -> int:
    seed = config.get("seed")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise Refused(f"seed={seed} is not a whole number from 0 upwards.")
    return seed


def _fits_together(experiment: Experiment) -> None:
    model = catalogue.MODELS[experiment.model.name]
    dataset = catalogue.DATASETS[experiment.dataset.name]
    gate = catalogue.GATES[experiment.gate.residual]
    if dataset.task != model.task:
        raise Refused(
            f"{experiment.model.name} is a {model.task} model, and {experiment.dataset.name} is {dataset.task} data."
        )
    if gate.interface not in model.interfaces:
        raise Refused(f"{experiment.model.name} has no place for the {gate.interface} gate {experiment.gate.residual}.")
    if experiment.gate.score.name != "none" and "score" not in model.interfaces:
        raise Refused(
            f"{experiment.model.name} has no place for the score gate {experiment.gate.score.name}: "
            "gate.score belongs to model=encoder_decoder."
        )
    if gate.looks_sideways and model.remembers:
        raise Refused(
            f"gate.residual={experiment.gate.residual} reads neighbouring positions, and "
            f"{experiment.model.name} {model.remembers}."
        )
    for sublayer in ("attention", "feed_forward"):  # also when the gate is none: a wrong number is a mistake
        layers.selected(getattr(experiment.layers, sublayer), experiment.model.layers, f"layers.{sublayer}")
    if experiment.gate.reads == "normalised" and experiment.model.norm == "post":
        raise Refused("gate.reads=normalised needs model.norm=pre: post-norm sublayers read the stream itself.")
    score = experiment.gate.score
    if score.name == "gated" and dataset.task == "translation" and experiment.dataset.longest > score.length:
        raise Refused(
            f"gate.score.length={score.length} has no place for texts of dataset.longest={experiment.dataset.longest} "
            "pieces: make them the same."
        )
    if dataset.task == "language":
        _reads_its_stream(experiment, bool(model.remembers))
    elif experiment.trainer.devices > experiment.dataset.batch:
        raise Refused(f"trainer.devices={experiment.trainer.devices} is more than dataset.batch.")


def _reads_its_stream(experiment: Experiment, remembers: bool) -> None:
    if (experiment.dataset.train.memory or experiment.dataset.evaluation.memory) and not remembers:
        raise Refused(
            f"{experiment.model.name} has no memory: set dataset.train.memory=0 and dataset.evaluation.memory=0."
        )
    cut = experiment.dataset.train
    if experiment.trainer.devices > cut.lanes:
        raise Refused(
            f"trainer.devices={experiment.trainer.devices} is more than dataset.train.lanes={cut.lanes}: "
            "each device owns at least one lane."
        )


def flat(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Nested keys as dotted ones, as a command line names them."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        dotted = joined(path, str(key))
        found |= flat(value, dotted) if isinstance(value, dict) and value else {dotted: value}
    return found


def joined(path: str | None, key: str) -> str:
    return f"{path}.{key}" if path and path != "_global_" else key
