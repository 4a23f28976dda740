"""What stands around a backbone: ends know what its vectors are, the backbone does not.

A model is its ends with the backbone inside; there is a file for each kind (`symbols`, `pieces`, `values`).
Names of parameters are flat: `backbone` stands in none of them, so that a parameter is called the same, and starts the
same, whatever stands around its backbone.
"""

from collections.abc import Iterator
from typing import Any

from torch import nn

INSIDE = "backbone"


class Ends(nn.Module):
    """Everything that a task does with its model, it does with its ends."""

    backbone: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self.register_state_dict_post_hook(_without_backbone)
        self.register_load_state_dict_pre_hook(_with_backbone)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """In the order of one flat module: own parameters of both first, then the parts as they were made."""
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
