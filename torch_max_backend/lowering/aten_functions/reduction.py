"""Reductions over dims, and scans along a dim. Sorted by ATen name."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from max.graph import Dim, ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Scalar, Size

aten = torch.ops.aten

# MAX sums elements one after the other. Beyond these lengths, partial sums are as accurate as
# PyTorch's, and they spread a single long line over the cores.
LONG_ROW = 4096
LONG_COLUMN = 256


def _dims(self: MaxTensor, dim: int | list[int] | None) -> list[int]:
    """The dims to reduce; a 0-d tensor has none, even if `dim` is given."""
    return shapes.dims(dim, len(self.shape)) if self.shape else []


def _lines(self: MaxTensor, dims: list[int]) -> MaxTensor:
    """`self` with `dims` as its last axis but one, for MAX's own reductions.

    MAX moves a broadcast of an earlier dim (`expand`) behind the reduction and loses the reduction:
    it rejects the graph, or does not sum. A reshape in between prevents that.
    """
    lines = shapes.fold(self, dims)
    unchanged = shapes.sizes(lines) == shapes.sizes(self)
    return lines.reshape([1, *lines.shape]) if unchanged else lines


def _partial_sums(lines: MaxTensor) -> MaxTensor:
    """[..., n, inner] with a long axis n, summed to about [outer, sqrt(n), inner]."""
    *rest, n, inner = shapes.sizes(lines)
    outer = shapes.numel(rest)
    if not isinstance(n, int) or n < (LONG_ROW if inner == 1 else LONG_COLUMN):
        return lines
    parts = next((d for d in range(math.isqrt(n), 7, -1) if n % d == 0), None)
    if parts is None:
        return lines
    return ops.sum(lines.reshape([outer, parts, n // parts, inner]), axis=2).reshape(
        [outer, parts, inner]
    )


def total(self: MaxTensor, dims: list[int], keepdim: bool) -> MaxTensor:
    """The sum over `dims` in the tensor's own dtype."""
    if not dims:
        return self
    lines = _lines(self, dims)
    if promotion.dtype_of(self).is_floating_point:
        lines = _partial_sums(lines)
    return ops.sum(lines, axis=-2).reshape(shapes.reduced_shape(self, dims, keepdim))


def count(self: MaxTensor, dims: list[int]) -> Size:
    """How many elements a reduction over `dims` folds into one."""
    shape = shapes.sizes(self)
    return shapes.numel(shape[i] for i in dims)


def average(self: MaxTensor, dims: list[int], keepdim: bool) -> MaxTensor:
    """The mean over `dims` in the tensor's own dtype."""
    number = constants.scalar(count(self, dims), promotion.dtype_of(self), self.device)
    return mojo_kernels.divide(total(self, dims, keepdim), number)


def squared_deviations(self: MaxTensor, dims: list[int]) -> tuple[MaxTensor, MaxTensor]:
    """The sum of squared deviations from the mean over `dims`, and the mean; both keep dims."""
    mean = average(self, dims, keepdim=True)
    centered = self - mean
    return total(centered * centered, dims, keepdim=True), mean


def extremum(self: MaxTensor, dims: list[int], keepdim: bool, largest: bool) -> MaxTensor:
    """amax or amin; NaN if any element is NaN."""
    if not dims:
        return self
    shape = shapes.reduced_shape(self, dims, keepdim)
    dtype = promotion.dtype_of(self)
    if dtype.is_floating_point:
        # MAX's own max and min drop NaN.
        lines = shapes.fold(self, dims)
        outer, _, inner = shapes.sizes(lines)
        outputs = [(dtype, [outer, 1, inner])]
        lines = mojo_kernels.call("tmb_amax", [lines], outputs, {"largest": largest})[0]
    else:
        lines = (ops.max if largest else ops.min)(_lines(self, dims), axis=-2)
    return lines.reshape(shape)


