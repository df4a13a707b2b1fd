"""Comparisons of two tensors. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend.lowering import promotion
from torch_max_backend.lowering.registry import map_all
from torch_max_backend.lowering.types import MaxTensor

aten = torch.ops.aten


def _reflexive(compare: promotion.Lowering) -> promotion.Lowering:
    """`compare`, which holds for equal operands, also where both are one tensor with NaNs."""

    def function(self: MaxTensor, other: MaxTensor) -> MaxTensor:
        if self is other and self.dtype.is_float():  # MAX folds `x == x` to true
            return ops.logical_not(ops.is_nan(self))
        return compare(self, other)

    return function


def _less_equal(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return ops.greater_equal(other, self)


def _less(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return ops.greater(other, self)


_equal = _reflexive(ops.equal)


def _not_equal(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    # MAX's not_equal is false where an operand is NaN.
    return ops.logical_not(_equal(self, other))


map_all(
    {
        # eq.Tensor(Tensor self, Tensor other) -> Tensor
        # eq.Scalar(Tensor self, Scalar other) -> Tensor
        aten.eq: promotion.binary(_equal),
        # ge.Tensor(Tensor self, Tensor other) -> Tensor
        # ge.Scalar(Tensor self, Scalar other) -> Tensor
        aten.ge: promotion.binary(_reflexive(ops.greater_equal)),
        # gt.Tensor(Tensor self, Tensor other) -> Tensor
        # gt.Scalar(Tensor self, Scalar other) -> Tensor
        aten.gt: promotion.binary(ops.greater),
        # le.Tensor(Tensor self, Tensor other) -> Tensor
        # le.Scalar(Tensor self, Scalar other) -> Tensor
        aten.le: promotion.binary(_reflexive(_less_equal)),
        # lt.Tensor(Tensor self, Tensor other) -> Tensor
        # lt.Scalar(Tensor self, Scalar other) -> Tensor
        aten.lt: promotion.binary(_less),
        # ne.Tensor(Tensor self, Tensor other) -> Tensor
        # ne.Scalar(Tensor self, Scalar other) -> Tensor
        aten.ne: promotion.binary(_not_equal),
    }
)
