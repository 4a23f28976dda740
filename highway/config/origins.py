"""Find the file or the override that set each value of a configuration."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override
from hydra.types import RunMode

from highway.cards import gated_layers
from highway.config.compose import PRIMARY, SEARCH_PATH, loader, override_of, sets_value
from highway.config.experiment import SECTIONS
from highway.config.groups import check_words
from highway.config.project import confs
from highway.keys.schema import dotted, joined
from highway.keys.yaml_file import read_yaml

NEUTRAL = "the neutral default"


def origins(overrides: Sequence[str]) -> dict[str, str]:
    """Return for each key of the composed configuration the file or the override that set it last."""
    check_words(overrides)
    choices = [override for override in overrides if not sets_value(override_of(override))]
    typed = {override.replace("=", "/", 1): override for override in choices}
    folders = [*confs(), *(folder for override in choices for folder in _search_path(override_of(override)))]
    set_by: dict[str, str] = {}
    for default in loader().compute_defaults_list(PRIMARY, choices, RunMode.RUN).defaults:
        path = str(default.config_path)
        group, _, name = path.rpartition("/")
        if group.startswith("hydra"):
            continue
        file = next((folder / f"{path}.yaml" for folder in folders if (folder / f"{path}.yaml").is_file()), None)
        content: dict[str, Any]
        if file:
            content, source = read_yaml(file) or {}, f"conf/{path}.yaml"
        elif name == "_neutral":
            content, source = SECTIONS[group]().model_dump(), NEUTRAL
        else:  # an option of the group `layers`, which has no files
            content, source = dict(gated_layers.option(name) or {}), typed.get(path, "conf/train.yaml")
        content = {key: value for key, value in content.items() if key not in ("defaults", "hydra")}
        set_by |= {joined(default.package or "", key): source for key in dotted(content)}
    for override in overrides:
        if override not in choices:
            key, value = override_of(override).key_or_group, override_of(override).value()
            keys = dotted({key: value}) if isinstance(value, dict) else [key]
            set_by |= dict.fromkeys(keys, override)
    return set_by


def _search_path(override: Override) -> list[Path]:
    """Return the folders of options that an override adds."""
    folders = override.value() if override.key_or_group == SEARCH_PATH else []
    return [Path(str(folder).removeprefix("file://")) for folder in folders] if isinstance(folders, list) else []
