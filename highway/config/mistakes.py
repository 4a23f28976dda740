"""One sentence for a mistake in what a person has written: what is wrong, where, and what would be right."""

import math
import re
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from highway.config.keys import LARGEST, fields_on, keys_of
from highway.config.yaml_file import Yaml
from highway.errors import Refused, as_typed, closest, listing

NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?", re.IGNORECASE)
TYPES = {  # type of a mistake -> what is right
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list, as in [a,b]",
    "dict_type": "keys with values",
    "model_type": "keys with values",
}

Model = TypeVar("Model", bound=BaseModel)


def checked(kind: type[Model], file: Yaml) -> Model:
    """Return the content of a YAML file as a model; a mistake is refused with its file and line."""
    try:
        return kind.model_validate(file.content)
    except ValidationError as error:
        raise refused(error, kind, file=file) from None


def refused(error: ValidationError, kind: type[BaseModel], path: str = "", file: Yaml | None = None) -> Refused:
    """Return the refusal of a model's first mistake; `path` leads to the model, and `file` is where it was written."""
    mistakes = error.errors(include_url=False)
    mistake = next((each for each in mistakes if each["type"] == "extra_forbidden"), mistakes[0])
    steps = [step for step in mistake["loc"] if step != "[key]"]
    fields = fields_on(kind, steps)
    place = f"{file.line_of(steps)}: " if file else ""
    where = _dotted(path, steps, file.content if file else None)
    wrong, about = mistake["type"], mistake.get("ctx", {})
    if wrong == "value_error":  # of Written.check
        return Refused(f"{place}{where}{': ' if where else ''}{about['error']}")
    if wrong == "missing":
        return Refused(f"{place}{where} is missing.")
    if wrong == "extra_forbidden":
        known = list(keys_of(fields[-1].annotation if fields else kind))
        return Refused(f"{place}{where} is not a key.{closest(str(steps[-1]), known)} Available: {listing(known)}.")
    value = about.get("given", mistake["input"])
    given = f"{place}{where or 'the content'}={as_typed(value)}"
    if wrong == "unknown":
        options = about["options"]
        return Refused(f"{given} is unknown.{closest(value, options)} Available: {listing(options)}.")
    if wrong in ("greater_than_equal", "less_than_equal"):
        allowed = f"at most {LARGEST}" if about.get("le") == LARGEST else _range(fields[-1])
        return Refused(f"{given} is out of range; it must be {allowed}.")
    if wrong == "unlike":
        return Refused(f"{given} must be {about['right']}.")
    null = " or null" if fields and type(None) in get_args(fields[-1].annotation) else ""
    hint = " Quote a text that has ': ' in it or is a number." if file and wrong == "string_type" else ""
    if wrong in ("int_type", "float_type") and isinstance(value, str) and NUMBER.fullmatch(value):
        hint = " Leave out the quotes."
    return Refused(f"{given} must be {TYPES.get(wrong) or mistake['msg']}{null}.{hint}")


def _dotted(path: str, steps: list[Any], content: Any) -> str:
    """Return the steps to a value as one name, as in rows[tanh].paper; a member of a list is called by its id."""
    for step in steps:
        content = content[step] if isinstance(content, dict | list) and step in _steps(content) else None
        if isinstance(step, int):
            path += f"[{content.get('id', step) if isinstance(content, dict) else step}]"
        else:
            path = f"{path}.{step}" if path else str(step)
    return path


def _steps(content: dict[Any, Any] | list[Any]) -> Any:
    return content if isinstance(content, dict) else range(len(content))


def _range(field: FieldInfo) -> str:
    """Return the bounds of a number, or an empty text if it has none."""
    low, high = (
        next((getattr(mark, end) for mark in field.metadata if hasattr(mark, end)), None) for end in ("ge", "le")
    )
    return "" if low is None else bounds(low, math.inf if high is None else high)


def bounds(low: float, high: float) -> str:
    """Return the range of a number in words."""
    return f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
