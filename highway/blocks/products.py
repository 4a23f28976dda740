"""A matrix that many products with few rows are asked of, one after the other.

A CPU's general product packs the matrix for each call, which with 20 rows costs as much as the product itself. oneDNN
packs it once, for as many calls as there are.
"""

import time
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

PACKABLE = (torch.float32, torch.bfloat16)


def prepared(matrix: Tensor, rows: int, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """matrix (O, I) -> the function x (rows, I) -> x matrix^T + bias (rows, O)."""
    packs = matrix.device.type == "cpu" and matrix.dtype in PACKABLE and torch.backends.mkldnn.is_available()
    if rows == 1 or not packs:
        columns = matrix.t().contiguous()
        return lambda x: x @ columns if bias is None else torch.addmm(bias, x, columns)
    packed = torch.ops.mkldnn._reorder_linear_weight(matrix.contiguous(), rows)
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


@cache
def rate(dtype: torch.dtype, rows: int = 20, width: int = 830) -> float:
    """Floating-point operations a second of prepared products on this CPU, the best of some tries."""
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return 0.0
    matrices = [torch.ones(2 * width, width, dtype=dtype) for _ in range(4)]  # more than the nearest caches hold
    products, x = [prepared(matrix, rows) for matrix in matrices], torch.ones(rows, width, dtype=dtype)
    spent = []
    for _ in range(8):
        before = time.perf_counter()
        for product in products:
            product(x)
        spent.append(time.perf_counter() - before)
    return 2 * rows * 2 * width * width * len(products) / min(spent)


def precision_of_products(like: Tensor) -> torch.dtype:
    """That of autocast, where there is one; on a CPU only if such products are clearly the faster ones: some have bf16
    instructions that are slower than those of fp32."""
    kind = like.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return like.dtype
    lower = torch.get_autocast_dtype(kind)
    return lower if kind != "cpu" or rate(lower) > 1.2 * rate(torch.float32) else torch.float32
