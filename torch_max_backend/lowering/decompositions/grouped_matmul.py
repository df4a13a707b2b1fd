"""Matrix products of groups of rows, each group with its own matrix, as in mixtures of experts.

PyTorch's op (`aten._grouped_mm`) and transformers' replacement for it become one op of ours, which
takes transposed matrices as they are: the matrices of experts usually are transposed, and a copy of
all of them at every call would take longer than the products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_max_backend.compat.torch import OpOverload
from torch_max_backend.program.own_ops import grouped_mm

aten = torch.ops.aten


def decompose(
    self: torch.Tensor,
    mat2: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Any:
    """Our op for a 2-d and a 3-d operand; PyTorch's other forms stay as they are."""
    ranks = (self.dim(), mat2.dim())
    if ranks != (2, 3) or offs is None or bias is not None or out_dtype not in (None, self.dtype):
        return NotImplemented
    transposed = mat2.stride(-1) != 1 and mat2.stride(-2) == 1
    matrices = mat2.transpose(-2, -1) if transposed else mat2
    return grouped_mm(self, matrices, offs, transposed)


def decompositions() -> dict[OpOverload, Callable[..., Any]]:
    """Decompositions of the ops that exist: transformers registers its op when it is imported."""
    found: dict[OpOverload, Callable[..., Any]] = {aten._grouped_mm.default: decompose}
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        found[torch.ops.transformers.grouped_mm_fallback.default] = decompose
    return found
