"""Completion of the command line: the shell's part of it, and the continuations of an override.

With _HIGHWAY_COMPLETE set, `highway` prints what may replace the word at the cursor (highway/cli.py).
"""

from collections.abc import Sequence
from contextlib import suppress

from highway.config.experiment import SWEEP_ONLY
from highway.config.groups import groups, is_group, options

SCRIPT = """\
_highway() {
    local IFS=$'\\n'
    COMPREPLY=($(_HIGHWAY_COMPLETE=complete_bash COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
        highway 2> /dev/null))
    [[ "${COMPREPLY[*]}" == *[.=] ]] || compopt +o nospace 2> /dev/null
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//=}
complete -o nospace -o default -F _highway highway"""


def continued(incomplete: str, typed: Sequence[str]) -> list[str]:
    """Return the texts that may replace an incomplete override; `typed`: the overrides before it."""
    name, is_set, value = incomplete.partition("=")
    if is_set:
        before = value.rpartition(",")  # a sweep lists several options
        return [f"{name}={''.join(before[:2])}{option}" for option in options(name)]
    keys = _keys([override for override in typed if is_group(override.partition("=")[0])])
    if "." in name:
        return [f"{key}=" for key in keys]
    names = [*groups(), *SWEEP_ONLY, *(key for key in keys if "." not in key), "hydra/launcher"]
    sections = {f"{key.partition('.')[0]}." for key in keys if "." in key}
    return [*(f"{name}=" for name in dict.fromkeys(names) if name != "hydra"), *sorted(sections)]


def _keys(choices: Sequence[str]) -> list[str]:
    """Return the dotted keys of the configuration with these options; with the default ones if they do not compose."""
    from omegaconf import OmegaConf  # Hydra takes a fifth of a second to import, and options do not need it

    from highway.config.compose import compose
    from highway.keys.schema import dotted

    for overrides in (choices, ()):
        with suppress(Exception):
            content = OmegaConf.to_container(compose(overrides))
            return [*dotted({str(key): value for key, value in content.items()})] if isinstance(content, dict) else []
    return []
