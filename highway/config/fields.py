"""Declare configuration keys. A dataclass field states a key's neutral default, bounds, description and readers.

The identity of a run consists of its differences from the neutral defaults. The defaults therefore never change
(tests/fixtures/neutral.yaml freezes them), and a new key at its neutral default changes no identity.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

Options = tuple[str, ...] | Callable[[], tuple[str, ...]]
ReadWhen = Mapping[str, Sequence[object]]  # another key of the section -> its values with which this key has an effect


def number(
    default: float | None, low: float, high: float = float("inf"), description: str = "", **metadata: Any
) -> Any:
    """Declare a number from `low` to `high`, both included."""
    return key(default, description, low=low, high=high, **metadata)


def rate(description: str = "") -> Any:
    """Declare a dropout rate in [0, 0.999]."""
    return number(0.0, 0, 0.999, description)


def choice(default: str, *others: str, description: str = "", **metadata: Any) -> Any:
    """Declare a choice among fixed options, the default first."""
    return key(default, description, options=(default, *others), **metadata)


def one_of(default: str, options: Callable[[], tuple[str, ...]], description: str = "", **metadata: Any) -> Any:
    """Declare a choice among options that are looked up at each check, so that a new card is an option at once."""
    return key(default, description, options=options, **metadata)


def several(*members: str, description: str = "", **metadata: Any) -> Any:
    """Declare a subset of these members, by default all; their order has no meaning."""
    return key(list(members), description, members=members, **metadata)


def key(
    default: object,
    description: str = "",
    *,
    unhashed: bool = False,
    by_task: bool = False,
    read_when: ReadWhen | None = None,
    **metadata: Any,
) -> Any:
    """Declare a key.

    unhashed: True keeps it out of a run's identity: it changes only where or how fast a run computes, or what is shown.
    by_task: True if the neutral default is the attribute of this name of the task's card.
    read_when: the values of other keys of the section with which this key has an effect.
    """
    general = {"description": description, "unhashed": unhashed, "by_task": by_task, "read_when": read_when or {}}
    metadata = {**general, **metadata}
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def part(kind: type, description: str = "", *, unhashed: bool = False, read_when: ReadWhen | None = None) -> Any:
    """Declare keys below a key."""
    metadata = {"description": description, "unhashed": unhashed, "read_when": read_when or {}}
    return dataclasses.field(default_factory=kind, metadata=metadata)


def options_of(item: "dataclasses.Field[Any]") -> list[str]:
    """Return the options of a key; an empty list if it takes any value of its type."""
    options: Options = item.metadata.get("options", ())
    return list(options() if callable(options) else options)


def unread(section: Any) -> set[str]:
    """Return the keys of a section that have no effect, given the values of its other keys."""
    keys = {
        item.name
        for item in dataclasses.fields(section)
        for other, values in item.metadata.get("read_when", {}).items()
        if getattr(section, other) not in values
    }
    return keys | (section.unread() if hasattr(section, "unread") else set())


def canonical(section: Any) -> dict[str, Any]:
    """Return a section's values as they enter a run's identity: equal experiments give equal values."""
    values = _read(section)
    return section.canonical(values) if hasattr(section, "canonical") else values


def neutral(kind: type) -> dict[str, Any]:
    """Return the neutral defaults of a section."""
    return _read(kind())


def _read(section: Any) -> dict[str, Any]:
    """Return a section's values without the `unhashed` and `by_task` keys; a key without effect has its default."""
    values: dict[str, Any] = {}
    defaults, idle = type(section)(), unread(section)
    for item in dataclasses.fields(section):
        if item.metadata.get("unhashed") or item.metadata.get("by_task"):
            continue
        value = getattr(defaults if item.name in idle else section, item.name)
        if dataclasses.is_dataclass(value):
            value = _read(value)
        elif "members" in item.metadata:
            value = [member for member in item.metadata["members"] if member in value]
        values[item.name] = value
    return values


def differing_by_task(section: Any, card: Any) -> dict[str, Any]:
    """Return the `by_task` keys of a section whose values differ from those of the task's card."""
    names = [item.name for item in dataclasses.fields(section) if item.metadata.get("by_task")]
    return {name: getattr(section, name) for name in names if getattr(section, name) != getattr(card, name)}


def is_unhashed(section: type, path: Sequence[str]) -> bool:
    """Return True if a key below a section, or a key that contains it, is outside a run's identity."""
    return any(item.metadata.get("unhashed") for item in declared(section, path))


def declared(section: object, path: Sequence[str]) -> "list[dataclasses.Field[Any]]":
    """Return the fields on the path to a key below a section, the key's own field last."""
    fields: list[dataclasses.Field[Any]] = []
    for name in path:
        items = dataclasses.fields(section) if dataclasses.is_dataclass(section) else ()
        fields += [item for item in items if item.name == name]
        kinds = [kind for item in fields[-1:] for kind in (item.type, *get_args(item.type))]  # X, or X | None
        section = next(filter(dataclasses.is_dataclass, kinds), None)
    return fields
