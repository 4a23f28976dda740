"""One sentence for a mistake in what a person has written: what is wrong, where, and what would be right."""

from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from highway.config.keys import LARGEST, fields_on, keys_of, options_of
from highway.config.yaml_file import Yaml
from highway.errors import Refused, as_typed, closest, listing

TYPES = {  # type of a mistake -> what is right
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text",
    "string_too_short": "a text",
    "is_instance_of": "a folder",
    "list_type": "a list, as in [a,b]",
    "dict_type": "keys with values",
    "model_type": "keys with values",
}


def validated(kind: type[BaseModel], values: Any, path: str = "", extra: Literal["ignore"] | None = None) -> Any:
    """Return the values as a model, or refuse the first mistake; with extra="ignore", leave unknown keys out."""
    try:
        return kind.model_validate(values, extra=extra)
    except ValidationError as error:
        raise refused(error, kind, path) from error


def refused(error: ValidationError, kind: type[BaseModel], path: str = "", file: Yaml | None = None) -> Refused:
    """Return the refusal of a model's first mistake; `path` leads to the model, and `file` is where it was written."""
    mistakes = error.errors(include_url=False)
    mistake = next((each for each in mistakes if each["type"] == "extra_forbidden"), mistakes[0])
    steps = [step for step in mistake["loc"] if step != "[key]"]
    fields = fields_on(kind, steps)
    place = f"{file.line_of(steps)}: " if file else ""
    where = _dotted(path, steps, file.content if file else None)
    wrong, about = mistake["type"], mistake.get("ctx", {})
    if wrong == "missing":
        return Refused(f"{place}{where} is missing.")
    if wrong == "extra_forbidden":
        known = list(keys_of(fields[-1].annotation if fields else kind))
        return Refused(f"{place}{where} is not a key.{closest(str(steps[-1]), known)} Available: {listing(known)}.")
    value = about.get("given", mistake["input"])
    given = f"{place}{where}={as_typed(value)}"
    null = " or null" if fields and type(None) in get_args(fields[-1].annotation) else ""
    if options := about.get("options") or (options_of(fields[-1]) if fields and wrong == "string_type" else []):
        return Refused(f"{given} is unknown.{closest(str(value), options)} Available: {listing(options)}{null}.")
    if wrong in ("greater_than_equal", "less_than_equal"):
        allowed = f"at most {LARGEST}" if about.get("le") == LARGEST else _range(fields[-1])
        return Refused(f"{given} is out of range; it must be {allowed}.")
    hint = " Quote a text that has ': ' in it or is a number." if file and wrong == "string_type" else ""
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
    if low is None or high is None:
        return f"at least {low:g}" if low is not None else ""
    return f"from {low:g} to {high:g}"
