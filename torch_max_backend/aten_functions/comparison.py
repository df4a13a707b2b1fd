"""Comparisons of two tensors. Sorted by ATen name."""

from __future__ import annotations

import math

import torch
from max.graph import ops

from torch_max_backend import constants, promotion
from torch_max_backend.promotion import elementwise
from torch_max_backend.registry import map_to
from torch_max_backend.types import MaxTensor

aten = torch.ops.aten


# eq.Tensor(Tensor self, Tensor other) -> Tensor
# eq.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.eq)
@elementwise("self", "other")
def aten_eq(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return ops.equal(self, other)


# ge.Tensor(Tensor self, Tensor other) -> Tensor
# ge.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.ge)
@elementwise("self", "other")
def aten_ge(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return ops.greater_equal(self, other)


# gt.Tensor(Tensor self, Tensor other) -> Tensor
# gt.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.gt)
@elementwise("self", "other")
def aten_gt(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return ops.greater(self, other)


# isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> Tensor
@map_to(aten.isclose)
def aten_isclose(
    self: MaxTensor,
    other: MaxTensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> MaxTensor:
    close = ops.equal(self, other)
    if not self.dtype.is_float():
        floats = promotion.floating(promotion.dtype_of(self))
        self, other = promotion.cast(self, floats), promotion.cast(other, floats)
    elif equal_nan:
        close = ops.logical_or(close, ops.logical_and(ops.is_nan(self), ops.is_nan(other)))
    dtype, device = promotion.dtype_of(self), self.device

    def number(value: float) -> MaxTensor:
        return constants.scalar(value, dtype, device)

    allowed = ops.add(number(atol), ops.abs(ops.mul(number(rtol), other)))
    actual = ops.abs(ops.sub(self, other))
    finite = ops.greater(number(math.inf), actual)
    near = ops.logical_and(finite, ops.greater_equal(allowed, actual))
    return ops.logical_or(close, near)


# le.Tensor(Tensor self, Tensor other) -> Tensor
# le.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.le)
@elementwise("self", "other")
def aten_le(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return ops.greater_equal(other, self)


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
    return ops.not_equal(self, other)
