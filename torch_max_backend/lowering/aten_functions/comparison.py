"""Comparisons of two tensors. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend.lowering.promotion import elementwise
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor

aten = torch.ops.aten


def _reflexive(self: MaxTensor, other: MaxTensor) -> MaxTensor | None:
    """Where both are one float tensor, and MAX would fold `x == x` to true: false for NaN."""
    if self is other and self.dtype.is_float():
        return ops.logical_not(ops.is_nan(self))
    return None


# eq.Tensor(Tensor self, Tensor other) -> Tensor
# eq.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.eq)
@elementwise("self", "other")
def aten_eq(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    same = _reflexive(self, other)
    return ops.equal(self, other) if same is None else same


# ge.Tensor(Tensor self, Tensor other) -> Tensor
# ge.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.ge)
@elementwise("self", "other")
def aten_ge(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    same = _reflexive(self, other)
    return ops.greater_equal(self, other) if same is None else same


# gt.Tensor(Tensor self, Tensor other) -> Tensor
# gt.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.gt)
@elementwise("self", "other")
def aten_gt(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return ops.greater(self, other)


# le.Tensor(Tensor self, Tensor other) -> Tensor
# le.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.le)
@elementwise("self", "other")
def aten_le(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    same = _reflexive(self, other)
    return ops.greater_equal(other, self) if same is None else same


# lt.Tensor(Tensor self, Tensor other) -> Tensor
# lt.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.lt)
@elementwise("self", "other")
def aten_lt(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return ops.greater(other, self)


# ne.Tensor(Tensor self, Tensor other) -> Tensor
# ne.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.ne)
@elementwise("self", "other")
def aten_ne(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    # MAX's not_equal is false where an operand is NaN.
    return ops.logical_not(aten_eq(self, other))
