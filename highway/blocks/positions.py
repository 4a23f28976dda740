"""Absolute sinusoidal positions, Eqs. 4-5 of Highway Transformer (Vaswani et al., 2017)."""

import torch
from torch import Tensor


def sinusoids(length: int, width: int) -> Tensor:
    """PE[pos, 2i] = sin(pos / 10000^(2i/d)), PE[pos, 2i+1] = cos(the same); (length, width)."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = position * frequency
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()
