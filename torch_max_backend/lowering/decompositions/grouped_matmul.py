"""Products of groups of rows, each with a matrix of its own: the experts of a mixture.

PyTorch's op (`aten._grouped_mm`) and transformers' stand-in for it become one op of ours, which
knows whether the matrices are stored transposed: experts usually are, and a transposed copy of all
of them at every call would cost more than the products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

from torch_max_backend.program.own_ops import grouped_mm

aten = torch.ops.aten


def decompose(
    self: torch.Tensor,
    mat2: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Ours for a matrix of rows and a batch of matrices; PyTorch's other forms stay as they are."""
    ranks = (self.dim(), mat2.dim())
    if ranks != (2, 3) or offs is None or bias is not None or out_dtype not in (None, self.dtype):
        return NotImplemented
    transposed = mat2.stride(-1) != 1 and mat2.stride(-2) == 1
    matrices = mat2.transpose(-2, -1) if transposed else mat2
    return grouped_mm(self, matrices, offs, transposed)


def decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """For the ops that are there: transformers registers its own when it is imported."""
    found: dict[OpOverload, Callable[..., Any]] = {aten._grouped_mm.default: decompose}
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        found[torch.ops.transformers.grouped_mm_fallback.default] = decompose
    return found
