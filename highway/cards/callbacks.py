"""The cards of Lightning callbacks, which a project adds; those of highway/run/ are in every run and need none."""

from typing import Any

from highway.cards.card import Card, Cards
from highway.keys.schema import Written, added, key

CALLBACKS: Cards[Card] = Cards("callback", {})


class CallbackOptions(Written):
    """The keys of every callback."""

    name: str = key("none", "a Lightning callback", options=lambda: ("none", *CALLBACKS))

    def arguments(self) -> dict[str, Any]:
        """Return what the callback's code takes: the options that a card adds, by name."""
        return added(self, CallbackOptions)
