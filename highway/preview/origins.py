"""The origin of each setting of a table's row: the last file that sets it, in Hydra's order."""

import dataclasses

import yaml
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode

from highway.config import layers
from highway.config.check import CONF, SECTIONS, flat, joined
from highway.config.guard import is_group
from highway.sweep.table import Row, Table

NEUTRAL = "the neutral default"


def origins(table: Table, row: Row, budget: str, seed: int = 1) -> dict[str, str]:
    """Return the file that set each key of the row's configuration, by dotted key."""
    overrides = table.overrides(row, budget, seed)
    here = f"conf/table/{table.id}.yaml"
    parts = {
        "recipe": table.recipe,
        f"row {row.id}": row.overrides,
        f"budget {budget}": table.budgets[budget],
        f"row {row.id} at budget {budget}": row.shrunk.get(budget, ()),
    }
    named_in = {
        _key(override): f"{here} ({part})" for part, part_overrides in parts.items() for override in part_overrides
    }
    file_of: dict[str, str] = {}
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        chosen = loader.compute_defaults_list("train", overrides, RunMode.RUN).defaults
        for part in chosen:
            path = CONF / f"{part.config_path}.yaml"
            if path.exists():  # the others come from dataclasses or from Hydra
                content = yaml.safe_load(path.read_text()) or {}
                content.pop("defaults", None)
                file_of |= {joined(part.package, key): f"conf/{part.config_path}.yaml" for key in flat(content)}
            elif part.config_path.endswith("/_neutral"):
                neutral = dataclasses.asdict(SECTIONS[part.package]())
                file_of |= {joined(part.package, key): NEUTRAL for key in flat(neutral)}
            elif values := layers.option(part.config_path.removeprefix("layers/")):  # an option without a file
                file_of |= {f"layers.{key}": named_in.get("layers", "conf/train.yaml") for key in values}
    for override in OverridesParser.create().parse_overrides(overrides):
        key = override.key_or_group
        if not is_group(key):
            value = override.value()
            keys = flat({key: value}) if isinstance(value, dict) else [key]
            file_of |= {str(name): named_in.get(key, "the command") for name in keys}
    return file_of


def _key(word: str) -> str:
    return word.split("=", 1)[0]
