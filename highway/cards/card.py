"""A card describes something that a configuration chooses by name, and names its code, without importing torch.

Gates, models, data sets, tasks, optimisers, schedules and callbacks have cards. A project of your own adds cards to the
same collections (docs/RECIPES.md).
"""

from collections import UserDict
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, TypeVar

from pydantic.dataclasses import dataclass

from highway.errors import Refused
from highway.keys.schema import STRICT, Written, matching

Code = Annotated[str, matching(r"[\w.]+:\w+", "a module and a name in it, as in mine.gates:MyGate")]


@dataclass(frozen=True, config=STRICT)
class Card:
    """A class or function that a configuration chooses by name, with the keys that it adds to its section."""

    code: Code  # "module:name"
    equation: str
    description: str  # for someone who has not read the paper
    options: type[Written] | None = None  # the keys of the section; None: those that every card of the kind has
    revision: int = 1  # part of a run's identity; raise it when a fix changes numbers


Kind = TypeVar("Kind")


class Cards(UserDict[str, Kind]):
    """The cards of a kind by name. A name keeps its code, because runs are identified by the name."""

    def __init__(self, kind: str, cards: Mapping[str, Kind]) -> None:
        self.kind = kind
        super().__init__(cards)

    def __setitem__(self, name: str, card: Kind) -> None:
        if name == "default" or (name == "none" and self.kind == "callback"):
            raise Refused(f"the {self.kind} {name} is what a configuration has without one. Use another name.")
        if name in self and _code(self[name]) != _code(card):  # a module may be imported again, as in a notebook
            raise Refused(
                f"the {self.kind} {name} has a card already, and its finished runs would pass for yours. "
                "Add your card under another name."
            )
        super().__setitem__(name, card)

    def __ior__(self, others: Any) -> "Cards[Kind]":  # type: ignore[override, misc]
        self.update(others)
        return self


def _code(card: Any) -> str:
    return str(card.reader if hasattr(card, "reader") else card.code)


def loaded(code: str) -> Any:
    """Import the module of "module:name" and return the class or function."""
    module, name = code.split(":")
    try:
        return getattr(import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise Refused(f"a card names the code {code}, which cannot be imported: {error}.") from error


def where(code: str) -> str:
    """Return the path of the file that contains the code."""
    return code.split(":")[0].replace(".", "/") + ".py"
