"""Selection of values: masks, bounds, maxima of two tensors. Sorted by ATen name, a table first."""

from __future__ import annotations

import math

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.indexing import number_true
from torch_max_backend.lowering.aten_functions.shape import slice_dim
from torch_max_backend.lowering.promotion import Operand, elementwise
from torch_max_backend.lowering.registry import map_all, map_to
from torch_max_backend.lowering.types import MaxTensor, Size

aten = torch.ops.aten

_EXTREMA = {
    aten.fmax: ("tmb_fmax", ops.logical_or),  # fmax(Tensor self, Tensor other) -> Tensor
    aten.fmin: ("tmb_fmin", ops.logical_and),  # fmin(Tensor self, Tensor other) -> Tensor
    aten.maximum: ("tmb_maximum", ops.logical_or),  # maximum(Tensor self, Tensor other) -> Tensor
    aten.minimum: ("tmb_minimum", ops.logical_and),  # minimum(Tensor self, Tensor other) -> Tensor
}
map_all(
    {
        op: promotion.binary(mojo_kernels.pointwise(kernel), bools=bools)
        for op, (kernel, bools) in _EXTREMA.items()
    }
)


# clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
# clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor
@map_to(aten.clamp)
@elementwise("self", "min", "max")
def aten_clamp(
    self: MaxTensor, min: MaxTensor | None = None, max: MaxTensor | None = None
) -> MaxTensor:
    # The upper bound comes last, so that it holds where the bounds cross.
    if min is not None:
        self = mojo_kernels.elementwise("tmb_maximum", self, min)
    if max is not None:
        self = mojo_kernels.elementwise("tmb_minimum", self, max)
    return self


# masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor
# masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor
@map_to(aten.masked_fill)
def aten_masked_fill(self: MaxTensor, mask: MaxTensor, value: Operand) -> MaxTensor:
    filling = promotion.as_tensor(value, promotion.dtype_of(self), self.device)
    return ops.where(mask, filling, self)


# nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor
@map_to(aten.nan_to_num)
def aten_nan_to_num(
    self: MaxTensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> MaxTensor:
    if not self.dtype.is_float():
        return self
    dtype = promotion.dtype_of(self)
    limits = torch.finfo(dtype)

    def number(value: float | None, default: float) -> MaxTensor:
        return constants.scalar(default if value is None else value, dtype, self.device)

    def replaced(result: MaxTensor, infinity: float, by: MaxTensor) -> MaxTensor:
        return ops.where(ops.equal(self, number(infinity, 0)), by, result)

    result = ops.where(ops.is_nan(self), number(nan, 0.0), self)
    result = replaced(result, math.inf, number(posinf, limits.max))
    return replaced(result, -math.inf, number(neginf, limits.min))


# nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor
@map_to(aten.nonzero_static.default)
def aten_nonzero_static(self: MaxTensor, *, size: Size, fill_value: int = -1) -> MaxTensor:
    def number(value: Size) -> MaxTensor:
        return constants.scalar(value, torch.int64, self.device)

    count = shapes.numel(self.shape)
    found = ops.reshape(promotion.cast(self, torch.bool), [count])
    order = number_true(found)
    # Zeros, and nonzeros after the first `size`, go to an extra last row, which is cut off.
    kept = ops.logical_and(found, ops.greater(number(size), order))
    row = ops.where(kept, order, number(size))
    rows = constants.full([shapes.size(size + 1)], -1, torch.int64, self.device)
    places = ops.scatter_nd(rows, constants.iota(count, self.device), ops.unsqueeze(row, 1))
    places = slice_dim(places, 0, 0, size)
    columns = []
    rest = places
    for length in reversed(shapes.sizes(self)):
        columns.append(mojo_kernels.elementwise("tmb_remainder", rest, number(length)))
        rest = mojo_kernels.elementwise("tmb_floor_divide", rest, number(length))
    filled = ops.unsqueeze(ops.greater(number(0), places), 1)
    return ops.where(filled, number(fill_value), ops.stack(columns[::-1], 1))


# where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
@map_to(aten.where.self)
@elementwise("self", "other")
def aten_where(condition: MaxTensor, self: MaxTensor, other: MaxTensor) -> MaxTensor:
    # PyTorch still accepts uint8 masks.
    return ops.where(promotion.cast(condition, torch.bool), self, other)
