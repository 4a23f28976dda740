"""Dropout whose random numbers are cheap on a CPU.

torch's CPU dropout makes one 24-bit draw per element, which is the largest single cost of training a small
Transformer. Here one 64-bit draw serves four elements: an element is dropped when its 16 bits fall below
p * 65536. The probability is p to within 1/131072, and kept values are scaled by the exact inverse of the
probability that was used, so the expectation is exact. On CUDA, and in compiled graphs, torch's own kernel is best.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 1 << 16
LOWEST = -(1 << 63)


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    if not training or probability == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, probability)
    dropped = round(probability * LEVELS)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(LOWEST, None)
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)  # uniform on -32768 ... 32767
    keep = torch.ge(draws, dropped - LEVELS // 2, out=torch.empty(x.shape, dtype=x.dtype))  # 0 or 1, in one pass
    return x * keep.mul_(LEVELS / (LEVELS - dropped))
