"""Read YAML that a person wrote, and write it: a mistake is refused with its file and line.

A key that is given twice is refused, and `1e-4` is a number, as it is for Hydra.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from highway.errors import Refused

SCIENTIFIC = re.compile(r"[-+]?\d[\d_]*(\.[\d_]*)?[eE][-+]?\d+$")  # 1e-4, which YAML 1.1 takes for a text
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(_Loader):  # type: ignore[misc]
    """PyYAML's loader of plain values, which like OmegaConf takes 1e-4 for a number, and no text for a date."""

    yaml_implicit_resolvers = {
        first: [(tag, texts) for tag, texts in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in _Loader.yaml_implicit_resolvers.items()
    }


class Dumper(yaml.SafeDumper):
    """PyYAML's dumper, which quotes a text that would be read as a number."""


for reader_or_writer in (Loader, Dumper):
    reader_or_writer.add_implicit_resolver("tag:yaml.org,2002:float", SCIENTIFIC, list("-+0123456789"))


@dataclass(frozen=True)
class Yaml:
    """The content of a YAML file, and the line of each of its keys."""

    name: str
    content: Any
    node: yaml.Node | None

    def line_of(self, path: Iterable[str | int]) -> str:
        """Return the file, and the line of the innermost key on the path to a value."""
        node, line = self.node, None
        for step in path:
            if isinstance(node, yaml.MappingNode):
                key, node = next((pair for pair in node.value if pair[0].value == str(step)), (None, None))
                line = key.start_mark.line + 1 if key else line
            elif isinstance(node, yaml.SequenceNode):
                node = node.value[step] if isinstance(step, int) and step < len(node.value) else None
        return self.name if line is None else f"{self.name}, line {line}"


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file."""
    return parsed(path.read_bytes(), str(path)).content


def as_yaml(content: Any) -> str:
    """Return content as YAML, which `read_yaml` reads back."""
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, width=120)


def parsed(text: bytes, name: str) -> Yaml:
    """Return the content of a YAML text; `name` names it in messages."""
    try:
        loader = Loader(text.decode())
        node = loader.get_single_node()
        _refuse_a_key_that_is_given_twice(node, name)
        return Yaml(name, None if node is None else loader.construct_document(node), node)
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        raise Refused(f"{name}, line {line}, is not UTF-8 text. Save the file as UTF-8.") from error
    except yaml.MarkedYAMLError as error:
        raise not_valid(error, name) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Refused(f"{name} is not valid YAML: {' '.join(str(error).split())}.") from error


def not_valid(error: yaml.MarkedYAMLError, name: str = "") -> Refused:
    """Return the refusal of a text that is no YAML; without a name, that of the file from which it was read."""
    mark = error.problem_mark or error.context_mark
    place = f"{name or mark.name}, line {mark.line + 1}," if mark else name
    return Refused(f"{place} is not valid YAML: {error.problem or error.context}.")


def _refuse_a_key_that_is_given_twice(root: yaml.Node | None, name: str) -> None:
    nodes, seen = [root], set[int]()  # an alias leads to a node that has been seen
    while nodes:
        node = nodes.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        lines: dict[str, int] = {}
        for key, value in node.value if isinstance(node, yaml.MappingNode) else []:
            line, spelled = key.start_mark.line + 1, str(key.value)
            if spelled in lines:
                raise Refused(f"{name}, line {line}: '{spelled}' is given twice, first in line {lines[spelled]}.")
            lines[spelled] = line
            nodes.append(value)
        nodes += node.value if isinstance(node, yaml.SequenceNode) else []
