"""Values that no field of a file may have, put in the place of one that it has: for records, tables and any JSON."""

import copy
import random
from collections.abc import Iterator
from typing import Any

Place = tuple[Any, ...]
HUGE = 10**400


def places(content: Any, at: Place = ()) -> Iterator[Place]:
    """Yield where in nested lists and mappings values are: the keys and positions that lead there."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


def value_at(content: Any, place: Place) -> Any:
    for key in place:
        content = content[key]
    return content


def wrong_values(value: Any) -> list[Any]:
    """Return values that nothing can mean where this value is."""
    if isinstance(value, bool):
        return ["maybe", [], {"a": 1}, 7.5]
    if isinstance(value, int | float):
        return ["text", [], {"a": 1}, float("nan"), float("inf"), -float("inf"), HUGE, -value - 1]
    if isinstance(value, str):
        return [["text"], {"a": 1}, {"_target_": "os.system"}, float("nan")]
    if isinstance(value, list):
        return ["text", 5, {"a": 1}, [None], [[["deep"]]], [{"a": 1}]]
    if isinstance(value, dict):
        return ["text", 5, [1], {"not a key": 1}, {5: 5}]
    return ["text", 5, [1], {"a": 1}]


def changed(content: Any, chance: random.Random) -> tuple[Any, str]:
    """Return a copy with one value that is nonsense, or one entry gone, and what was changed."""
    content = copy.deepcopy(content)
    place = chance.choice(sorted(places(content), key=str))
    holder, key = value_at(content, place[:-1]), place[-1]
    name = ".".join(map(str, place))
    if chance.random() < 0.15:
        del holder[key]
        return content, f"{name} is gone"
    value = chance.choice(wrong_values(holder[key]))
    holder[key] = value
    shown = "10**400" if value == HUGE else repr(value)
    return content, f"{name} is {shown[:60]}"
