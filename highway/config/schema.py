"""Types as schemas: `check_of` finds where a value that was read from a file does not have its declared type.

A table file (highway/sweep/table.py) declares its keys as classes, whose annotations are read here. These types are
understood:

Any, str, bool, int, float     `true` is not a number; a float is finite, and may be written as a whole number
X | Y, Literal[...]            any of these
list[X], tuple[X, ...]         a list
dict[str, X]                   keys of any name
a dataclass                    its keys and no others; those without a default are required, and
                               metadata={"written": X} gives a field another type in a file, None none at all
Annotated[int, Range(0, 1)]    one of the marks below, beside one of the first line's types
"""

import dataclasses
import math
import re
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from highway.errors import closest, listing

LONGEST = 1 << 16  # characters of a text
LARGEST = 2**63  # whole numbers are below it
WORDS: dict[Any, str] = {
    Any: "",
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    NoneType: "null",
}
Check = Callable[[Any], None]
PLAIN: dict[Any, Callable[[Any], bool]] = {  # `type` and not isinstance, for which True is a whole number
    Any: lambda value: True,
    str: lambda value: type(value) is str and len(value) <= LONGEST,
    bool: lambda value: type(value) is bool,
    int: lambda value: type(value) is int and abs(value) < LARGEST,
    float: lambda value: (
        (type(value) is int and abs(value) < LARGEST) or (type(value) is float and math.isfinite(value))
    ),
    NoneType: lambda value: value is None,
}


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from low to high."""

    low: float
    high: float = math.inf

    def fits(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"at least {self.low:g}" if self.high == math.inf else f"from {self.low:g} to {self.high:g}"


@dataclasses.dataclass(frozen=True)
class Pattern:
    """Texts that match a regular expression."""

    expression: str
    description: str

    def fits(self, value: str) -> bool:
        return re.fullmatch(self.expression, value) is not None

    def __str__(self) -> str:
        return self.description


class Wrong(Exception):
    """A value does not have its type. `where`: its keys, the innermost first; `what`: the rest of the sentence."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.where: list[str | int] = []
        self.path = ""  # `where` as a text, such as rows[baseline].paper.test_bpc

    def __str__(self) -> str:
        return f"{self.path.removeprefix('.')} {self.what}".strip()

    def inside(self, key: str | int, name: object = None) -> "Wrong":
        """Return the same mistake, seen from the value that holds this one under `key`; a list's member has a name."""
        self.where.append(key)
        step = f".{as_key(key)}" if isinstance(key, str) else f"[{as_key(name or key + 1)}]"
        self.path = f"{step}{self.path}"
        return self


def as_key(key: object) -> str:
    """Return a key for a message: short, in one line, printable."""
    text = str(key)[:40]
    return text if text.isprintable() else repr(text)


@cache
def check_of(kind: Any) -> Check:
    """Return a function that raises `Wrong` if a value, or a value inside it, does not have the type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return _check_that(PLAIN[kind], kind)
    if origin is Literal:
        return _check_that(lambda value: type(value) is str and value in arguments, kind)
    if origin is Annotated:
        first, *marks = arguments
        plain = PLAIN[first]
        return _check_that(lambda value: plain(value) and all(mark.fits(value) for mark in marks), kind)
    if origin in (Union, UnionType):
        return _check_any([check_of(each) for each in arguments], kind)
    if origin in (list, tuple):
        return _check_list(check_of(arguments[0]), kind)
    return _check_table(*map(check_of, arguments)) if origin is dict else _check_keys(kind)


def _check_that(fits: Callable[[Any], bool], kind: Any) -> Check:
    def check(value: Any) -> None:
        if not fits(value):
            raise Wrong(f"is not {described(kind)}")

    return check


def _check_any(checks: list[Check], kind: Any) -> Check:
    """Check for a union; the mistake that lies deepest is the one to report."""

    def check(value: Any) -> None:
        deepest = Wrong(f"is not {described(kind)}")
        for each in checks:
            try:
                return each(value)
            except Wrong as wrong:
                if len(wrong.where) > len(deepest.where):
                    deepest = wrong
        raise deepest

    return check


def _check_list(member: Check, kind: Any) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, list | tuple):
            raise Wrong(f"is not {described(kind)}")
        for number, each in enumerate(value):
            try:
                member(each)
            except Wrong as wrong:
                raise wrong.inside(number, each.get("id") if isinstance(each, dict) else None) from None

    return check


def _check_table(key_fits: Check, member: Check) -> Check:
    def check(value: Any) -> None:
        _is_mapping(value)
        for key, each in value.items():
            try:
                key_fits(key)
                member(each)
            except Wrong as wrong:
                raise wrong.inside(as_key(key)) from None

    return check


def _check_keys(kind: Any) -> Check:
    types, required = keys_of(kind)
    checks = {key: check_of(each) for key, each in types.items()}
    known = list(types)

    def check(value: Any) -> None:
        _is_mapping(value)
        for key, each in value.items():
            if isinstance(key, str) and key in checks:
                try:
                    checks[key](each)
                except Wrong as wrong:
                    raise wrong.inside(key) from None
            else:
                raise Wrong(f"has no key '{as_key(key)}'.{closest(str(key), known)} Available: {listing(known)}")
        for key in required:
            if key not in value:
                raise Wrong("is missing").inside(key)

    return check


def _is_mapping(value: Any) -> None:
    if not isinstance(value, dict):
        raise Wrong("is not a set of keys with values")


def keys_of(kind: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the type of each key of a class, and the keys that are required."""
    types = get_type_hints(kind, include_extras=True)
    fields = [each for each in dataclasses.fields(kind) if each.metadata.get("written", types) is not None]
    types = {each.name: each.metadata.get("written", types[each.name]) for each in fields}
    missing = dataclasses.MISSING
    return types, tuple(each.name for each in fields if each.default is missing and each.default_factory is missing)


def described(kind: Any) -> str:
    """Describe a type, for the end of `... is not`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in WORDS:
        return WORDS[kind]
    if origin is Annotated:
        first, *marks = arguments
        patterns = [str(mark) for mark in marks if isinstance(mark, Pattern)]
        return patterns[0] if patterns else " ".join([described(first), *map(str, marks)]).strip()
    if origin is Literal:
        return f"one of {listing(list(arguments))}"
    if origin in (Union, UnionType):
        return " or ".join(map(described, arguments))
    return "a list" if origin in (list, tuple) else "a set of keys with values"
