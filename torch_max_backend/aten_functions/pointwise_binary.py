"""Pointwise ops of two tensors: arithmetic and comparison. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend.promotion import elementwise
from torch_max_backend.registry import map_to
from torch_max_backend.types import MaxTensor, Scalar

aten = torch.ops.aten


# add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
@map_to(aten.add)
@elementwise("self", "other")
def aten_add(self: MaxTensor, other: MaxTensor, alpha: Scalar = 1) -> MaxTensor:
    return ops.add(self, other)
