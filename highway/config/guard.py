"""Refuse dangerous settings of Hydra, and limit the environment variables that a configuration reads.

A configuration file may come from a stranger. Before a run begins, Hydra instantiates each `_target_` of callbacks,
launcher and sweeper and each `class` or `()` of logging, and puts job.env_set into the environment. A dotted name
reaches os.system through any package that imports os, such as ours or torch. A `_target_` must therefore be a launcher
or the sweeper of hydra_plugins, by its own name.
"""

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from highway.config.groups import offered
from highway.errors import Refused, listing

PLUGIN = re.compile(r"hydra_plugins\.\w+\.\w+")
SWEEPER = "hydra_plugins.highway_sweep.HighwaySweeper"
READ = ("HIGHWAY_DATA", "HIGHWAY_OUTPUTS")
SETTLED: dict[str, tuple[object, str]] = {  # a key of Hydra -> the only allowed value, and the reason
    "callbacks": ({}, "callbacks would run arbitrary code"),
    "job.env_set": ({}, "a configuration must not change the environment of a run"),
    "job_logging.root": (None, "a run logs to log.txt in its directory"),
    "hydra_logging.root": (None, "a run logs to log.txt in its directory"),
    "output_subdir": (None, "a run writes its own config.yaml"),
    "job.chdir": (None, "a run stays in the folder from which it was started"),
    "verbose": (False, "debug=trace shows the stack trace of a mistake"),
}
NOT_SET = object()


@contextmanager
def composing() -> Iterator[None]:
    """Turn any error or warning of Hydra while it composes into `Refused`: overrides or files are wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            yield
    except (Refused, HydraException, OmegaConfBaseException):
        raise
    except Exception as error:
        raise Refused(" ".join(str(error).split()).rstrip(".") + ".") from error


def check_hydra(hydra: DictConfig) -> None:
    """Refuse settings of Hydra that this project does not allow, before Hydra acts on them."""
    for key, (settled, why) in SETTLED.items():
        if OmegaConf.select(hydra, key) != settled:
            raise Refused(f"hydra.{key} cannot be set: {why}.")
    for section in ("launcher", "sweeper"):
        plugin = OmegaConf.to_container(hydra[section], resolve=True) if hydra[section] else {}
        assert isinstance(plugin, dict)
        target = str(plugin.pop("_target_", None))
        if "_target_" in str(plugin):
            raise Refused(f"hydra.{section} has a nested _target_, which is not allowed. Remove it.")
        if not PLUGIN.fullmatch(target) or (section == "sweeper" and target != SWEEPER):
            known = offered(f"hydra/{section}")
            raise Refused(f"{target} is no {section} of this project. Options of hydra/{section}: {known}.")


def _environment(name: str, default: object = NOT_SET) -> object:
    """Resolve `${oc.env:...}`. Other variables may be secrets, and records are meant to be shared."""
    if name not in READ:
        raise Refused(
            f"${{oc.env:{name}}}: a configuration may read only these environment variables: {listing(list(READ))}."
        )
    if not os.environ.get(name) and default is NOT_SET:
        raise Refused(f"The environment variable {name} is not set. Set it: export {name}=...")
    return os.environ.get(name) or default


OmegaConf.register_new_resolver("oc.env", _environment, replace=True)