def located_extremum(
    self: MaxTensor, dims: list[int], keepdim: bool, largest: bool
) -> tuple[MaxTensor, MaxTensor]:
    """The extremum over `dims` and its first index."""
    dtype = promotion.dtype_of(self)
    shape = shapes.reduced_shape(self, dims, keepdim)
    lines = shapes.fold(_bytes(self), dims)
    outer, _, inner = shapes.sizes(lines)
    outputs = [(promotion.dtype_of(lines), [outer, 1, inner]), (torch.int64, [outer, 1, inner])]
    values, indices = mojo_kernels.call("tmb_extremum", [lines], outputs, {"largest": largest})
    return promotion.cast(values.reshape(shape), dtype), indices.reshape(shape)


def _bytes(self: MaxTensor) -> MaxTensor:
    """Bools as bytes, because the kernels compare numbers."""
    return promotion.cast(self, torch.uint8) if promotion.dtype_of(self) is torch.bool else self


def _truth(
    self: MaxTensor,
    dim: int | list[int] | None,
    keepdim: bool,
    call: CallInfo,
    reduce: Callable[..., MaxTensor],
) -> MaxTensor:
    truth = promotion.cast(self, torch.bool)
    # Unlike in sum, an empty list of dims means that nothing is reduced.
    dims = [] if dim == [] else _dims(self, dim)
    if dims and count(self, dims) == 0:
        identity = reduce is ops.min
        return constants.full(call.output.shape, identity, call.output.dtype, self.device)
    if dims:
        shape = shapes.reduced_shape(self, dims, keepdim)
        truth = reduce(_lines(truth, dims), axis=-2).reshape(shape)
    return promotion.cast(truth, call.output.dtype)  # uint8 in, uint8 out


# all(Tensor self) -> Tensor
# all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
# all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor
@map_to(aten.all, needs_call=True)
def aten_all(
    self: MaxTensor, dim: int | list[int] | None = None, keepdim: bool = False, *, call: CallInfo
) -> MaxTensor:
    return _truth(self, dim, keepdim, call, ops.min)


# amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
@map_to(aten.amax)
def aten_amax(self: MaxTensor, dim: int | list[int] = [], keepdim: bool = False) -> MaxTensor:  # noqa: B006
    return extremum(self, _dims(self, dim), keepdim, largest=True)


# amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
@map_to(aten.amin)
def aten_amin(self: MaxTensor, dim: int | list[int] = [], keepdim: bool = False) -> MaxTensor:  # noqa: B006
    return extremum(self, _dims(self, dim), keepdim, largest=False)


# any(Tensor self) -> Tensor
# any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
# any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor
@map_to(aten.any, needs_call=True)
def aten_any(
    self: MaxTensor, dim: int | list[int] | None = None, keepdim: bool = False, *, call: CallInfo
) -> MaxTensor:
    return _truth(self, dim, keepdim, call, ops.max)


# argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
@map_to(aten.argmax)
def aten_argmax(self: MaxTensor, dim: int | None = None, keepdim: bool = False) -> MaxTensor:
    return located_extremum(self, _dims(self, dim), keepdim, largest=True)[1]


# argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
@map_to(aten.argmin)
def aten_argmin(self: MaxTensor, dim: int | None = None, keepdim: bool = False) -> MaxTensor:
    return located_extremum(self, _dims(self, dim), keepdim, largest=False)[1]


def _running_extremum(self: MaxTensor, dim: int, largest: bool) -> tuple[MaxTensor, MaxTensor]:
    dtype, shape = promotion.dtype_of(self), shapes.sizes(self)
    lines = shapes.fold(_bytes(self), _dims(self, dim))
    outputs = [(promotion.dtype_of(lines), lines.shape), (torch.int64, lines.shape)]
    values, indices = mojo_kernels.call(
        "tmb_cumulative_extremum", [lines], outputs, {"largest": largest}
    )
    return promotion.cast(values.reshape(shape), dtype), indices.reshape(shape)


# cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)
@map_to(aten.cummax)
def aten_cummax(self: MaxTensor, dim: int) -> tuple[MaxTensor, MaxTensor]:
    return _running_extremum(self, dim, largest=True)


# cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)
@map_to(aten.cummin)
def aten_cummin(self: MaxTensor, dim: int) -> tuple[MaxTensor, MaxTensor]:
    return _running_extremum(self, dim, largest=False)


