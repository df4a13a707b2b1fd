"""Ops that read or write at positions given by tensors. Sorted by ATen name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from max.dtype import DType
from max.graph import Dim, ops

from torch_max_backend.errors import UnsupportedOpError
from torch_max_backend.lowering import constants, devices, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.shape import (
    reshape,
    slice_dim,
    strided_positions,
    take_dim,
)
from torch_max_backend.lowering.on_torch import NEEDS_SHAPES
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Scalar, Size

aten = torch.ops.aten

Indices = Sequence[MaxTensor | None]


def _number(value: Size, like: MaxTensor) -> MaxTensor:
    return constants.scalar(value, torch.int64, like.device)


def in_bounds(index: MaxTensor, size: Size, *, wraps: bool = False) -> MaxTensor:
    """Positions to read along a dim of `size`; MAX's gather raises an error for any other index.

    A negative index is another one, or counts from the end if it `wraps`. MAX alone would accept it
    for every op, and cannot see that an index is too large for its dim in a flattened tensor.
    """
    kernel = "tmb_wrapped_position" if wraps else "tmb_position"
    return mojo_kernels.elementwise(
        kernel, promotion.cast(index, torch.int64), _number(size, index)
    )


def _checked(position: MaxTensor, limit: Size) -> MaxTensor:
    """Positions to write to, checked when the graph runs: MAX writes anywhere in memory."""
    limits = ops.reshape(_number(limit, position), [1])
    flat = _flat(promotion.cast(position, torch.int64))
    wanted = [(torch.int64, shapes.sizes(flat))]
    [checked] = mojo_kernels.call("tmb_checked_positions", [flat, limits], wanted)
    return ops.reshape(checked, position.shape)


def _flat(tensor: MaxTensor) -> MaxTensor:
    """The tensor as one dim; 0-d becomes one element."""
    return ops.reshape(tensor, [shapes.numel(tensor.shape)])


def number_true(mask: MaxTensor) -> MaxTensor:
    """The flattened mask with k at the k-th True, counted from 0.

    At a False it is the number of the last True before it, or -1. The number of True elements need
    not be known.
    """
    return ops.cumsum(_flat(promotion.cast(mask, torch.int64)), 0) - _number(1, mask)


def _flat_position(index: MaxTensor, dim: int, shape: Sequence[Size]) -> MaxTensor:
    """The positions of `gather` and `scatter` with `index` at `dim` in a flat tensor of `shape`."""
    position = in_bounds(index, shape[dim])
    stride: Size = 1
    total: MaxTensor | None = None
    for axis in reversed(range(len(shape))):
        if axis == dim:
            coordinate = position
        else:
            size = shapes.size(index.shape[axis])
            along = [size if i == axis else 1 for i in range(len(shape))]
            coordinate = ops.reshape(constants.iota(size, index.device), along)
        term = coordinate if stride == 1 else coordinate * _number(stride, index)
        total = term if total is None else total + term
        stride = shapes.numel([stride, shape[axis]])
    assert total is not None
    return total


def _masked(indices: Indices) -> bool:
    return any(i is not None and i.dtype in (DType.bool, DType.uint8) for i in indices)


class _Plan:
    """Advanced indexing of a tensor, seen with its indexed dims first and merged into one."""

    def __init__(self, tensor: MaxTensor, indices: Indices) -> None:
        self.dims = [dim for dim, index in enumerate(indices) if index is not None]
        tensors = [index for index in indices if index is not None]
        self.rest = [dim for dim in range(tensor.rank) if dim not in self.dims]
        self.shape = shapes.sizes(tensor)
        adjacent = self.dims == list(range(self.dims[0], self.dims[-1] + 1))
        # Where the dims of the index go in the result: in place of the indexed dims if those are
        # adjacent, else in front of all others.
        self.place = self.dims[0] if adjacent else 0
        whole = [
            in_bounds(index, self.shape[dim], wraps=True)
            for dim, index in zip(self.dims, tensors, strict=True)
        ]
        whole = shapes.broadcast_tensors(*whole)
        position = whole[0]
        for dim, index in zip(self.dims[1:], whole[1:], strict=True):
            position = position * _number(self.shape[dim], index) + index
        self.index_shape = shapes.sizes(position)
        self.position = _flat(position)
        self.count = shapes.numel(self.index_shape)
        self.rest_shape = [self.shape[dim] for dim in self.rest]

    def fold(self, tensor: MaxTensor) -> MaxTensor:
        """`tensor` as [indexed elements, rest...]."""
        order = [*self.dims, *self.rest]
        moved = ops.permute(tensor, order) if order != sorted(order) else tensor
        return ops.reshape(
            moved, [shapes.numel([self.shape[dim] for dim in self.dims]), *self.rest_shape]
        )

    def unfold(self, folded: MaxTensor) -> MaxTensor:
        """The inverse of `fold`."""
        order = [*self.dims, *self.rest]
        moved = ops.reshape(folded, [self.shape[dim] for dim in order])
        if order == sorted(order):
            return moved
        return ops.permute(moved, sorted(range(len(order)), key=order.__getitem__))

    def _order(self) -> list[int]:
        """The dims [index..., rest...] in the result's order."""
        index = list(range(len(self.index_shape)))
        rest = [len(index) + i for i in range(len(self.rest))]
        return [*rest[: self.place], *index, *rest[self.place :]]

    @property
    def result_shape(self) -> list[Size]:
        both = [*self.index_shape, *self.rest_shape]
        return [both[i] for i in self._order()]

    def result(self, taken: MaxTensor) -> MaxTensor:
        """[index elements, rest...] as the result of reading."""
        moved = ops.reshape(taken, [*self.index_shape, *self.rest_shape])
        order = self._order()
        return moved if order == sorted(order) else ops.permute(moved, order)

    def updates(self, values: MaxTensor) -> MaxTensor:
        """Values to write as [index elements, rest...]."""
        values = shapes.broadcast_to(values, self.result_shape)
        order = self._order()
        if order != sorted(order):
            values = ops.permute(values, sorted(range(len(order)), key=order.__getitem__))
        return ops.reshape(values, [self.count, *self.rest_shape])


