"""Ops that create tensors from numbers. Sorted by ATen name, a table first.

Their options (dtype, layout, device, pin_memory) are already in PyTorch's own result, `call.output`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from max.graph import Dim, ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.registry import map_all, map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Scalar, Size
from torch_max_backend.program.filled_ops import FILLED

aten = torch.ops.aten


def _filled(value: Scalar) -> Callable[..., MaxTensor]:
    def lowering(*args: object, call: CallInfo, **kwargs: object) -> MaxTensor:
        return constants.full(call.output.shape, value, call.output.dtype, call.device)

    return lowering


map_all({op: _filled(value) for op, value in FILLED.items()}, needs_call=True)


def _band(self: MaxTensor, diagonal: Size, *, lower: bool) -> MaxTensor:
    rows, columns = shapes.sizes(self)[-2:]
    row = ops.reshape(constants.iota(rows, self.device), [rows, 1])
    column = ops.reshape(constants.iota(columns, self.device), [1, columns])
    edge = row + constants.scalar(diagonal, torch.int64, self.device)
    kept = ops.greater_equal(edge, column) if lower else ops.greater_equal(column, edge)
    zero = constants.scalar(0, promotion.dtype_of(self), self.device)
    return ops.where(
        shapes.broadcast_to(kept, self.shape), self, shapes.broadcast_to(zero, self.shape)
    )


# arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
@map_to(aten.arange.start_step, needs_call=True)
def aten_arange(
    start: Scalar | Dim,
    end: Scalar | Dim,
    step: Scalar | Dim = 1,
    *,
    call: CallInfo,
    **options: object,
) -> MaxTensor:
    length, result = call.output.shape[0], call.output.dtype
    if not (isinstance(start, Dim) or isinstance(end, Dim) or isinstance(step, Dim)):
        # A constant, with PyTorch's rounding.
        counted = torch.arange(start, end, step, dtype=result)
        return constants.constant(counted, result, call.device)
    fractional = isinstance(start, float) or isinstance(step, float) or result.is_floating_point
    # PyTorch computes start + i * step in double, or in int64 for ints.
    working = torch.float64 if fractional and result.is_floating_point else torch.int64
    if fractional and not result.is_floating_point:
        # PyTorch truncates the bounds first.
        start, step = (int(v) if isinstance(v, float) else v for v in (start, step))
    values = constants.iota(length, call.device)
    if start == 0 and step == 1:
        return promotion.cast(values, result)
    values = promotion.cast(values, working) * constants.scalar(step, working, call.device)
    return promotion.cast(values + constants.scalar(start, working, call.device), result)


# eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
# eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
@map_to(aten.eye, needs_call=True)
def aten_eye(n: Size, m: Size | None = None, *, call: CallInfo, **options: object) -> MaxTensor:
    rows, columns = call.output.shape
    if isinstance(rows, int) and isinstance(columns, int):
        identity = torch.eye(rows, columns, dtype=call.output.dtype)
        return constants.constant(identity, call.output.dtype, call.device)
    row = ops.reshape(constants.iota(rows, call.device), [rows, 1])
    column = ops.reshape(constants.iota(columns, call.device), [1, columns])
    return promotion.cast(ops.equal(row, column), call.output.dtype)


# fill.Scalar(Tensor self, Scalar value) -> Tensor
# fill.Tensor(Tensor self, Tensor value) -> Tensor
@map_to(aten.fill, needs_call=True)
def aten_fill(self: MaxTensor, value: Scalar | Dim | MaxTensor, *, call: CallInfo) -> MaxTensor:
    number = promotion.as_tensor(value, call.output.dtype, call.device)
    if number.shape:  # one element of any rank
        number = ops.reshape(number, [])
    return shapes.broadcast_to(number, call.output.shape)


# full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
@map_to(aten.full, needs_call=True)
def aten_full(
    size: list[Size], fill_value: Scalar | Dim, *, call: CallInfo, **options: object
) -> MaxTensor:
    return constants.full(call.output.shape, fill_value, call.output.dtype, call.device)


# full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
@map_to(aten.full_like, needs_call=True)
def aten_full_like(
    self: MaxTensor, fill_value: Scalar | Dim, *, call: CallInfo, **options: object
) -> MaxTensor:
    return constants.full(call.output.shape, fill_value, call.output.dtype, call.device)


# linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
@map_to(aten.linspace.default, needs_call=True)
def aten_linspace(
    start: Scalar | Dim,
    end: Scalar | Dim,
    steps: Size,
    *,
    call: CallInfo,
    **options: object,
) -> MaxTensor:
    length, result = call.output.shape[0], call.output.dtype
    if length in (0, 1):
        return constants.full([length], start, result, call.device)
    if not isinstance(length, Dim) and not isinstance(start, Dim) and not isinstance(end, Dim):
        return constants.constant(
            torch.linspace(start, end, length, dtype=result), result, call.device
        )
    if not result.is_floating_point:  # only PyTorch truncates as PyTorch does
        raise shapes.SymbolicSizeError("linspace of ints needs static bounds and a static length")
    # Like PyTorch, from the start up to the middle and from the end down to it.
    index = constants.iota(length, call.device)
    first, final = (constants.scalar(v, torch.float64, call.device) for v in (start, end))
    last = constants.scalar(shapes.size(length - 1), torch.int64, call.device)
    step = mojo_kernels.divide(final - first, promotion.cast(last, torch.float64))
    up = first + promotion.cast(index, torch.float64) * step
    down = final - promotion.cast(last - index, torch.float64) * step
    late = ops.greater_equal(index + index, ops.broadcast_to(last, [length]))
    return promotion.cast(ops.where(late, down, up), result)


# new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
@map_to(aten.new_full, needs_call=True)
def aten_new_full(
    self: MaxTensor,
    size: list[Size],
    fill_value: Scalar | Dim,
    *,
    call: CallInfo,
    **options: object,
) -> MaxTensor:
    return constants.full(call.output.shape, fill_value, call.output.dtype, call.device)


# scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
@map_to(aten.scalar_tensor, needs_call=True)
def aten_scalar_tensor(s: Scalar | Dim, *, call: CallInfo, **options: object) -> MaxTensor:
    return constants.scalar(s, call.output.dtype, call.device)


# tril(Tensor self, SymInt diagonal=0) -> Tensor
@map_to(aten.tril)
def aten_tril(self: MaxTensor, diagonal: Size = 0) -> MaxTensor:
    return _band(self, diagonal, lower=True)


def _triangle(
    make: Callable[..., torch.Tensor], row: int, col: int, offset: int, call: CallInfo
) -> MaxTensor:
    values = make(row, col, offset, dtype=call.output.dtype)
    if values.numel() == 0:
        return constants.full(call.output.shape, 0, call.output.dtype, call.device)
    return constants.constant(values, call.output.dtype, call.device)


# tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
@map_to(aten.tril_indices, needs_call=True)
def aten_tril_indices(
    row: int, col: int, offset: int = 0, *, call: CallInfo, **options: object
) -> MaxTensor:
    return _triangle(torch.tril_indices, row, col, offset, call)


# triu(Tensor self, SymInt diagonal=0) -> Tensor
@map_to(aten.triu)
def aten_triu(self: MaxTensor, diagonal: Size = 0) -> MaxTensor:
    return _band(self, diagonal, lower=False)


# triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
@map_to(aten.triu_indices, needs_call=True)
def aten_triu_indices(
    row: int, col: int, offset: int = 0, *, call: CallInfo, **options: object
) -> MaxTensor:
    return _triangle(torch.triu_indices, row, col, offset, call)