_SUM, _PRODUCT, _LOGSUMEXP = range(3)


def _scan(self: MaxTensor, dim: int, kind: int) -> MaxTensor:
    # Not MAX's cumsum: PyTorch accumulates in a wider dtype.
    lines = shapes.fold(self, _dims(self, dim))
    outputs = [(promotion.dtype_of(self), lines.shape)]
    result = mojo_kernels.call("tmb_scan", [lines], outputs, {"kind": kind})[0]
    return result.reshape(self.shape)


# cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
@map_to(aten.cumprod)
def aten_cumprod(self: MaxTensor, dim: int, *, dtype: torch.dtype | None = None) -> MaxTensor:
    return _scan(promotion.cast(self, promotion.sum_dtype(self, dtype)), dim, _PRODUCT)


# cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
@map_to(aten.cumsum)
def aten_cumsum(self: MaxTensor, dim: int, *, dtype: torch.dtype | None = None) -> MaxTensor:
    return _scan(promotion.cast(self, promotion.sum_dtype(self, dtype)), dim, _SUM)


# linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
@map_to(aten.linalg_vector_norm, needs_call=True)
def aten_linalg_vector_norm(
    self: MaxTensor,
    ord: Scalar = 2,
    dim: int | list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    call: CallInfo,
) -> MaxTensor:
    result = call.output.dtype
    values = promotion.opmath(promotion.cast(self, dtype or result))
    dims = _dims(self, dim)
    if ord == 2:
        norm = ops.sqrt(total(values * values, dims, keepdim))
    elif ord == 1:
        norm = total(ops.abs(values), dims, keepdim)
    elif ord == 0:
        compute = promotion.dtype_of(values)
        nonzero = promotion.cast(promotion.cast(values, torch.bool), compute)
        norm = total(nonzero, dims, keepdim)
    elif math.isinf(ord):
        norm = extremum(ops.abs(values), dims, keepdim, largest=ord > 0)
    else:
        power, root = (
            constants.scalar(number, promotion.dtype_of(values), self.device)
            for number in (float(ord), 1 / float(ord))
        )
        # Not ops.pow, which loses NaN.
        powers = mojo_kernels.elementwise("tmb_pow", ops.abs(values), power)
        norm = mojo_kernels.elementwise("tmb_pow", total(powers, dims, keepdim), root)
    return promotion.cast(norm, result)


# logcumsumexp(Tensor self, int dim) -> Tensor
@map_to(aten.logcumsumexp)
def aten_logcumsumexp(self: MaxTensor, dim: int) -> MaxTensor:
    return _scan(self, dim, _LOGSUMEXP)


# max(Tensor self) -> Tensor
@map_to(aten.max.default)
def aten_max(self: MaxTensor) -> MaxTensor:
    return extremum(self, _dims(self, None), keepdim=False, largest=True)


def _extremum_along(
    self: MaxTensor, dim: int, keepdim: bool, call: CallInfo, largest: bool
) -> tuple[MaxTensor, MaxTensor | None]:
    if call.used_outputs == {0}:
        return extremum(self, _dims(self, dim), keepdim, largest), None
    return located_extremum(self, _dims(self, dim), keepdim, largest)


# max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
@map_to(aten.max.dim, needs_call=True)
def aten_max_dim(
    self: MaxTensor, dim: int, keepdim: bool = False, *, call: CallInfo
) -> tuple[MaxTensor, MaxTensor | None]:
    return _extremum_along(self, dim, keepdim, call, largest=True)


