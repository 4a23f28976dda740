"""Write a configuration as YAML, with the options and the description of each key as a comment."""

import re

from omegaconf import DictConfig, OmegaConf

from highway.cards.datasets import DATASETS
from highway.cards.models import MODELS
from highway.config.experiment import SECTIONS, kind_of
from highway.config.home import CONF
from highway.keys.schema import fields_on, options_of

WIDTH = 31  # of a line, before its comment
KEY = re.compile(r"(?P<indent> *)(?P<key>\w+):.*")
COMMENTED = re.compile(r"^(?P<key>\w+):[^#\n]*# (?P<comment>.*)", re.MULTILINE)


def commented(config: DictConfig) -> str:
    """Return the configuration, which may be invalid, as YAML with comments."""
    named = [name for name, cards in (("model", MODELS), ("dataset", DATASETS)) if config[name].name in cards]
    values = {name: OmegaConf.to_container(config[name]) for name in (*named, *SECTIONS)}
    sections = {name: kind_of(name, keys) for name, keys in values.items()}
    others = {match["key"]: match["comment"] for match in COMMENTED.finditer((CONF / "train.yaml").read_text())}
    lines: list[str] = []
    path: list[str] = []
    for line in OmegaConf.to_yaml(config).splitlines():
        comment = ""
        if match := KEY.fullmatch(line):
            path = [*path[: len(match["indent"]) // 2], match["key"]]
            comment = _comment(sections.get(path[0]), path[1:]) if path[1:] else others.get(path[0], "")
        lines.append(f"{line:<{WIDTH}} # {comment}" if comment else line)
    return "\n".join(lines)


def _comment(section: type | None, path: list[str]) -> str:
    """Return the options and the description of a key below a section."""
    fields = fields_on(section, path)
    if len(fields) < len(path):
        return ""
    return "; ".join(filter(None, [" | ".join(options_of(fields[-1])), fields[-1].description]))