def _put_masked(
    self: MaxTensor, indices: Indices, values: MaxTensor, accumulate: bool
) -> MaxTensor:
    """`self[mask] = values`, for which the number of True elements need not be known."""
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(given) != 1:
        raise UnsupportedOpError("index_put with a mask and other indices is not supported")
    dim, mask = given[0]
    mask = promotion.cast(mask, torch.bool)
    shape = shapes.sizes(self)
    rest = len(shape) - dim - mask.rank
    aligned = ops.reshape(mask, [*([1] * dim), *shapes.sizes(mask), *([1] * rest)])
    if dim and values.rank > rest:
        raise UnsupportedOpError(
            "index_put with a mask that does not begin at dim 0, and a value per row, is not supported"
        )
    if values.rank > rest and shapes.size(values.shape[0]) != 1:
        # The k-th True takes the k-th row.
        row = ops.max(number_true(mask), _number(0, self))
        rows = take_dim(values, 0, row)
        tail = [1] * (rest + 1 - values.rank)
        values = ops.reshape(rows, [*shapes.sizes(mask), *tail, *shapes.sizes(values)[1:]])
    elif values.rank > rest:
        values = ops.reshape(values, shapes.sizes(values)[1:])
    values = shapes.broadcast_to(values, shape)
    if accumulate:
        values = promotion.cast(
            promotion.opmath(self) + promotion.opmath(values), promotion.dtype_of(self)
        )
    return ops.where(shapes.broadcast_to(aligned, shape), values, self)


def _put_lines(self: MaxTensor, plan: _Plan, values: MaxTensor) -> MaxTensor:
    """`self` with other lines along one dim; moving that dim to the front would be two copies."""
    (dim,) = plan.dims
    outer, inner = shapes.numel(plan.shape[:dim]), shapes.numel(plan.shape[dim + 1 :])
    lines = ops.reshape(shapes.broadcast_to(values, plan.result_shape), [outer, plan.count, inner])
    whole = [outer, plan.shape[dim], inner]
    position = _checked(plan.position, plan.shape[dim])
    inputs = [ops.reshape(self, whole), lines, position]
    (result,) = mojo_kernels.call("tmb_put_lines", inputs, [(promotion.dtype_of(self), whole)])
    return ops.reshape(result, plan.shape)


def _wide(tensor: MaxTensor) -> MaxTensor:
    """`tensor` in a dtype to accumulate in: int32 for bool, float32 for 16-bit floats."""
    if tensor.dtype == DType.bool:
        return promotion.cast(tensor, torch.int32)
    return promotion.opmath(tensor)


# as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor
@map_to(aten.as_strided_scatter)
def aten_as_strided_scatter(
    self: MaxTensor,
    src: MaxTensor,
    size: list[Size],
    stride: list[Size],
    storage_offset: Size | None = None,
) -> MaxTensor:
    _, sizes, positions = strided_positions(self, size, stride, storage_offset)
    if 0 in sizes:
        return self
    updates = promotion.cast(_flat(src), promotion.dtype_of(self))
    # The positions are known not to be negative: a check for that would be an expression of
    # constants, for which MAX compiles a program.
    flat = ops.scatter_nd(_flat(self), updates, ops.reshape(positions, [-1, 1]))
    return ops.reshape(flat, self.shape)


# embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor
@map_to(aten.embedding)
def aten_embedding(
    weight: MaxTensor,
    indices: MaxTensor,
    padding_idx: Size = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> MaxTensor:
    # The padding index and the scale only matter for the gradient.
    rows = in_bounds(indices, shapes.size(weight.shape[0]))
    if indices.rank:
        return ops.gather(weight, rows, 0)
    return ops.reshape(ops.gather(weight, _flat(rows), 0), shapes.sizes(weight)[1:])


# embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor
@map_to(aten.embedding_dense_backward, needs_call=True)
def aten_embedding_dense_backward(
    grad_output: MaxTensor,
    indices: MaxTensor,
    num_weights: Size,
    padding_idx: Size,
    scale_grad_by_freq: bool,
    *,
    call: CallInfo,
) -> MaxTensor:
    width = shapes.size(grad_output.shape[-1])
    row = _flat(promotion.cast(indices, torch.int64))
    count = shapes.size(row.shape[0])
    grad = promotion.opmath(reshape(grad_output, [count, width]))
    dtype = promotion.dtype_of(grad)
    column = ops.reshape(row, [count, 1])
    if scale_grad_by_freq:
        ones = constants.full([count], 1, dtype, call.device)
        counts = constants.full([num_weights], 0, dtype, call.device)
        counts = ops.scatter_nd_add(counts, ones, column)
        grad = mojo_kernels.divide(grad, ops.reshape(take_dim(counts, 0, row), [count, 1]))
    if padding_idx != -1:
        padding = ops.equal(column, ops.broadcast_to(_number(padding_idx, row), [count, 1]))
        zero = constants.full([count, width], 0, dtype, call.device)
        grad = ops.where(ops.broadcast_to(padding, [count, width]), zero, grad)
    zeros = constants.full([num_weights, width], 0, dtype, call.device)
    return promotion.cast(ops.scatter_nd_add(zeros, grad, column), call.output.dtype)


# gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor
@map_to(aten.gather)
def aten_gather(
    self: MaxTensor, dim: int, index: MaxTensor, *, sparse_grad: bool = False
) -> MaxTensor:
    if 0 in shapes.sizes(index):
        return constants.full(index.shape, 0, promotion.dtype_of(self), self.device)
    if not self.rank or not index.rank:
        size = shapes.numel(self.shape) if not self.rank else shapes.size(self.shape[0])
        taken = take_dim(_flat(self), 0, in_bounds(_flat(index), size))
        return ops.reshape(taken, index.shape)
    position = _flat_position(index, shapes.dim(dim, self.rank), shapes.sizes(self))
    return ops.reshape(take_dim(_flat(self), 0, _flat(position)), index.shape)


# index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
# _unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
@map_to(aten.index.Tensor, needs_call=True)
@map_to(aten._unsafe_index.Tensor, needs_call=True)
def aten_index(self: MaxTensor, indices: list[MaxTensor | None], *, call: CallInfo) -> MaxTensor:
    if _masked(indices):
        raise UnsupportedOpError(
            f"the output shape of indexing with a mask {NEEDS_SHAPES}; "
            "torch.where keeps the input's shape"
        )
    if 0 in call.output.shape:
        return constants.full(call.output.shape, 0, call.output.dtype, self.device)
    plan = _Plan(self, indices)
    if len(plan.dims) == 1:  # no need to move it to the front
        dim = plan.dims[0]
        taken = take_dim(self, dim, plan.position)
        shape = plan.shape
        return reshape(taken, [*shape[:dim], *plan.index_shape, *shape[dim + 1 :]])
    return plan.result(take_dim(plan.fold(self), 0, plan.position))


# index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor
# _unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor
@map_to(aten.index_put.default)
@map_to(aten._unsafe_index_put.default)
def aten_index_put(
    self: MaxTensor,
    indices: list[MaxTensor | None],
    values: MaxTensor,
    accumulate: bool = False,
) -> MaxTensor:
    dtype = promotion.dtype_of(self)
    values = promotion.cast(values, dtype)
    if _masked(indices):
        return _put_masked(self, indices, values, accumulate)
    plan = _Plan(self, indices)
    if plan.count == 0 or 0 in plan.shape:
        return self
    if not accumulate and len(plan.dims) == 1 and plan.dims[0] and not devices.is_gpu(self.device):
        return _put_lines(self, plan, values)
    updates = plan.updates(values)
    target = plan.fold(self)
    limit = shapes.size(target.shape[0])
    position = ops.reshape(_checked(plan.position, limit), [plan.count, 1])
    if accumulate:
        result = ops.scatter_nd_add(_wide(target), _wide(updates), position)
        return plan.unfold(promotion.cast(result, dtype))
    return plan.unfold(ops.scatter_nd(target, updates, position))


# index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor
@map_to(aten.index_reduce.default)
def aten_index_reduce(
    self: MaxTensor,
    dim: int,
    index: MaxTensor,
    source: MaxTensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> MaxTensor:
    if not self.shape:  # one element: as a vector of one
        lines = aten_index_reduce(
            _flat(self), 0, _flat(index), _flat(source), reduce, include_self=include_self
        )
        return ops.reshape(lines, [])
    dim = shapes.dim(dim, self.rank)
    along = [shapes.numel(index.shape) if axis == dim else 1 for axis in range(self.rank)]
    index = shapes.broadcast_to(ops.reshape(index, along), source.shape)
    return aten_scatter_reduce(self, dim, index, source, reduce, include_self=include_self)


# index_select(Tensor self, int dim, Tensor index) -> Tensor
@map_to(aten.index_select)
def aten_index_select(self: MaxTensor, dim: int, index: MaxTensor) -> MaxTensor:
    if not self.rank:
        return ops.reshape(take_dim(_flat(self), 0, in_bounds(_flat(index), 1)), [])
    dim = shapes.dim(dim, self.rank)
    if shapes.numel(index.shape) == 0:
        return slice_dim(self, dim, 0, 0)
    return take_dim(self, dim, in_bounds(_flat(index), shapes.size(self.shape[dim])))


# masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor
@map_to(aten.masked_scatter, needs_call=True)
def aten_masked_scatter(
    self: MaxTensor, mask: MaxTensor, source: MaxTensor, *, call: CallInfo
) -> MaxTensor:
    shape = call.output.shape
    self, mask = shapes.broadcast_to(self, shape), shapes.broadcast_to(mask, shape)
    if shapes.numel(source.shape) == 0 or 0 in shape:
        return self
    # The k-th True takes the k-th element.
    position = ops.max(number_true(mask), _number(0, self))
    values = ops.reshape(take_dim(_flat(source), 0, position), list(shape))
    return ops.where(mask, values, self)


# masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor
@map_to(aten.masked_scatter_backward, needs_call=True)
def aten_masked_scatter_backward(
    grad_output: MaxTensor, mask: MaxTensor, sizes: list[Size], *, call: CallInfo
) -> MaxTensor:
    count = shapes.numel(sizes)
    mask = _flat(shapes.broadcast_to(mask, grad_output.shape))
    # What was not replaced goes to an extra last element, which is cut off.
    position = ops.where(mask, number_true(mask), _number(count, grad_output))
    zeros = constants.full([shapes.size(count + 1)], 0, call.output.dtype, call.device)
    found = ops.scatter_nd(zeros, _flat(grad_output), ops.unsqueeze(position, 1))
    return ops.reshape(slice_dim(found, 0, 0, count), list(sizes))


# put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor
@map_to(aten.put)
def aten_put(
    self: MaxTensor, index: MaxTensor, source: MaxTensor, accumulate: bool = False
) -> MaxTensor:
    if shapes.numel(index.shape) == 0:
        return self
    flat = aten_index_put(_flat(self), [_flat(index)], _flat(source), accumulate)
    return ops.reshape(flat, self.shape)


Scatter = Callable[..., MaxTensor]


def _scatter(
    self: MaxTensor, dim: int, index: MaxTensor, src: MaxTensor, scatter: Scatter
) -> MaxTensor:
    """MAX's `scatter` for any rank; elements of `src` beyond the shape of `index` are ignored.

    `index` comes from `_scattered`.
    """
    if 0 in shapes.sizes(index):
        return self
    dim = shapes.dim(dim, self.rank)
    if not self.rank:
        result = scatter(_flat(self), _flat(src), _flat(index), 0)
        return ops.reshape(result, [])
    if src.rank:
        for axis, size in enumerate(shapes.sizes(index)):
            src = slice_dim(src, axis, 0, size)
    src = shapes.broadcast_to(src, index.shape)
    return scatter(self, src, index, dim)


def _scattered(self: MaxTensor, dim: int, index: MaxTensor) -> MaxTensor:
    """The index of an op that scatters into `self`, checked."""
    if 0 in shapes.sizes(index):
        return index
    size = shapes.size(self.shape[shapes.dim(dim, self.rank)]) if self.rank else 1
    return _checked(index, size)


_REDUCTIONS: dict[str, Scatter] = {
    "add": ops.scatter_add,
    "amax": ops.scatter_max,
    "amin": ops.scatter_min,
    "mean": ops.scatter_add,
    "multiply": ops.scatter_mul,
    "prod": ops.scatter_mul,
    "sum": ops.scatter_add,
}


# scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
# scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
# scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor
# scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor
@map_to(aten.scatter)
def aten_scatter(
    self: MaxTensor,
    dim: int,
    index: MaxTensor,
    src: MaxTensor | Scalar | Dim | None = None,
    *,
    value: Scalar | Dim | None = None,
    reduce: str | None = None,
) -> MaxTensor:
    given = src if src is not None else value
    assert given is not None
    dtype = promotion.dtype_of(self)
    updates = promotion.as_tensor(given, dtype, self.device)
    index = _scattered(self, dim, index)
    if reduce is None:
        return _scatter(self, dim, index, updates, ops.scatter)
    wide = _scatter(_wide(self), dim, index, _wide(updates), _REDUCTIONS[reduce])
    return promotion.cast(wide, dtype)


# scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
@map_to(aten.scatter_add)
def aten_scatter_add(self: MaxTensor, dim: int, index: MaxTensor, src: MaxTensor) -> MaxTensor:
    index = _scattered(self, dim, index)
    wide = _scatter(_wide(self), dim, index, _wide(src), ops.scatter_add)
    return promotion.cast(wide, promotion.dtype_of(self))


# scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor
@map_to(aten.scatter_reduce.two)
def aten_scatter_reduce(
    self: MaxTensor,
    dim: int,
    index: MaxTensor,
    src: MaxTensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> MaxTensor:
    if 0 in shapes.sizes(index):
        return self
    index = _scattered(self, dim, index)
    target, updates = _wide(self), _wide(src)
    dtype = promotion.dtype_of(target)

    def counted(start: MaxTensor, updated: MaxTensor) -> MaxTensor:
        return _scatter(start, dim, index, updated, ops.scatter_add)

    zeros = constants.full(self.shape, 0, torch.int32, self.device)
    ones = constants.full(index.shape, 1, torch.int32, self.device)
    if not include_self:
        # Elements that are written to start from the reduction's neutral element.
        touched = promotion.cast(counted(zeros, ones), torch.bool)
        neutral = constants.full(self.shape, _neutral(reduce, dtype), dtype, self.device)
        target = ops.where(touched, neutral, target)
    result = _scatter(target, dim, index, updates, _REDUCTIONS[reduce])
    if reduce in ("amax", "amin") and dtype.is_floating_point:
        # MAX's maximum drops NaN; PyTorch's returns it.
        nans = counted(
            promotion.cast(ops.is_nan(target), torch.int32),
            promotion.cast(ops.is_nan(updates), torch.int32),
        )
        nan = constants.full(self.shape, float("nan"), dtype, self.device)
        result = ops.where(promotion.cast(nans, torch.bool), nan, result)
    if reduce == "mean":
        own = constants.full(self.shape, int(include_self), torch.int32, self.device)
        counts = counted(own, ones)
        counts = promotion.cast(
            ops.max(counts, constants.scalar(1, torch.int32, self.device)), dtype
        )
        result = (
            mojo_kernels.divide(result, counts)
            if dtype.is_floating_point
            else ops.floor_div(result, counts)
        )
    return promotion.cast(result, promotion.dtype_of(self))


def _neutral(reduce: str, dtype: torch.dtype) -> Scalar:
    if reduce in ("amax", "amin"):
        if dtype.is_floating_point:
            return -float("inf") if reduce == "amax" else float("inf")
        limits = torch.iinfo(dtype)
        return limits.min if reduce == "amax" else limits.max
    return 1 if reduce == "prod" else 0


# take(Tensor self, Tensor index) -> Tensor
@map_to(aten.take.default)
def aten_take(self: MaxTensor, index: MaxTensor) -> MaxTensor:
    # PyTorch's decomposition reads the value of a 0-d index, which a graph cannot.
    if 0 in shapes.sizes(index):
        return constants.full(index.shape, 0, promotion.dtype_of(self), self.device)
    flat = _flat(self)
    position = in_bounds(_flat(index), shapes.size(flat.shape[0]), wraps=True)
    return ops.reshape(take_dim(flat, 0, position), index.shape)
