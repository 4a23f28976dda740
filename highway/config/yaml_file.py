"""Read YAML that somebody else wrote: a mistake is refused with the name of its file and the line.

Keys that are given twice, aliases that expand to more than memory holds, and texts that are not UTF-8 are refused.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from highway.errors import Refused

LARGEST = 1 << 20  # the most bytes of a file
VALUES = 100_000  # the most values in a file; those behind an alias count again for each use of the alias
DEEPEST = 100  # values inside one another
MERGE = "tag:yaml.org,2002:merge"


Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Keys(dict[Any, Any]):
    """The keys and values of a file, with the line of each key."""

    lines: dict[Any, int] = {}


class LoaderOfKeys(Loader):  # type: ignore[misc]
    """PyYAML's loader of plain values, which gives mappings as `Keys`."""

    def keys_of(self, node: yaml.MappingNode) -> Iterator[Keys]:
        keys = Keys()
        yield keys
        keys.update(self.construct_mapping(node))
        keys.lines = {key.value: key.start_mark.line + 1 for key, _ in node.value}


LoaderOfKeys.add_constructor("tag:yaml.org,2002:map", LoaderOfKeys.keys_of)


def read_yaml(path: Path, loader: Any = Loader) -> Any:
    """Return the content of a YAML file; with `LoaderOfKeys`, mappings know the lines of their keys."""
    with open(path, "rb") as file:
        return parsed(file.read(LARGEST + 1), str(path), loader)


def parsed(text: bytes, name: str, loader: Any = Loader) -> Any:
    """Return the content of a YAML text; `name` names it in messages."""
    if len(text) > LARGEST:
        raise Refused(f"{name} is larger than {LARGEST:,} bytes. It must hold settings only.")
    try:
        _no_deep_nesting(text.decode(), name)
        reader = loader(text.decode())
        node = reader.get_single_node()
        _count(node, name, {})
        return None if node is None else reader.construct_document(node)
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        raise Refused(f"{name}, line {line}, is not UTF-8 text. Save the file as UTF-8.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f", line {mark.line + 1}," if mark else ""
        raise Refused(f"{name}{position} is not valid YAML: {error.problem or error.context}.") from error
    except (yaml.YAMLError, ValueError) as error:
        raise Refused(f"{name} is not valid YAML: {' '.join(str(error).split())}.") from error


def _no_deep_nesting(text: str, name: str) -> None:
    """Refuse values inside one another by the hundred: libyaml crashes on them when it builds values."""
    depth = 0
    for event in yaml.parse(text, Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            line = text.count("\n", 0, event.start_mark.index) + 1 if event.start_mark else 1
            raise Refused(f"{name}, line {line}: more than {DEEPEST} values inside one another.")


def _count(node: yaml.Node | None, name: str, counted: dict[int, int]) -> int:
    """Return the number of values in a node, aliases expanded; refuse too many, and a key that is given twice."""
    if node is None or isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in counted:
        if counted[id(node)] == 0:
            raise Refused(f"{name}, line {node.start_mark.line + 1}: a value contains itself.")
        return counted[id(node)]
    counted[id(node)] = 0
    if isinstance(node, yaml.MappingNode):
        _no_key_twice(node, name)
        children = [child for pair in node.value for child in pair]
    else:
        children = list(node.value)
    total = 1 + sum(_count(child, name, counted) for child in children)
    if total > VALUES:
        raise Refused(f"{name} has more than {VALUES:,} values, aliases expanded.")
    counted[id(node)] = total
    return total


def _no_key_twice(node: yaml.MappingNode, name: str) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        line, spelled = key.start_mark.line + 1, (key.tag, str(key.value))
        if isinstance(key, yaml.ScalarNode) and key.tag != MERGE and spelled in lines:
            raise Refused(f"{name}, line {line}: '{key.value}' is given twice, first in line {lines[spelled]}.")
        lines[spelled] = line
