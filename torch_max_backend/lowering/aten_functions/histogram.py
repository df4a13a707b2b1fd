"""Histograms: the number of elements in each bin."""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.indexing import aten_scatter_add
from torch_max_backend.lowering.aten_functions.reduction import aten_max, aten_min
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Scalar

aten = torch.ops.aten


# histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor
@map_to(aten.histc, needs_call=True)
def aten_histc(
    self: MaxTensor, bins: int = 100, min: Scalar = 0, max: Scalar = 0, *, call: CallInfo
) -> MaxTensor:
    kind = promotion.dtype_of(self)
    # Integers, which PyTorch takes on CUDA alone, are placed by integer arithmetic of 64 bits.
    dtype = kind if kind.is_floating_point else torch.int64
    self = promotion.cast(self, dtype)

    def number(value: Scalar) -> MaxTensor:
        return constants.scalar(value, dtype, self.device)

    count = shapes.numel(self.shape)
    if count == 0:
        return constants.full(call.output.shape, 0, kind, call.device)
    if min == max:  # the tensor's own range
        low, high = aten_min(self), aten_max(self)
        flat = promotion.cast(ops.equal(low, high), dtype)
        low, high = ops.sub(low, flat), ops.add(high, flat)
        span = ops.sub(high, low)
    else:
        first, last = (torch.tensor(value, dtype=dtype) for value in (min, max))
        low, high = number(first.item()), number(last.item())
        span = number((last - first).item())
    x = ops.reshape(self, [count])
    # In PyTorch's order of operations, so that values on an edge are rounded into the same bin.
    scaled = ops.mul(ops.sub(x, low), number(bins))
    if kind.is_floating_point:
        place = mojo_kernels.divide(scaled, span)
    else:
        place = mojo_kernels.elementwise("tmb_trunc_divide", scaled, span)
    inside = ops.logical_and(ops.greater_equal(x, low), ops.greater_equal(high, x))
    place = ops.min(promotion.cast(ops.where(inside, place, number(0)), torch.int64), bins - 1)
    zeros = constants.full([bins], 0, kind, self.device)
    return aten_scatter_add(zeros, 0, place, promotion.cast(inside, kind))
