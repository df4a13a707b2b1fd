"""Counts of values by range."""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend import constants, promotion, shapes
from torch_max_backend.aten_functions.reduction import extremum
from torch_max_backend.registry import map_to
from torch_max_backend.types import MaxTensor, Scalar

aten = torch.ops.aten


def _range(values: MaxTensor, low: Scalar, high: Scalar) -> tuple[MaxTensor, MaxTensor]:
    """The edges of the outer bins: those of the data where `low` equals `high`."""
    dtype = promotion.dtype_of(values)
    empty = shapes.size(values.shape[0]) == 0
    if low == high and empty:
        low, high = low - 1, high + 1
    if low != high:
        first, last = (constants.scalar(edge, dtype, values.device) for edge in (low, high))
        return first, last
    first, last = (extremum(values, [0], False, largest) for largest in (False, True))
    one = constants.scalar(1, dtype, values.device)
    level = ops.equal(first, last)
    return ops.where(level, first - one, first), ops.where(level, last + one, last)


# histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor
@map_to(aten.histc.default)
def aten_histc(self: MaxTensor, bins: int = 100, min: Scalar = 0, max: Scalar = 0) -> MaxTensor:
    dtype, device = promotion.dtype_of(self), self.device
    values = self.reshape([shapes.numel(shapes.sizes(self))])
    low, high = _range(values, min, max)
    steps = constants.scalar(bins, dtype, device)
    place = promotion.cast((values - low) * steps / (high - low), torch.int64)
    # The last bin includes its upper edge. What is outside goes to one more, which is cut off.
    last, spare = (constants.scalar(i, torch.int64, device) for i in (bins - 1, bins))
    inside = ops.logical_and(ops.greater_equal(values, low), ops.greater_equal(high, values))
    place = ops.where(inside, ops.min(place, shapes.broadcast_to(last, place.shape)), spare)
    ones = shapes.broadcast_to(constants.scalar(1, dtype, device), place.shape)
    counts = constants.full([bins + 1], 0, dtype, device)
    return ops.scatter_add(counts, ones, place, axis=0)[:bins]
