"""The keys that a person writes: declared as fields of pydantic models, and checked, with one sentence for a mistake.

A field has a type, a neutral default, bounds and a description. It also states whether its key names the run, and when
the key is read. The identity of a run consists of its differences from the neutral defaults. The defaults therefore
never change (tests/fixtures/neutral.yaml freezes them), and a new key at its neutral default changes no identity.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from annotated_types import Ge, Le
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from highway.errors import Refused, as_typed, closest, listing
from highway.keys.yaml_file import Yaml

STRICT = ConfigDict(strict=True, allow_inf_nan=False)
Options = Sequence[str] | Callable[[], Iterable[str]]
ReadWhen = Mapping[str, Sequence[object]]  # another key of the section -> its values with which this key has an effect
Model = TypeVar("Model", bound=BaseModel)
Extra = Literal["ignore"] | None  # ignore: keys that the model does not know are left out
LARGEST = 2**31 - 1  # the largest whole number of a key that has no bound of its own
TYPES = {  # type of a mistake -> what is right
    "int_type": "a whole number",
    "float_type": "a finite number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text",
    "string_too_short": "a text",
    "is_instance_of": "a folder",
    "list_type": "a list, as in [a,b]",
    "dict_type": "keys with values, as in {a:1}",
    "model_type": "keys with values, as in {a:1}",
    "invalid_key": "a text",
}


class Written(BaseModel):
    """Keys that a person writes: no other keys, no values of another type, no infinity."""

    model_config = ConfigDict(**STRICT, extra="forbid")

    @field_validator("*")
    @classmethod
    def _is_allowed(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[str(info.field_name)]
        options, members = options_of(field), list(declared(field, "members"))
        if options and value is not None and value not in options:
            raise PydanticCustomError("unknown", "", {"given": value, "options": options})
        if members and (unknown := [member for member in value if member not in members]):
            raise PydanticCustomError("unknown", "", {"given": unknown[0], "options": members})
        if members and not value and field.default:
            raise PydanticCustomError("empty", "", {"members": members})
        if type(value) is int and value > LARGEST and not any(isinstance(mark, Le) for mark in field.metadata):
            raise PydanticCustomError("less_than_equal", "", {"le": LARGEST})
        return value

    @model_validator(mode="after")
    def _is_consistent(self) -> "Written":
        self.check()
        return self

    def check(self) -> None:
        """Refuse values that do not fit together.

        Raise `Refused` with a whole sentence, or ValueError for one that begins with where the model was written.
        """


def _as_text(value: Any) -> Any:
    return str(value) if type(value) in (int, float) else value


def _as_folder(value: Any) -> Any:
    return Path(str(value)) if type(value) in (str, int, float) and str(value).strip() else value


Folder = Annotated[Path, BeforeValidator(_as_folder)]
Text = Annotated[str, BeforeValidator(_as_text)]  # a text that may look like a number, as in precision=32


def unlike(right: str, given: Any) -> PydanticCustomError:
    """Return the error of a value; `right` says what it must be, as in `a text`."""
    return PydanticCustomError("unlike", "", {"right": right, "given": given})


def matching(pattern: str, right: str) -> AfterValidator:
    """Require a text that matches a regular expression as a whole; `right` says in words what it must be."""

    def match(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise unlike(right, value)
        return value

    return AfterValidator(match)


def key(
    default: Any,
    description: str = "",
    *,
    low: float | None = None,
    high: float | None = None,
    options: Options = (),
    members: Sequence[str] = (),
    names_run: bool = True,
    read_when: ReadWhen | None = None,
) -> Any:
    """Declare a key.

    low, high: bounds of a number, both included.   options: the texts that it may be; a function is asked at each
    check, so that a new card is an option at once.   members: the texts of its list.
    names_run: False keeps it out of a run's identity: it changes only where or how fast a run computes, or what is
    shown.   read_when: the values of other keys of the section with which this key has an effect.
    """
    more: dict[str, Any] = {
        "options": options,
        "members": members,
        "names_run": names_run,
        "read_when": read_when or {},
    }
    return Field(default, description=description, ge=low, le=high, json_schema_extra=more)


def number(default: float | None, low: float, high: float | None = None, description: str = "", **more: Any) -> Any:
    """Declare a number from `low` to `high`, both included."""
    return key(default, description, low=low, high=high, **more)


def rate(description: str = "") -> Any:
    """Declare a dropout rate in [0, 0.999]."""
    return number(0.0, 0, 0.999, description)


def choice(default: str, *others: str, description: str = "", **more: Any) -> Any:
    """Declare a choice among fixed options, the default first."""
    return key(default, description, options=(default, *others), **more)


def several(*members: str, description: str = "", **more: Any) -> Any:
    """Declare a subset of these members, by default all; their order has no meaning."""
    return key(list(members), description, members=members, **more)


def part(kind: type[Written], description: str = "", **more: Any) -> Any:
    """Declare keys below a key."""
    return key(kind(), description, **more)


def declared(field: FieldInfo, name: str) -> Any:
    """Return what `key` declares of a field: options, members, names_run or read_when."""
    more = field.json_schema_extra
    default = {"names_run": True, "read_when": {}}.get(name, ())
    return more.get(name, default) if isinstance(more, dict) else default


def options_of(field: FieldInfo) -> list[str]:
    """Return the options of a key; an empty list if it takes any value of its type."""
    options: Options = declared(field, "options")
    return list(options() if callable(options) else options)


def fields_on(kind: Any, path: Sequence[str | int]) -> list[FieldInfo]:
    """Return the fields on the path to a key below a model, the key's own field last; fewer if there is no such key."""
    fields: list[FieldInfo] = []
    for step in path:
        keys = {} if isinstance(step, int) else keys_of(kind)
        if keys and step not in keys:
            break
        fields += [keys[str(step)]] if keys else []
        kind = fields[-1].annotation if keys else (get_args(kind) or (Any,))[-1]
    return fields


