"""Refuse settings of Hydra in a configuration file, and limit the environment variables that it reads.

A file may come from a stranger. Of Hydra's section, highway uses the launcher and the sweeper alone: Hydra instantiates
their `_target_`, which must be a class of hydra_plugins/highway_sweep.py. What this project does not use is refused.
"""

import os
import re
import warnings

from omegaconf import DictConfig, OmegaConf

from highway.config.groups import offered
from highway.errors import Refused, listing

OURS = {
    "launcher": re.compile(r"hydra_plugins\.highway_sweep\.(Inline|Local|Ray|Slurm)Launcher"),
    "sweeper": re.compile(r"hydra_plugins\.highway_sweep\.HighwaySweeper"),
}
READ = ("HIGHWAY_DATA", "HIGHWAY_OUTPUTS")
UNUSED = {  # a key of Hydra that nothing reads here, and what does its work
    "callbacks": "a configuration runs no code of its own",
    "job.env_set": "a configuration must not change the environment of a run",
    "job.chdir": "a run stays in the folder from which it was started",
    "job_logging": "a run logs to log.txt in its directory",
    "hydra_logging": "a run logs to log.txt in its directory",
    "run.dir": "outputs_dir=FOLDER chooses where runs are kept",
    "sweep.dir": "outputs_dir=FOLDER chooses where runs are kept",
    "verbose": "debug=trace shows the stack trace of a mistake",
}
NOT_SET = object()


def check_hydra(hydra: DictConfig) -> None:
    """Refuse settings of Hydra that this project does not allow."""
    for key, why in UNUSED.items():
        if OmegaConf.select(hydra, key):
            raise Refused(f"hydra.{key} cannot be set: {why}.")
    for section, ours in OURS.items():
        plugin = OmegaConf.to_container(hydra[section], resolve=True) if hydra[section] else {}
        assert isinstance(plugin, dict)
        target = str(plugin.pop("_target_", None))
        if "_target_" in str(plugin) or "_partial_" in plugin:
            raise Refused(f"hydra.{section} has a nested _target_, or _partial_, which is not allowed. Remove it.")
        if not ours.fullmatch(target):
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


with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # OmegaConf 2.4 has another name for the function, which 2.3 lacks
    OmegaConf.register_new_resolver("oc.env", _environment, replace=True)
