"""docs/TABLES.md lists the keys of a table file. To write it anew:  python -m tests.project.test_tables_page

The sections after the marker come from the models of highway/tables/table.py; what stands before is written by hand.
"""

import re
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from highway.keys.schema import declared
from highway.keys.yaml_file import parsed
from highway.tables.choose import Choose
from highway.tables.reading import read_table
from highway.tables.table import Claim, Column, Epochs, Figure, Override, Row, Stated, Table
from tests.support.commands import ROOT

PAGE = ROOT / "docs" / "TABLES.md"
MARKER = re.compile(r"^<!--.*-->$", re.MULTILINE)
MODELS: tuple[type[BaseModel], ...] = (Table, Row, Column, Claim, Figure, Choose, Stated)
TYPES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Override: "override",
    Epochs: "two whole numbers or `all`",
}
SETTINGS = (  # the keys of Choose that no field declares
    "| any setting, as in `optimizer.lr` | list of values | The values to try, or a list for each source, as in "
    "`{paper: [0.1], own: [0.01]}`. Several settings are combined. |"
)


def type_of(kind: Any) -> str:
    """Return the type of a key in words, with a link to the section of a model."""
    if kind in TYPES:
        return TYPES[kind]
    if kind in MODELS:
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    inner = type_of(get_args(kind)[-1 if get_origin(kind) is dict else 0])
    several = inner if inner.startswith(("list", "[")) else f"{inner}s"
    names = {dict: f"mapping to {several}", list: f"list of {several}"}
    return names.get(get_origin(kind), inner)  # else Annotated, or a type or null


def line(name: str, field: FieldInfo) -> str:
    """Return the line of a key: its name, its type and default, its description."""
    kind, default = type_of(field.annotation), "required" if field.is_required() else ""
    options = declared(field, "options")
    if options and not callable(options):  # a callable lists dozens of metrics
        kind, default = " or ".join(f"`{option}`" for option in options), f"default `{field.default}`"
    return f"| `{name}` | {', '.join(filter(None, (kind, default)))} | {field.description} |"


def section(model: type[BaseModel]) -> str:
    """Return the section of a model: what it is, and a table of its keys."""
    text = re.sub(r"\n +", "\n", (model.__doc__ or "").strip())
    lines = [line(name, field) for name, field in model.model_fields.items()]
    if model is Choose:
        lines.append(SETTINGS)
    return "\n".join(
        [f"## {model.__name__}", "", text, "", "| key | type | description |", "| --- | --- | --- |", *lines]
    )


def page() -> str:
    """Return the page: what is written by hand, then a section for each model."""
    before = PAGE.read_text()
    (marker,) = MARKER.finditer(before)
    return "\n\n".join([before[: marker.end()], *map(section, MODELS)]) + "\n"


def test_the_page_lists_every_key() -> None:
    assert PAGE.read_text() == page(), "docs/TABLES.md is stale. Type: python -m tests.project.test_tables_page"


def test_every_key_has_one_sentence() -> None:
    fields = {f"{model.__name__}.{name}": field for model in MODELS for name, field in model.model_fields.items()}
    assert not {name for name, field in fields.items() if not re.fullmatch(r"[A-Z`].*\.", field.description or "")}


def test_the_example_of_the_page_is_a_table() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.S)
    table = read_table(parsed(example.encode(), "rates.yaml"))
    assert [row.id for row in table.rows] == ["none", "tanh", "highway"]


if __name__ == "__main__":
    PAGE.write_text(page())