def keys_of(kind: Any) -> dict[str, FieldInfo]:
    """Return the keys of a type that is a model, a model or null, or a list of one; else none."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_fields
    return next((keys for each in get_args(kind) if (keys := keys_of(each))), {})


def dotted(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Return nested keys as dotted keys, as in an override."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = joined(path, str(key))
        flat |= dotted(value, name) if isinstance(value, dict) and value else {name: value}
    return flat


def joined(path: str | None, key: str) -> str:
    """Return the dotted key below a path; a file of the package `_global_` sets keys at the top."""
    return f"{path}.{key}" if path and path != "_global_" else key


def added(section: Written, base: type[Written]) -> dict[str, Any]:
    """Return the keys that the options of a card add to those of every card of the kind, with their values."""
    return {name: getattr(section, name) for name in type(section).model_fields if name not in base.model_fields}


def unread(section: Written) -> set[str]:
    """Return the keys of a section that have no effect, given the values of its other keys."""
    keys = {
        name
        for name, field in type(section).model_fields.items()
        for other, values in declared(field, "read_when").items()
        if getattr(section, other) not in values
    }
    return keys | (section.unread() if hasattr(section, "unread") else set())


def validated(
    kind: type[Model],
    values: Any,
    path: str = "",
    file: Yaml | None = None,
    extra: Extra = None,
) -> Model:
    """Return the values as a model, or refuse the first mistake.

    `path` leads to the values, and `file` is where they were written.
    """
    try:
        return kind.model_validate(values, extra=extra)
    except ValidationError as error:
        raise Refused(_sentence(error, kind, path, file)) from error


def bounds(low: float, high: float) -> str:
    """Return the range of a number in words."""
    ends = [str(end) if isinstance(end, int) else f"{end:g}" for end in (low, high)]
    return f"at least {ends[0]}" if high == math.inf else f"from {ends[0]} to {ends[1]}"


def _sentence(error: ValidationError, kind: type[BaseModel], path: str, file: Yaml | None) -> str:
    mistakes = error.errors(include_url=False)
    mistake = next((each for each in mistakes if each["type"] == "extra_forbidden"), mistakes[0])
    wrong, about = mistake["type"], mistake.get("ctx", {})
    steps = [step for step in mistake["loc"] if step != "[key]"]
    where = _named(path, steps, file.content if file else None)
    place = f"{file.line_of(steps)}: " if file else ""
    fields = fields_on(kind, steps)
    if wrong == "value_error":  # raised by Written.check
        return f"{place}{where}{': ' if where else ''}{about['error']}"
    if wrong == "missing":
        return f"{place}{where} is missing."
    if wrong == "extra_forbidden":
        known = list(keys_of(fields[-1].annotation if fields else kind))
        return f"{place}{where} is not a key.{closest(str(steps[-1]), known)} Available: {listing(known)}."
    value = about.get("given", mistake["input"])
    given = f"{place}{where or 'the content'}={as_typed(value)}"
    is_its_key = len(fields) == len(steps)  # and no member of a list, and no name in a dictionary
    null = " or null" if fields and is_its_key and type(None) in get_args(fields[-1].annotation) else ""
    if wrong == "empty":
        return f"{given} is empty. Name at least one of {listing(about['members'])}."
    if options := about.get("options") or (options_of(fields[-1]) if fields and wrong == "string_type" else []):
        return f"{given} is unknown.{closest(str(value), options)} Available: {listing(options)}{null}."
    if wrong in ("greater_than_equal", "less_than_equal"):
        return f"{given} is out of range; it must be {_range(fields[-1], about)}."
    right = about.get("right") or TYPES.get(wrong) or mistake["msg"]
    hint = " Quote a text that has ': ' in it or is a number." if file and wrong == "string_type" else ""
    return f"{given} must be {right}{null}.{hint}"


def _named(path: str, steps: list[Any], content: Any) -> str:
    """Return the steps to a value as one name, as in rows[tanh].paper; a member of a list is called by its id."""
    for step in steps:
        content = _inside(content, step)
        if isinstance(step, int):
            name = _inside(content, "id")
            path += f"[{name if isinstance(name, str) else step}]"
        else:
            path = f"{path}.{step}" if path else str(step)
    return path


def _inside(content: Any, step: Any) -> Any:
    """Return the value under a key, or of a member of a list; None if there is none."""
    try:
        return content[step]
    except (LookupError, TypeError):
        return None


def _range(field: FieldInfo, about: dict[str, Any]) -> str:
    low: Any = next((mark.ge for mark in field.metadata if isinstance(mark, Ge)), None)
    high: Any = next((mark.le for mark in field.metadata if isinstance(mark, Le)), about.get("le", math.inf))
    return bounds(low, high)
