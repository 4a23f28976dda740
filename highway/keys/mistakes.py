"""One sentence for a mistake in what a person has written: what is wrong, where, and what would be right."""

import math
from typing import Any, Literal, TypeVar, get_args

from annotated_types import Ge, Le
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from highway.errors import Refused, as_typed, closest, listing
from highway.keys.declare import fields_on, keys_of, options_of
from highway.keys.yaml_file import Yaml

Model = TypeVar("Model", bound=BaseModel)
Extra = Literal["ignore"] | None  # ignore: keys that the model does not know are left out
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
    where = _dotted(path, steps, file.content if file else None)
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


def _dotted(path: str, steps: list[Any], content: Any) -> str:
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
