"""How a key is declared: its neutral default, bounds, words and readers, all at its dataclass field and nowhere else.

A cell's identity is what differs from the neutral defaults, so they never change (tests/fixtures/neutral.yaml holds
them fast), and a key that comes later at a neutral default changes no identity.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Options = tuple[str, ...] | Callable[[], tuple[str, ...]]
ReadWhen = Mapping[str, Sequence[Any]]  # a key of the same section -> the values under which something reads this one


def number(default: Any, low: float, high: float = float("inf"), words: str = "", **more: Any) -> Any:
    return key(default, words, low=low, high=high, **more)


def rate(words: str = "") -> Any:
    """Of dropout."""
    return number(0.0, 0, 0.999, words)


def choice(default: str, *others: str, words: str = "", **more: Any) -> Any:
    return key(default, words, options=(default, *others), **more)


def one_of(default: str, options: Callable[[], tuple[str, ...]], words: str = "", **more: Any) -> Any:
    """A choice among what exists when it is asked, so that a card is all that a new one needs."""
    return key(default, words, options=options, **more)


def several(*members: str, words: str = "", **more: Any) -> Any:
    """Some of these, by default all; their order says nothing."""
    return key(list(members), words, members=members, **more)


def key(default: Any, words: str = "", *, aside: bool = False, read_when: ReadWhen | None = None, **more: Any) -> Any:
    """aside: it changes where or how fast a run goes, or how it is shown, and so is no part of a cell's identity."""
    metadata = {"words": words, "aside": aside, "read_when": read_when or {}, **more}
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def part(kind: type, words: str = "", *, aside: bool = False, read_when: ReadWhen | None = None) -> Any:
    """Keys below a key."""
    metadata = {"words": words, "aside": aside, "read_when": read_when or {}}
    return dataclasses.field(default_factory=kind, metadata=metadata)


def options_of(item: "dataclasses.Field[Any]") -> list[str]:
    options: Options = item.metadata.get("options", ())
    return list(options() if callable(options) else options)


def unread(section: Any) -> set[str]:
    """The keys of a section that nothing reads as the others stand."""
    found = {
        item.name
        for item in dataclasses.fields(section)
        for other, values in item.metadata.get("read_when", {}).items()
        if getattr(section, other) not in values
    }
    return found | (section.unread() if hasattr(section, "unread") else set())


def canonical(section: Any) -> dict[str, Any]:
    """A section's values as its identity has them: one way to spell what is the same."""
    values = _read(section)
    return section.canonical(values) if hasattr(section, "canonical") else values


def neutral(kind: type) -> dict[str, Any]:
    """The defaults that identities are the differences from."""
    return _read(kind())


def _read(section: Any) -> dict[str, Any]:
    """Without what is aside; what nothing reads stands at its default."""
    values: dict[str, Any] = {}
    defaults, idle = type(section)(), unread(section)
    for item in dataclasses.fields(section):
        if item.metadata.get("aside"):
            continue
        value = getattr(defaults if item.name in idle else section, item.name)
        if dataclasses.is_dataclass(value):
            value = _read(value)
        elif "members" in item.metadata:
            value = [member for member in item.metadata["members"] if member in value]
        values[item.name] = value
    return values


def words_of(section: type, path: Sequence[str]) -> str:
    """What a key below a section is, in words."""
    found = declared(section, path)
    return found[-1].metadata.get("words", "") if found else ""


def is_aside(section: type, path: Sequence[str]) -> bool:
    """Whether a key below a section, or one that it is inside of, is aside."""
    return any(item.metadata.get("aside") for item in declared(section, path))


def declared(section: Any, path: Sequence[str]) -> "list[dataclasses.Field[Any]]":
    """The declaration of a key below a section, after those of the keys that it is inside of."""
    found: list[dataclasses.Field[Any]] = []
    for name in path:
        items = dataclasses.fields(section) if dataclasses.is_dataclass(section) else ()
        found += [item for item in items if item.name == name]
        section = found[-1].type if found else None
    return found
