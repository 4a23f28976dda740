"""The position-wise feed-forward layer, Eq. 8: FF(ReLU(FF(u)))."""

import torch.nn.functional as F
from torch import Tensor, nn

from highway.blocks.dropout import dropout


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int, dropout_rate: float) -> None:
        super().__init__()
        self.inner = nn.Linear(width, inner)
        self.outer = nn.Linear(inner, width)
        self.dropout = dropout_rate

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, D)
        hidden = F.relu(self.inner(x))
        return self.outer(dropout(hidden, self.dropout, self.training))
