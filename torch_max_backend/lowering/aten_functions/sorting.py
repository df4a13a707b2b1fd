"""Sorting, order statistics, and search in sorted sequences. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.dtype import DType
from max.graph import Dim, ops

from torch_max_backend.errors import UnsupportedOpError
from torch_max_backend.lowering import constants, devices, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.reduction import located_extremum
from torch_max_backend.lowering.on_torch import NEEDS_SHAPES
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor, Scalar, Size

aten = torch.ops.aten


def _ordered(
    self: MaxTensor, dim: int, descending: bool, k: Size | None = None
) -> tuple[MaxTensor, MaxTensor]:
    """The first `k` values along `dim` in order, and their indices, as [outer, k, inner].

    The order is stable, with NaN as the greatest value; MAX's top_k loses the order around NaNs.
    """
    if promotion.dtype_of(self) is torch.bool:
        self = promotion.cast(self, torch.uint8)
    lines = shapes.fold(self, [shapes.dim(dim, len(self.shape))] if self.shape else [])
    outer, n, inner = shapes.sizes(lines)
    shape = [outer, n if k is None else k, inner]
    outputs = [(promotion.dtype_of(self), shape), (torch.int64, shape)]
    how = {"descending": descending, "merging": devices.is_gpu(self.device)}
    values, indices = mojo_kernels.call("tmb_sort", [lines], outputs, how)
    return values, indices


def _sorted(
    self: MaxTensor, dim: int, descending: bool, k: Size | None = None
) -> tuple[MaxTensor, MaxTensor]:
    values, indices = _ordered(self, dim, descending, k)
    shape = shapes.sizes(self)
    if self.shape and k is not None:
        shape[shapes.dim(dim, len(shape))] = k
    return promotion.cast(values.reshape(shape), promotion.dtype_of(self)), indices.reshape(shape)


# bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor
# bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor
@map_to(aten.bucketize)
def aten_bucketize(
    self: MaxTensor | Scalar | Dim,
    boundaries: MaxTensor,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> MaxTensor:
    return _search(boundaries, self, out_int32, right)


def _numbers(n: Size, step: Size, like: MaxTensor) -> MaxTensor:
    """0, step, 2 * step, ... as int64 of [n]."""
    n, step = shapes.size(n), shapes.size(step)
    if isinstance(n, int) and isinstance(step, int):
        # Not ops.range: MAX compiles and runs a program to fold each expression of constants.
        return constants.constant(torch.arange(n) * step, torch.int64, like.device)
    return ops.range(0, n * step, step, out_dim=n, dtype=DType.int64, device=like.device)


def _pick(lines: MaxTensor, place: Size | MaxTensor) -> MaxTensor:
    """The element of each line of [outer, n, inner] at `place`, as [outer, 1, inner]."""
    if isinstance(place, MaxTensor):
        n = lines.shape[1]
        chosen = ops.equal(_numbers(n, 1, lines).reshape([1, n, 1]), place)
        zero = constants.scalar(0, promotion.dtype_of(lines), lines.device)
        return ops.sum(ops.where(chosen, lines, zero), axis=1)
    return lines[:, place : place + 1, :]


def _shape(self: MaxTensor, dim: int | None, keepdim: bool) -> list[Size]:
    dims = shapes.dims(dim, len(self.shape)) if self.shape else []
    return shapes.reduced_shape(self, dims, keepdim)


# kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)
@map_to(aten.kthvalue)
def aten_kthvalue(
    self: MaxTensor, k: Size, dim: int = -1, keepdim: bool = False
) -> tuple[MaxTensor, MaxTensor]:
    values, indices = _ordered(self, dim, descending=False, k=k)
    shape = _shape(self, dim, keepdim)
    return _pick(values, k - 1).reshape(shape), _pick(indices, k - 1).reshape(shape)


# median(Tensor self) -> Tensor
@map_to(aten.median.default)
def aten_median(self: MaxTensor) -> MaxTensor:
    return aten_median_dim(self.reshape([shapes.numel(self.shape)]), 0)[0]


# median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
@map_to(aten.median.dim)
def aten_median_dim(
    self: MaxTensor, dim: int, keepdim: bool = False
) -> tuple[MaxTensor, MaxTensor]:
    values, indices = _ordered(self, dim, descending=False)
    last = values.shape[1] - 1
    place = shapes.size(last // 2)
    shape = _shape(self, dim, keepdim)
    value, index = (_pick(lines, place).reshape(shape) for lines in (values, indices))
    if promotion.dtype_of(self).is_floating_point:
        # If there is a NaN, the first one is the median.
        dims = shapes.dims(dim, len(self.shape)) if self.shape else []
        greatest, where = located_extremum(self, dims, keepdim, largest=True)
        bad = ops.is_nan(greatest)
        value, index = ops.where(bad, greatest, value), ops.where(bad, where, index)
    return value, index


# mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)
@map_to(aten.mode)
def aten_mode(self: MaxTensor, dim: int = -1, keepdim: bool = False) -> tuple[MaxTensor, MaxTensor]:
    ordered, places = _ordered(self, dim, descending=False)
    line: list[Size] = [ordered.shape[0], 1, ordered.shape[2]]
    outputs = [(promotion.dtype_of(ordered), line), (torch.int64, line)]
    values, indices = mojo_kernels.call("tmb_mode", [ordered, places], outputs)
    shape = _shape(self, dim, keepdim)
    return promotion.cast(values.reshape(shape), promotion.dtype_of(self)), indices.reshape(shape)


# nanmedian(Tensor self) -> Tensor
@map_to(aten.nanmedian.default)
def aten_nanmedian(self: MaxTensor) -> MaxTensor:
    return aten_nanmedian_dim(self.reshape([shapes.numel(self.shape)]), 0)[0]


# nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
@map_to(aten.nanmedian.dim)
def aten_nanmedian_dim(
    self: MaxTensor, dim: int, keepdim: bool = False
) -> tuple[MaxTensor, MaxTensor]:
    if not promotion.dtype_of(self).is_floating_point:
        return aten_median_dim(self, dim, keepdim)
    values, indices = _ordered(self, dim, descending=False)
    numbers = promotion.cast(ops.logical_not(ops.is_nan(values)), torch.int64)
    zero, one, two = (constants.scalar(i, torch.int64, self.device) for i in range(3))
    last = ops.max(ops.sum(numbers, axis=1) - one, zero)
    place = mojo_kernels.elementwise("tmb_floor_divide", last, two)
    shape = _shape(self, dim, keepdim)
    return _pick(values, place).reshape(shape), _pick(indices, place).reshape(shape)


def _search(
    sequence: MaxTensor, values: MaxTensor | Scalar | Dim, out_int32: bool, right: bool
) -> MaxTensor:
    sequence, values = promotion.promote(sequence, values)
    if promotion.dtype_of(sequence) is torch.bool:
        sequence, values = (promotion.cast(x, torch.uint8) for x in (sequence, values))
    n = sequence.shape[-1]
    if len(sequence.shape) == 1:
        rows, wanted = sequence.reshape([1, n]), values.reshape([1, shapes.numel(values.shape)])
    else:
        count = shapes.numel(shapes.sizes(sequence)[:-1])
        rows, wanted = sequence.reshape([count, n]), values.reshape([count, values.shape[-1]])
    outputs = [(torch.int64, wanted.shape)]
    found = mojo_kernels.call("tmb_searchsorted", [rows, wanted], outputs, {"right": right})[0]
    found = found.reshape(values.shape)
    return promotion.cast(found, torch.int32) if out_int32 else found


# repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor
@map_to(aten.repeat_interleave.Tensor)
def aten_repeat_interleave(repeats: MaxTensor, *, output_size: Size | None = None) -> MaxTensor:
    if output_size is None:
        raise UnsupportedOpError(
            f"without `output_size`, the output shape of repeat_interleave {NEEDS_SHAPES}"
        )
    ends = ops.cumsum(promotion.cast(repeats, torch.int64), 0)
    places = constants.iota(output_size, repeats.device)
    return promotion.cast(_search(ends, places, False, True), promotion.dtype_of(repeats))


# searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor
# searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor
@map_to(aten.searchsorted)
def aten_searchsorted(
    sorted_sequence: MaxTensor,
    self: MaxTensor | Scalar | Dim,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: MaxTensor | None = None,
) -> MaxTensor:
    if sorter is not None:
        n = sorted_sequence.shape[-1]
        rows = shapes.numel(shapes.sizes(sorted_sequence)[:-1])
        starts = _numbers(rows, n, sorter)
        flat = promotion.cast(sorter, torch.int64).reshape([rows, n]) + starts.reshape([rows, 1])
        elements = sorted_sequence.reshape([rows * n])
        sorted_sequence = ops.gather(elements, flat, axis=0).reshape(sorted_sequence.shape)
    return _search(sorted_sequence, self, out_int32, right or side == "right")


# sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
@map_to(aten.sort.default)
def aten_sort(
    self: MaxTensor, dim: int = -1, descending: bool = False
) -> tuple[MaxTensor, MaxTensor]:
    return _sorted(self, dim, descending)


# sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
@map_to(aten.sort.stable)
def aten_sort_stable(
    self: MaxTensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[MaxTensor, MaxTensor]:
    return _sorted(self, dim, descending)


# topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)
@map_to(aten.topk.default)
def aten_topk(
    self: MaxTensor, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[MaxTensor, MaxTensor]:
    return _sorted(self, dim, descending=largest, k=k)
