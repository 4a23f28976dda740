"""Replace one part of our model by what the model's authors or a public package use.

LocalRNN on gathered windows   torch.nn's recurrent network on windows (B T, M, D), as in the R-Transformer code
pytorch-tcn                    the package's stack of residual blocks
plain loop                     the time loop of a recurrent highway network in plain PyTorch, under autograd; like ours,
                               the loop is never compiled (highway/run/compiled.py)

Shapes: B batch, T time, M window of the LocalRNN, D width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.local_rnn import LocalRNN
from highway.models.tcn import TCNBackbone
from highway.run import build
from highway.timing.stopwatch import Contender, Entry

KERNELS: dict[str, Any] = {"RNN": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}


class GatheredWindows(nn.Module):
    def __init__(self, local: LocalRNN) -> None:
        super().__init__()
        width = local.weight_hh.shape[1]
        self.window = local.window
        self.recurrent = KERNELS[local.cell.__name__](width, width, batch_first=True).to(local.weight_hh)
        self.recurrent.load_state_dict({f"{name}_l0": value for name, value in local.state_dict().items()})

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        if isinstance(self.recurrent, nn.LSTM) and x.is_cpu and torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):  # as our own layers do (highway/models/recurrent.py)
                return self.forward(x.float())
        windows = F.pad(x, (0, 0, self.window - 1, 0)).unfold(1, self.window, 1)  # (B, T, D, M)
        states, _ = self.recurrent(windows.transpose(2, 3).reshape(-1, self.window, x.shape[2]))
        return states[:, -1].view_as(x)


def gather(model: nn.Module) -> None:
    for module in list(model.modules()):
        for name, part in module.named_children():
            if isinstance(part, LocalRNN):
                setattr(module, name, GatheredWindows(part))


class PublicTCN(nn.Module):
    def __init__(self, ours: TCNBackbone) -> None:
        super().__init__()
        from pytorch_tcn import TCN

        blocks: list[Any] = list(ours.blocks)
        channels = [len(block.second.gain) for block in blocks]
        inputs, kernel = blocks[0].first.weight.shape[1:]
        about: dict[str, Any] = {"dilations": [2**level for level in range(len(blocks))], "dropout": blocks[0].dropout}
        self.inner = TCN(inputs, channels, kernel, causal=True, use_norm="weight_norm", activation="relu", **about)

    def forward(self, x: Tensor, state: None = None) -> tuple[Tensor, None]:
        return self.inner(x.transpose(1, 2)).transpose(1, 2), None


def take_public(model: Any) -> None:
    model.backbone = PublicTCN(model.backbone)


def plain_loop(
    gate: nn.Module,
    reads: Tensor,
    state: Tensor,
    drop: Tensor | None,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
) -> Tensor:
    """Compute what highway.blocks.rhn_loop.Loop computes, in plain PyTorch.

    reads (T, B, maps D), state and drop (B, D), weights (maps D, D), biases (maps D) -> states (T, B, D); maps: 2 or 3.
    """
    states = []
    for read in reads:
        s = state
        for layer, weight in enumerate(weights):
            u = s if drop is None else s * drop
            maps = F.linear(u, weight, biases[layer - 1]) if layer else F.linear(u, weight) + read
            h, t, *c = maps.chunk(weight.shape[0] // weight.shape[1], 1)
            h, t = torch.tanh(h), torch.sigmoid(t)
            s = h * t + s * torch.sigmoid(c[0]) if c else s + (h - s) * t
        state = gate(state, s, drop)
        states.append(state)
    return torch.stack(states)


def take_plain_loop(model: Any) -> None:
    for layer in model.backbone.layers:
        layer.loop = partial(plain_loop, layer.gate)


SWAPS: dict[str, Callable[[Any], None]] = {
    "R-Transformer on gathered windows": gather,
    "pytorch-tcn": take_public,
    "plain loop": take_plain_loop,
}


@dataclass(frozen=True)
class Swapped(Entry):
    public: str = ""  # one of SWAPS

    @property
    def kind(self) -> str:
        return self.public

    def task(self) -> Any:
        task = super().task()
        SWAPS[self.public](task.model)
        return task


@dataclass(frozen=True)
class LayerAlone(Entry):
    """One LocalRNN of the model by itself, forward and backward pass, on an input (lanes, window, width)."""

    gathered: bool = False

    @property
    def kind(self) -> str:
        return "LocalRNN on gathered windows" if self.gathered else "ours"

    def batch(self) -> Tensor:
        lanes, window = build.like_real(self.shape, self.device)[0].shape[:2]
        return torch.randn(lanes, window, self.shape.model.width, device=self.device, requires_grad=True)

    def build(self) -> Contender:
        model = build.model(self.shape)
        local: Any = next(part for part in model.modules() if isinstance(part, LocalRNN))
        layer = (GatheredWindows(local) if self.gathered else local).to(self.device)
        return self.contender(layer, lambda x: layer(x).sum(), torch.optim.SGD(layer.parameters(), lr=1e-6), lambda: 0)
