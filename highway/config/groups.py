"""The groups of a configuration and their options, and a first check of overrides. Nothing here imports Hydra."""

import re
from collections.abc import Sequence

from highway.cards import gated_layers
from highway.config.project import confs
from highway.errors import Refused, listing

GROUP = re.compile(r"(?P<group>hydra/\w+|\w+)=\s*(?P<option>.*?)\s*", re.DOTALL)


def groups() -> list[str]:
    """Return the names of the configuration groups."""
    return sorted({path.name for conf in confs() for path in conf.glob("*/")} | {"layers"})


def is_group(name: str) -> bool:
    return name == "layers" or any((conf / name).is_dir() for conf in confs())


def options(group: str) -> list[str]:
    """Return the options of a configuration group; of `layers`, which takes any range, some examples."""
    if group == "layers":
        return list(gated_layers.OPTIONS)
    return sorted({path.stem for conf in confs() for path in (conf / group).glob("*.yaml")})


def offered(group: str) -> str:
    """Return the options of a group as the end of a sentence."""
    return listing(options(group)) + (" or any other range" if group == "layers" else "")


def check_words(overrides: Sequence[str]) -> None:
    """Refuse overrides that Hydra misunderstands, or for which it raises an unclear error."""
    for override in overrides:
        if not override.strip() or override.startswith("="):
            raise Refused(f"'{override}' sets nothing. Write key=value, as in gate=sdu_tanh.")
        if override.lstrip("+~").startswith("hydra.mode"):
            raise Refused(f"{override} cannot be set. Add -m for a sweep of several runs; leave -m out for one run.")
        key, _, value = override.lstrip("+~").partition("=")
        if override.startswith("~"):
            mend = f"Perhaps you mean {key}=null." if "." in key else "Leave it out."
            raise Refused(f"{override} would remove a key, and a run needs them all. {mend}")
        if key == "hydra.searchpath" and (scheme := re.search(r"(\w+)://", value)) and scheme[1] != "file":
            raise Refused(f"{override} is no folder. Write one, as in hydra.searchpath=[my/conf].")
        if key.startswith("hydra.") and not key.startswith(("hydra.searchpath", "hydra.launcher.")):
            mend = " Write outputs_dir=FOLDER to choose where runs are kept." if key.endswith(".dir") else ""
            raise Refused(
                f"{override} cannot be set: of Hydra's own keys only hydra.launcher.* and hydra.searchpath can.{mend}"
            )
        match = GROUP.fullmatch(override)
        if match is not None and match["group"] == "hydra":
            raise Refused(f"{override} cannot be set: of Hydra's own groups only hydra/launcher can be chosen.")
        if match is None:
            continue
        group, option = match["group"], match["option"]
        if group.startswith("hydra/") and group not in ("hydra/launcher", "hydra/sweeper"):
            raise Refused(f"{group} cannot be chosen: of Hydra's own groups only hydra/launcher can.")
        odd = option.lower() in ("", "null") or option[0] in "[{" or option.isdecimal() or ".." in option
        if is_group(group) and odd:
            raise Refused(f"{override} names no option of {group}. Options of {group}: {offered(group)}.")
