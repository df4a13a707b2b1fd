"""`roll`, by concatenation or by moving whole lines."""

from __future__ import annotations

import math

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, shapes
from torch_max_backend.lowering.aten_functions.shape import slice_dim, take_dim
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor, Size

aten = torch.ops.aten

SHORT_LINE, MANY_LINES = 16, 65536
"""Elements of a line and lines of a tensor, for which moving whole lines pays."""


# roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor
@map_to(aten.roll)
def aten_roll(
    self: MaxTensor,
    shifts: list[Size] | Size,
    dims: list[int] | int = [],  # noqa: B006
) -> MaxTensor:
    shifts = shifts if isinstance(shifts, list) else [shifts]
    dims = dims if isinstance(dims, list) else [dims]
    if not self.rank:
        return self
    if not dims:
        flat = ops.reshape(self, [shapes.numel(self.shape)])
        return ops.reshape(aten_roll(flat, shifts, [0]), self.shape)
    lines = _rolled_lines(self, shifts, dims)
    if lines is not None:
        return lines
    result = self
    for shift, dim in zip(shifts, dims, strict=True):
        dim = shapes.dim(dim, self.rank)
        size = shapes.size(self.shape[dim])
        if size == 0:
            continue
        if isinstance(size, int) and isinstance(shift, int):
            cut = -shift % size
            head, tail = slice_dim(result, dim, 0, cut), slice_dim(result, dim, cut, size)
            result = ops.concat([tail, head], dim) if cut else result
            continue
        index = constants.iota(size, self.device)
        index = index - constants.scalar(shift, torch.int64, self.device)
        length = constants.scalar(size, torch.int64, self.device)
        result = take_dim(result, dim, ops.mod(index, length))  # the divisor's sign: not negative
    return result


def _rolled_lines(self: MaxTensor, shifts: list[Size], dims: list[int]) -> MaxTensor | None:
    """Several dims rolled at once, by moving whole lines; None if lines are short or too many.

    The other way is a concatenation per dim, and MAX takes seconds to compile each one. Where a
    line comes from is an argument: rolling back and forth is one kernel.
    """
    last = max(shapes.dim(dim, self.rank) for dim in dims)
    sizes = shapes.sizes(self)
    if len(dims) < 2 or not all(isinstance(size, int) for size in (*sizes, *shifts)):
        return None
    static = [size for size in sizes if isinstance(size, int)]
    outer, inner = static[: last + 1], math.prod(static[last + 1 :])
    count = math.prod(outer)
    if inner < SHORT_LINE or not 0 < count <= MANY_LINES:
        return None
    places = torch.arange(count).reshape(outer).roll([int(s) for s in shifts], dims)
    index = constants.constant(places.flatten().tolist(), torch.int64, self.device)
    return ops.reshape(ops.gather(ops.reshape(self, [count, inner]), index, 0), sizes)
