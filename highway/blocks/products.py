"""Repeated products of one matrix with inputs of few rows.

The general product on a CPU packs the matrix at each call. With 20 rows, packing costs as much as the product itself.
oneDNN can pack the matrix once for all calls, if the processor has the kernel (blocks/processor.py).
"""

import time
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from highway.blocks.processor import packs

PACKABLE = (torch.float32, torch.bfloat16)
# The precision that autocast asks for -> the precision in which this CPU computes products. It is chosen once in a run
# and saved in checkpoints (run/recorder.py), since bit-equality depends on it.
CHOSEN: dict[torch.dtype, torch.dtype] = {}


def prepared(matrix: Tensor, rows: int, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """Return the function x (rows, I) -> x matrix^T + bias (rows, O) for a matrix (O, I)."""
    if rows == 1 or matrix.device.type != "cpu" or matrix.dtype not in PACKABLE or not packs(matrix.dtype):
        columns = matrix.t().contiguous()
        return lambda x: x @ columns if bias is None else torch.addmm(bias, x, columns)
    packed = torch.ops.mkldnn._reorder_linear_weight(matrix.contiguous(), rows)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


@cache
def rate(dtype: torch.dtype, rows: int = 20, width: int = 830) -> float:
    """Measure floating-point operations per second of prepared products on this CPU; 0 for bf16 without a kernel."""
    if dtype != torch.float32 and not packs(dtype):
        return 0.0
    matrices = [torch.ones(2 * width, width, dtype=dtype) for _ in range(4)]  # together larger than the nearest caches
    products, x = [prepared(matrix, rows) for matrix in matrices], torch.ones(rows, width, dtype=dtype)
    spent = []
    for _ in range(8):
        before = time.perf_counter()
        for product in products:
            product(x)
        spent.append(time.perf_counter() - before)
    return 2 * rows * 2 * width * width * len(products) / min(spent)


def choice(lower: torch.dtype) -> torch.dtype:
    """Return the precision for products where autocast asks for `lower`: fp32, unless `lower` is clearly faster.

    Some processors have bf16 instructions that are slower than those of fp32.
    """
    return lower if rate(lower) > 1.2 * rate(torch.float32) else torch.float32


def precision_of_products(like: Tensor) -> torch.dtype:
    """Return the precision in which a recurrence computes its products: autocast's on CUDA, the chosen one on a CPU."""
    kind = like.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return like.dtype
    lower = torch.get_autocast_dtype(kind)
    if kind != "cpu":
        return lower
    if lower not in CHOSEN:
        CHOSEN[lower] = choice(lower)
    return CHOSEN[lower]
