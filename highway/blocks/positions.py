"""Sinusoidal codes (Vaswani et al., 2017): of positions, Eqs. 4-5 of Highway Transformer; of distances, Eqs. 11, 13."""

import torch
from torch import Tensor


def sinusoids(length: int, width: int) -> Tensor:
    """Return PE (length, width): PE[pos, 2i] = sin(pos / 10000^(2i/d)), PE[pos, 2i+1] = cos(the same)."""
    angle = _angles(length, width)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


def distance_codes(length: int, width: int) -> Tensor:
    """Return the values of `sinusoids`, (length, width), with all sines before all cosines, as in Transformer-XL."""
    angle = _angles(length, width)
    return torch.cat((angle.sin(), angle.cos()), dim=-1).float()


def _angles(length: int, width: int) -> Tensor:
    position = torch.arange(length, dtype=torch.float64)[:, None]
    return position * 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