# mean(Tensor self, *, ScalarType? dtype=None) -> Tensor
# mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
@map_to(aten.mean)
def aten_mean(
    self: MaxTensor,
    dim: int | list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> MaxTensor:
    dtype = dtype or promotion.dtype_of(self)
    values = promotion.opmath(promotion.cast(self, dtype))
    return promotion.cast(average(values, _dims(self, dim), keepdim), dtype)


# min(Tensor self) -> Tensor
@map_to(aten.min.default)
def aten_min(self: MaxTensor) -> MaxTensor:
    return extremum(self, _dims(self, None), keepdim=False, largest=False)


# min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
@map_to(aten.min.dim, needs_call=True)
def aten_min_dim(
    self: MaxTensor, dim: int, keepdim: bool = False, *, call: CallInfo
) -> tuple[MaxTensor, MaxTensor | None]:
    return _extremum_along(self, dim, keepdim, call, largest=False)


# prod(Tensor self, *, ScalarType? dtype=None) -> Tensor
# prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
@map_to(aten.prod)
def aten_prod(
    self: MaxTensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> MaxTensor:
    dtype = promotion.sum_dtype(self, dtype)
    values = promotion.opmath(promotion.cast(self, dtype))
    dims = _dims(self, dim)
    if dims:
        shape = shapes.reduced_shape(self, dims, keepdim)
        values = ops.prod(_lines(values, dims), axis=-2).reshape(shape)
    return promotion.cast(values, dtype)


# sum(Tensor self, *, ScalarType? dtype=None) -> Tensor
# sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
@map_to(aten.sum)
def aten_sum(
    self: MaxTensor,
    dim: int | list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> MaxTensor:
    dtype = promotion.sum_dtype(self, dtype)
    values = promotion.opmath(promotion.cast(self, dtype))
    dims = _dims(self, dim)
    if promotion.dtype_of(values).is_floating_point and _are_rows(self, dims):
        return promotion.cast(_column_sums(values, dims, keepdim), dtype)
    return promotion.cast(total(values, dims, keepdim), dtype)


def _are_rows(self: MaxTensor, dims: list[int]) -> bool:
    """Whether a reduction over `dims` is one over the rows of a matrix, such as a bias's gradient."""
    return 0 < len(dims) < len(self.shape) and sorted(dims) == list(range(len(dims)))


def _column_sums(self: MaxTensor, dims: list[int], keepdim: bool) -> MaxTensor:
    # Not MAX's sum: along the first axis it takes ten times as long.
    shape = shapes.sizes(self)
    rows, columns = shapes.numel(shape[: len(dims)]), shapes.numel(shape[len(dims) :])
    outputs = [(promotion.dtype_of(self), [columns])]
    sums = mojo_kernels.call("tmb_column_sums", [self.reshape([rows, columns])], outputs)[0]
    return sums.reshape(shapes.reduced_shape(self, dims, keepdim))


def _variance(
    self: MaxTensor, dim: int | list[int] | None, correction: Scalar | None, keepdim: bool
) -> tuple[MaxTensor, MaxTensor]:
    dtype, dims = promotion.dtype_of(self), _dims(self, dim)
    values = promotion.opmath(self)
    squares, mean = squared_deviations(values, dims)
    freedom = count(self, dims)
    lost = 1 if correction is None else correction
    if isinstance(freedom, Dim):
        divisor = constants.scalar(freedom, promotion.dtype_of(values), self.device) - float(lost)
        divisor = ops.max(divisor, constants.scalar(0, promotion.dtype_of(values), self.device))
    else:
        known = max(freedom - lost, 0)
        divisor = constants.scalar(known, promotion.dtype_of(values), self.device)
    shape = shapes.reduced_shape(self, dims, keepdim)
    mean = promotion.cast(mean.reshape(shape), dtype)
    if isinstance(freedom, int) and freedom <= 1 and freedom <= lost:
        # 0 / 0, which MAX folds to 0.
        return constants.full(shape, float("nan"), dtype, self.device), mean
    return promotion.cast(mojo_kernels.divide(squares, divisor).reshape(shape), dtype), mean


# var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor
@map_to(aten.var.correction)
def aten_var(
    self: MaxTensor,
    dim: int | list[int] | None = None,
    *,
    correction: Scalar | None = None,
    keepdim: bool = False,
) -> MaxTensor:
    return _variance(self, dim, correction, keepdim)[0]


# var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)
@map_to(aten.var_mean.correction)
def aten_var_mean(
    self: MaxTensor,
    dim: int | list[int] | None = None,
    *,
    correction: Scalar | None = None,
    keepdim: bool = False,
) -> tuple[MaxTensor, MaxTensor]:
    return _variance(self, dim, correction, keepdim)
