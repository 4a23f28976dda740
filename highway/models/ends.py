"""Ends: the input and output layers around a backbone. They know what its vectors represent; the backbone does not.

A model is its ends with the backbone inside; each kind of ends has a file (`symbols`, `pieces`, `values`). Names of
parameters are flat: none contains `backbone`. A parameter of a backbone therefore has the same name and the same
initial values with any ends.
"""

from collections.abc import Iterator
from typing import Any

from torch import nn

INSIDE = "backbone"


class Ends(nn.Module):
    """The base of all ends. A task uses its model only through its ends."""

    backbone: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self.register_state_dict_post_hook(_without_backbone)
        self.register_load_state_dict_pre_hook(_with_backbone)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """Yield modules by name as if the backbone's parts were parts of the ends.

        The ends and the backbone come first, under the same name; their parts follow in the order of construction.
        """
        memo = set() if memo is None else memo
        yield prefix, self
        yield prefix, self.backbone
        memo |= {self, self.backbone}
        for name, part in self.named_children():
            inside = part.named_children() if name == INSIDE else [(name, part)]
            for inner, module in inside:
                yield from module.named_modules(memo, f"{prefix}.{inner}".lstrip("."), remove_duplicate)


def _without_backbone(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    for name in [name for name in state if name.startswith(f"{prefix}{INSIDE}.")]:
        state[prefix + name.removeprefix(f"{prefix}{INSIDE}.")] = state.pop(name)


def _with_backbone(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    own = {*module._parameters, *module._buffers, *module._modules}
    for name in [name for name in state if name.startswith(prefix)]:
        if name.removeprefix(prefix).split(".")[0] not in own:
            state[f"{prefix}{INSIDE}.{name.removeprefix(prefix)}"] = state.pop(name)
