"""The choice of gated layers: `all`, `none`, `l1`, `l1-3`, `l3-6`, or a list such as [1,3], counted from 1.

`layers=CHOICE` sets it for attention and feed-forward sublayers alike; `layers=attention_only` gates every attention
sublayer and no feed-forward sublayer ("without FFN" in the tables of Highway Transformer).
"""

import re
from collections.abc import Sequence
from typing import Any

from highway.errors import Refused, as_typed

OPTIONS = ("all", "none", "attention_only", "l1", "l1-3")  # of the group `layers`; it takes any other range as well
RANGE = re.compile(r"l?(\d+)(?:-(\d+))?")


def option(name: str) -> dict[str, str] | None:
    """Return the keys that `layers=NAME` sets, or None if the group has no such option."""
    if name == "attention_only":
        return {"attention": "all", "feed_forward": "none"}
    return {"attention": name, "feed_forward": name} if name in ("all", "none") or RANGE.fullmatch(name) else None


def selected(choice: str | int | Sequence[int], layers: int, key: str) -> tuple[int, ...]:
    """Return the layer numbers that `choice` names in a model of `layers` layers."""
    if isinstance(choice, str):
        numbers: list[Any] = _from_text(choice, layers, key)
    else:
        numbers = list(choice) if isinstance(choice, list | tuple) else [choice]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            raise Refused(f"{key} takes layer numbers, and {as_typed(number)} is not one.")
        if not 1 <= number <= layers:
            raise Refused(
                f"{key} names layer {number}, but the model has layers 1 to {layers} (model.layers={layers})."
            )
    if len(set(numbers)) != len(numbers):
        raise Refused(f"{key} names a layer twice: {numbers}.")
    return tuple(sorted(numbers))


def _from_text(choice: str, layers: int, key: str) -> list[int]:
    if choice == "all":
        return list(range(1, layers + 1))
    if choice == "none":
        return []
    match = RANGE.fullmatch(choice)
    if match is None:
        raise Refused(
            f"{key} takes all, none, a range such as l1-3, or a list such as [1,3]; "
            f"'{as_typed(choice)}' is none of these."
        )
    first = int(match[1])
    last = int(match[2] or first)
    if last < first:
        raise Refused(f"{key}={choice} runs backwards. Write l{last}-{first}.")
    return list(
        range(first, min(last, max(first, layers + 1)) + 1)
    )  # one layer too many is enough for the error message
