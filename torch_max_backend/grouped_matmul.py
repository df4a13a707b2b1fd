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

aten = torch.ops.aten

_LIBRARY = torch.library.Library("torch_max_backend", "FRAGMENT")
_LIBRARY.define("grouped_mm(Tensor self, Tensor mat2, Tensor offs, bool transposed) -> Tensor")
grouped_mm = torch.ops.torch_max_backend.grouped_mm


def _grouped_mm(
    self: torch.Tensor, mat2: torch.Tensor, offs: torch.Tensor, transposed: bool
) -> torch.Tensor:
    """Rows up to `offs[0]` times matrix 0, the next up to `offs[1]` times matrix 1; then zeros."""
    matrices = mat2.transpose(-2, -1) if transposed else mat2
    result = self.new_zeros(self.shape[0], matrices.shape[2])
    start = 0
    for matrix, end in zip(matrices, offs.tolist(), strict=True):
        result[start:end] = self[start:end] @ matrix
        start = end
    return result


def _shape(
    self: torch.Tensor, mat2: torch.Tensor, offs: torch.Tensor, transposed: bool
) -> torch.Tensor:
    return self.new_empty(self.shape[0], mat2.shape[1 if transposed else 2])


_LIBRARY.impl("grouped_mm", _grouped_mm, "CPU")
_LIBRARY.impl("grouped_mm", _shape, "Meta")


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
