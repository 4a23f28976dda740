"""What a configuration may say of Hydra itself, and read of the environment: a file may come from a stranger.

Before a run begins, Hydra builds what `_target_` names in callbacks, launcher and sweeper, and what logging names by
`class` or `()`, and puts job.env_set into the environment. Through any package that imports os, ours and torch too, a
dotted name reaches os.system; so a `_target_` is a launcher or the sweeper of hydra_plugins, by its own name.
"""

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from highway.errors import Refused, listing

CONF = Path(__file__).parents[2] / "conf"
PLUGIN = re.compile(r"hydra_plugins\.\w+\.\w+")
SWEEPER = "hydra_plugins.highway_sweep.HighwaySweeper"
READ = ("HIGHWAY_DATA", "HIGHWAY_OUTPUTS")
SETTLED: dict[str, tuple[Any, str]] = {  # a key of Hydra's -> what it stays at, and why
    "callbacks": ({}, "they would run code of their own"),
    "job.env_set": ({}, "a configuration does not change the environment of what it runs"),
    "job_logging.root": (None, "a run logs to log.txt in its cell's directory"),
    "hydra_logging.root": (None, "a run logs to log.txt in its cell's directory"),
    "output_subdir": (None, "a cell keeps its own config.yaml"),
    "job.chdir": (None, "a run stays in the folder that it was started in"),
    "verbose": (False, "debug=trace shows the stack trace of a mistake"),
}
NOT_SET = object()
GROUP = re.compile(r"(?P<group>hydra/\w+|\w+)=\s*(?P<option>.*?)\s*", re.DOTALL)


def options(group: str) -> list[str]:
    """What a configuration group offers."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def check_words(words: Sequence[str]) -> None:
    """Refuses words of a command line that Hydra takes for something else, or trips over."""
    for word in words:
        if not word.strip() or word.startswith("="):
            raise Refused(f"'{word}' sets nothing: settings are written key=value, as in gate=sdu_tanh.")
        if word.lstrip("+~").startswith("hydra.mode"):
            raise Refused(f"{word}: -m is how several runs are asked for, and no -m how one is.")
        match = GROUP.fullmatch(word)
        if match is None:
            continue
        group, option = match["group"], match["option"]
        if group.startswith("hydra/") and group not in ("hydra/launcher", "hydra/sweeper"):
            raise Refused(f"{group} cannot be chosen: of Hydra's own groups only hydra/launcher can.")
        if (CONF / group).is_dir() and (option.lower() in ("", "null") or option[0] in "[{"):
            raise Refused(f"{word} names no option of {group}; {group} has {listing(options(group))}.")


@contextmanager
def composing() -> Iterator[None]:
    """Whatever Hydra raises, or warns of, while it composes is a mistake in words or files, said in one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            yield
    except (Refused, HydraException, OmegaConfBaseException):
        raise
    except Exception as error:
        raise Refused(" ".join(str(error).split()).rstrip(".") + ".") from error


def check_hydra(hydra: DictConfig) -> None:
    """Refuses what this project has no use for, before Hydra does anything with it."""
    for key, (settled, why) in SETTLED.items():
        if OmegaConf.select(hydra, key) != settled:
            raise Refused(f"hydra.{key} cannot be set: {why}.")
    for section in ("launcher", "sweeper"):
        plugin = OmegaConf.to_container(hydra[section], resolve=True) if hydra[section] else {}
        assert isinstance(plugin, dict)
        target = str(plugin.pop("_target_", None))
        if "_target_" in str(plugin):
            raise Refused(f"hydra.{section} has a _target_ inside: nothing that a configuration names there is run.")
        if not PLUGIN.fullmatch(target) or (section == "sweeper" and target != SWEEPER):
            known = listing(options(f"hydra/{section}"))
            raise Refused(f"{target} is no {section} of this project: hydra/{section} has {known}.")


def _environment(name: str, default: Any = NOT_SET) -> Any:
    """`${oc.env:...}`: what else is in the environment may be a secret, and a record is there to be passed on."""
    if name not in READ:
        raise Refused(f"${{oc.env:{name}}}: a configuration reads {listing(list(READ))} of the environment, no others.")
    if not os.environ.get(name) and default is NOT_SET:
        raise Refused(f"{name} is not set.")
    return os.environ.get(name) or default


OmegaConf.register_new_resolver("oc.env", _environment, replace=True)
