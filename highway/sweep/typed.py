"""The values that a sweep was typed with: lists of them, every combination, seeds, true and false."""

import itertools
import math
from collections.abc import Iterable

from hydra.core.override_parser.types import Override, ValueType
from hydra.errors import HydraException

from highway.config.groups import check_words
from highway.errors import Refused, listing

MOST_RUNS = 50_000


def every_combination(overrides: Iterable[Override]) -> list[tuple[str, list[str]]]:
    """List every combination of the overrides' values, each with a label that names the values that vary."""
    choices = [
        [f"{override.get_key_element().removeprefix('++')}={value}" for value in values_of(override)]
        for override in overrides
    ]
    if math.prod(map(len, choices)) > MOST_RUNS:
        raise Refused(
            f"this grid has more than {MOST_RUNS:,} runs, and each is checked before the first one starts. "
            "Name fewer values."
        )
    varying = [len(options) > 1 for options in choices]
    plan = []
    for combination in itertools.product(*choices):
        check_words(combination)
        label = " ".join(override for override, varies in zip(combination, varying, strict=True) if varies)
        plan.append((label, list(combination)))
    return plan


def values_of(override: Override | None) -> list[str]:
    """Return the values that an override lists; empty without an override."""
    if override is None:
        return []
    if not override.is_sweep_override():
        return [override.get_value_element_as_str()]
    try:
        values = [str(value) for value in itertools.islice(override.sweep_string_iterator(), MOST_RUNS + 1)]
    except (HydraException, ValueError, TypeError) as error:
        why = " ".join(str(error).split())
        raise Refused(
            f"{override.input_line} does not list its values ({why}). Write them with commas, as in seed=1,2,3."
        ) from error
    if override.value_type is ValueType.GLOB_CHOICE_SWEEP:
        values = [value for value in values if not value.startswith("_")]
    if not values:
        raise Refused(f"{override.input_line} gives no value. Write values with commas, as in seed=1,2,3.")
    return values


def seeds_of(override: Override | None) -> list[int]:
    """Return the seeds of a table's rows; seed 1 unless an override names others."""
    values = values_of(override) or ["1"]
    if not all(value.isdecimal() for value in values):
        raise Refused(f"seeds={','.join(values)} is not a list of whole numbers. Write seeds=1,2,3.")
    return [int(value) for value in values]


def is_true(override: Override | None) -> bool:
    """Return the value of an override that is true or false; false without one."""
    value = (values_of(override) or ["false"])[0].lower()
    if value not in ("true", "false"):
        assert override is not None
        raise Refused(f"{override.key_or_group}={value} is unknown; it takes {listing(['true', 'false'])}.")
    return value == "true"
