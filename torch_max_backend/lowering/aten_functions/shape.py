"""Ops that move elements or change shapes, and compute nothing. Sorted by ATen name."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from max.graph import DeviceRef, Dim, ops

from torch_max_backend.lowering import constants, promotion, shapes
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Size

aten = torch.ops.aten

MAX_RANK = 8
"""MAX rejects tensors with more dims."""


def reshape(tensor: MaxTensor, shape: Sequence[Size]) -> MaxTensor:
    """`tensor.reshape(shape)`, also where only PyTorch can prove that the element counts agree."""
    source, target = shapes.sizes(tensor), [shapes.size(s) for s in shape]
    if source == target:
        return tensor
    if shapes.same(shapes.numel(source), shapes.numel(target)):
        return ops.reshape(tensor, target)
    # MAX has to prove that the element counts agree. Equal sizes on the left and on the right need
    # no proof; the dims between them are flattened and their size is asserted.
    left = right = 0
    shorter = min(len(source), len(target))
    while left < shorter and shapes.same(source[left], target[left]):
        left += 1
    while right < shorter - left and shapes.same(source[-1 - right], target[-1 - right]):
        right += 1
    before, after = target[:left], target[len(target) - right :]
    flat = ops.reshape(tensor, [*before, shapes.numel(source[left : len(source) - right]), *after])
    middle = shapes.numel(target[left : len(target) - right])
    return ops.reshape(ops.rebind(flat, [*before, middle, *after]), target)


def slice_dim(tensor: MaxTensor, dim: int, start: Size, stop: Size, step: int = 1) -> MaxTensor:
    """`tensor[..., start:stop:step, ...]` at `dim`; the bounds must be within [0, size]."""
    if start == 0 and step == 1 and shapes.same(stop, tensor.shape[dim]):
        return tensor
    if isinstance(start, int) and isinstance(stop, int) and stop <= start:
        shape = shapes.sizes(tensor)
        shape[dim] = 0
        return constants.full(shape, 0, promotion.dtype_of(tensor), tensor.device)
    index = [slice(None)] * tensor.rank
    index[dim] = slice(start, stop, step)
    return ops.slice_tensor(tensor, index)


def take_dim(tensor: MaxTensor, dim: int, index: MaxTensor) -> MaxTensor:
    """`tensor.index_select(dim, index)`; no index may be negative."""
    return ops.gather(tensor, index, dim)


def move_dim(tensor: MaxTensor, source: int, target: int) -> MaxTensor:
    """`tensor.movedim(source, target)`."""
    order = [i for i in range(tensor.rank) if i != source]
    order.insert(target, source)
    return tensor if order == sorted(order) else ops.permute(tensor, order)


def _bound(value: Size | None, size: Size, default: Size) -> Size:
    """A slice bound clamped to [0, size]; symbolic bounds are known to PyTorch to be within."""
    if value is None or (isinstance(value, int) and value >= torch.iinfo(torch.int64).max):
        return default
    if isinstance(value, int) and value < 0:
        value = shapes.size(size + value)
    if isinstance(value, int) and isinstance(size, int):
        return min(max(value, 0), size)
    return value


def _select(tensor: MaxTensor, dim: int, index: Size) -> MaxTensor:
    dim = shapes.dim(dim, tensor.rank)
    size = shapes.size(tensor.shape[dim])
    if isinstance(index, int) and index < 0:
        index = shapes.size(size + index)
    picked = slice_dim(tensor, dim, index, shapes.size(index + 1))
    shape = shapes.sizes(tensor)
    return ops.reshape(picked, shape[:dim] + shape[dim + 1 :])


def _positions(start: Size, step: Size, length: Size, like: MaxTensor) -> MaxTensor:
    """start, start + step, ...: `length` positions as int64."""
    if isinstance(start, int) and isinstance(step, int) and isinstance(length, int):
        # One constant: MAX compiles and runs a program to fold each expression of constants.
        return constants.constant(start + step * torch.arange(length), torch.int64, like.device)
    index = constants.iota(length, like.device)
    if step != 1:
        index = index * constants.scalar(step, torch.int64, like.device)
    return index + constants.scalar(start, torch.int64, like.device)


def strided_positions(
    tensor: MaxTensor, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None
) -> tuple[int, list[int], MaxTensor]:
    """The element count of `tensor`, the static `size`, and the flat positions of as_strided.

    A MAX graph has no storages: `tensor` is taken to be contiguous and its whole storage.
    """
    why = "as_strided"
    sizes = [shapes.static_size(s, why) for s in size]
    strides = [shapes.static_size(s, why) for s in stride]
    offset = shapes.static_size(storage_offset or 0, why)
    count = shapes.static_size(shapes.numel(tensor.shape), why)
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if 0 not in sizes and last >= count:
        raise ValueError(f"as_strided reads element {last} of a tensor of {count} elements")
    index = torch.tensor(offset)
    for dim, (n, s) in enumerate(zip(sizes, strides, strict=True)):
        index = index + (torch.arange(n) * s).reshape([-1] + [1] * (len(sizes) - 1 - dim))
    return count, sizes, constants.constant(index.flatten(), torch.int64, tensor.device)


def _outputs_of_split(tensor: MaxTensor, dim: int, call: CallInfo) -> list[MaxTensor | None]:
    dim = shapes.dim(dim, tensor.rank)
    parts: list[MaxTensor | None] = []
    start: Size = 0
    for index, meta in enumerate(call.outputs):
        assert meta is not None
        stop = shapes.size(start + meta.shape[dim])
        used = index in call.used_outputs
        parts.append(slice_dim(tensor, dim, start, stop) if used else None)
        start = stop
    return parts


# as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)
@map_to(aten.as_strided)
def aten_as_strided(
    self: MaxTensor,
    size: list[Size],
    stride: list[Size],
    storage_offset: Size | None = None,
) -> MaxTensor:
    count, sizes, positions = strided_positions(self, size, stride, storage_offset)
    if 0 in sizes:
        return constants.full(sizes, 0, promotion.dtype_of(self), self.device)
    return ops.reshape(take_dim(ops.reshape(self, [count]), 0, positions), sizes)


# cat(Tensor[] tensors, int dim=0) -> Tensor
@map_to(aten.cat, needs_call=True)
def aten_cat(tensors: list[MaxTensor], dim: int = 0, *, call: CallInfo) -> MaxTensor:
    # PyTorch skips tensors of shape [0], whatever the rank of the others.
    rank = len(call.output.shape)
    parts = [part for part in tensors if part.rank == rank and shapes.sizes(part) != [0]]
    if not parts:
        return promotion.cast(tensors[0], call.output.dtype)
    parts = [promotion.cast(part, call.output.dtype) for part in parts]
    return parts[0] if len(parts) == 1 else ops.concat(parts, shapes.dim(dim, rank))


# chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]
@map_to(aten.chunk, needs_call=True)
def aten_chunk(
    self: MaxTensor, chunks: int, dim: int = 0, *, call: CallInfo
) -> list[MaxTensor | None]:
    return _outputs_of_split(self, dim, call)


# constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor
@map_to(aten.constant_pad_nd)
def aten_constant_pad_nd(
    self: MaxTensor, pad: list[Size], value: int | float | bool | Dim = 0
) -> MaxTensor:
    dtype = promotion.dtype_of(self)
    result = self
    # The last dim comes first in `pad`; negative pads crop.
    for index, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True)):
        dim = self.rank - 1 - index
        size = shapes.size(self.shape[dim])
        crop_before = -before if isinstance(before, int) and before < 0 else 0
        crop_after = -after if isinstance(after, int) and after < 0 else 0
        result = slice_dim(result, dim, crop_before, shapes.size(size - crop_after))
    amounts: list[Size] = [0] * (2 * (self.rank - len(pad) // 2))
    for before, after in reversed(list(zip(pad[::2], pad[1::2], strict=True))):
        amounts += [max(a, 0) if isinstance(a, int) else a for a in (before, after)]
    if all(amount == 0 for amount in amounts):
        return result
    static = [amount for amount in amounts if isinstance(amount, int)]
    if len(static) == len(amounts) and 0 not in shapes.sizes(result):
        # MAX's kernel for bool does not compile for a GPU.
        kind = torch.uint8 if dtype == torch.bool else dtype
        if dtype == torch.bool and not isinstance(value, Dim):
            value = bool(value)
        # MAX takes the number on the CPU, wherever the tensor is.
        number = constants.scalar(value, kind, DeviceRef.CPU())
        padded = ops.pad(promotion.cast(result, kind), static, value=number)
        return promotion.cast(padded, dtype)
    for dim in range(self.rank):
        shape = shapes.sizes(result)
        parts = []
        for amount in amounts[2 * dim : 2 * dim + 2]:
            border = [*shape[:dim], amount, *shape[dim + 1 :]]
            filled = constants.full(border, value, dtype, self.device)
            parts.append([] if amount == 0 else [filled])
        pieces = [*parts[0], result, *parts[1]]
        result = ops.concat(pieces, dim) if len(pieces) > 1 else result
    return result


# diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)
@map_to(aten.diagonal, needs_call=True)
def aten_diagonal(
    self: MaxTensor, offset: int = 0, dim1: int = 0, dim2: int = 1, *, call: CallInfo
) -> MaxTensor:
    dim1, dim2 = shapes.dim(dim1, self.rank), shapes.dim(dim2, self.rank)
    batch = [i for i in range(self.rank) if i not in (dim1, dim2)]
    moved = ops.permute(self, [*batch, dim1, dim2])
    *outer, rows, columns = shapes.sizes(moved)
    length = call.output.shape[-1]
    if length == 0:
        return constants.full(call.output.shape, 0, call.output.dtype, self.device)
    flat = ops.reshape(moved, [*outer, shapes.numel([rows, columns])])
    start = shapes.size(-offset * columns) if offset < 0 else offset
    places = _positions(start, shapes.size(columns + 1), length, self)
    return take_dim(flat, len(outer), places)


# diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor
@map_to(aten.diagonal_backward)
def aten_diagonal_backward(
    grad_output: MaxTensor, input_sizes: list[Size], offset: int, dim1: int, dim2: int
) -> MaxTensor:
    # Zeros in the order of the permuted dims: MAX would compile a program to permute zeros.
    order = _with_dims_last(len(input_sizes), dim1, dim2)
    shape = [input_sizes[i] for i in order]
    zeros = constants.full(shape, 0, promotion.dtype_of(grad_output), grad_output.device)
    result = _with_diagonal(zeros, grad_output, offset)
    return ops.permute(result, sorted(range(len(shape)), key=order.__getitem__))


# diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor
@map_to(aten.diagonal_scatter)
def aten_diagonal_scatter(
    self: MaxTensor, src: MaxTensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> MaxTensor:
    order = _with_dims_last(self.rank, dim1, dim2)
    result = _with_diagonal(ops.permute(self, order), src, offset)
    return ops.permute(result, sorted(range(self.rank), key=order.__getitem__))


def _with_dims_last(rank: int, dim1: int, dim2: int) -> list[int]:
    dim1, dim2 = shapes.dim(dim1, rank), shapes.dim(dim2, rank)
    return [i for i in range(rank) if i not in (dim1, dim2)] + [dim1, dim2]


def _with_diagonal(moved: MaxTensor, src: MaxTensor, offset: int) -> MaxTensor:
    """`moved` with the diagonal of its last two dims replaced."""
    *outer, rows, columns = shapes.sizes(moved)
    rows, columns = (shapes.static_size(s, "diagonal_scatter") for s in (rows, columns))
    if shapes.numel(src.shape) == 0:
        return moved
    # Every element of the result has a known position in the concatenation [matrix, diagonal].
    index = torch.arange(rows * columns).reshape(rows, columns)
    diagonal = torch.diagonal(index, offset)
    diagonal.copy_(torch.arange(diagonal.numel()) + rows * columns)
    both = ops.concat([ops.reshape(moved, [*outer, rows * columns]), src], len(outer))
    places = constants.constant(index.flatten(), torch.int64, moved.device)
    return ops.reshape(take_dim(both, len(outer), places), moved.shape)


# expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)
@map_to(aten.expand, needs_call=True)
def aten_expand(
    self: MaxTensor, size: list[Size], *, implicit: bool = False, call: CallInfo
) -> MaxTensor:
    target = list(call.output.shape)
    kept = [
        own if own == 1 else wanted
        for own, wanted in zip(shapes.sizes(self), target[len(target) - self.rank :], strict=True)
    ]
    if not all(map(shapes.same, kept, self.shape)):
        self = ops.rebind(self, kept)
    return shapes.broadcast_to(self, target)


# flip(Tensor self, int[] dims) -> Tensor
@map_to(aten.flip)
def aten_flip(self: MaxTensor, dims: list[int]) -> MaxTensor:
    result = self
    for dim in {shapes.dim(dim, self.rank) for dim in dims} if self.rank else ():
        size = shapes.size(self.shape[dim])
        if size in (0, 1):
            continue
        # Not a slice of step -1: MAX returns wrong data for it.
        result = take_dim(result, dim, _positions(shapes.size(size - 1), -1, size, self))
    return result


# permute(Tensor(a) self, int[] dims) -> Tensor(a)
@map_to(aten.permute)
def aten_permute(self: MaxTensor, dims: list[int]) -> MaxTensor:
    order = [shapes.dim(dim, self.rank) for dim in dims]
    return self if order == sorted(order) else ops.permute(self, order)


# repeat(Tensor self, SymInt[] repeats) -> Tensor
@map_to(aten.repeat, needs_call=True)
def aten_repeat(self: MaxTensor, repeats: list[Size], *, call: CallInfo) -> MaxTensor:
    target = list(call.output.shape)
    if 0 in target:
        return constants.full(target, 0, call.output.dtype, self.device)
    own: list[Size] = [*([1] * (len(repeats) - self.rank)), *shapes.sizes(self)]
    once: list[Size] = []
    expanded: list[Size] = []
    for count, size in zip(repeats, own, strict=True):
        if count != 1 and size != 1:
            once += [1, size]
            expanded += [count, size]
        else:
            once.append(size)
            expanded.append(count if size == 1 else size)
    if len(once) <= MAX_RANK:
        return reshape(ops.broadcast_to(ops.reshape(self, once), expanded), target)
    result = ops.reshape(self, own)
    for dim, count in enumerate(repeats):
        if count != 1:
            result = ops.concat([result] * shapes.static_size(count, "repeat of many dims"), dim)
    return result


# reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)
@map_to(aten.reshape, needs_call=True)
def aten_reshape(self: MaxTensor, shape: list[Size], *, call: CallInfo) -> MaxTensor:
    return reshape(self, call.output.shape)


# select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)
@map_to(aten.select.int)
def aten_select(self: MaxTensor, dim: int, index: Size) -> MaxTensor:
    return _select(self, dim, index)


# select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor
@map_to(aten.select_backward)
def aten_select_backward(
    grad_output: MaxTensor, input_sizes: list[Size], dim: int, index: Size
) -> MaxTensor:
    dim = shapes.dim(dim, len(input_sizes))
    if isinstance(index, int) and index < 0:
        index = shapes.size(input_sizes[dim] + index)
    return _embedded_in_zeros(ops.unsqueeze(grad_output, dim), input_sizes, dim, index)


# select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor
@map_to(aten.select_scatter)
def aten_select_scatter(self: MaxTensor, src: MaxTensor, dim: int, index: Size) -> MaxTensor:
    dim = shapes.dim(dim, self.rank)
    size = shapes.size(self.shape[dim])
    if isinstance(index, int) and index < 0:
        index = shapes.size(size + index)
    return aten_slice_scatter(self, ops.unsqueeze(src, dim), dim, index, shapes.size(index + 1), 1)


# slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)
@map_to(aten.slice.Tensor, needs_call=True)
def aten_slice(
    self: MaxTensor,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
    *,
    call: CallInfo,
) -> MaxTensor:
    dim = shapes.dim(dim, self.rank)
    size = shapes.size(self.shape[dim])
    step = shapes.static_size(step, "the step of a slice")
    length = call.output.shape[dim]
    if length == 0:
        return constants.full(call.output.shape, 0, call.output.dtype, self.device)
    first, stop = _bound(start, size, 0), _bound(end, size, size)
    if not (isinstance(first, int) and isinstance(stop, int)):
        # PyTorch's length accounts for symbolic bounds that are clamped or negative.
        if step == 1 and shapes.same(stop, size):
            first = shapes.size(size - length)
        elif step == 1:
            stop = shapes.size(first + length)
        elif not shapes.same(stop, size):
            stop = shapes.size(first + (length - 1) * step + 1)
    return slice_dim(self, dim, first, stop, step)


# slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor
@map_to(aten.slice_backward)
def aten_slice_backward(
    grad_output: MaxTensor,
    input_sizes: list[Size],
    dim: int,
    start: Size,
    end: Size,
    step: Size,
) -> MaxTensor:
    dim = shapes.dim(dim, len(input_sizes))
    if step == 1:
        first = _bound(start, input_sizes[dim], 0)
        return _embedded_in_zeros(grad_output, input_sizes, dim, first)
    dtype = promotion.dtype_of(grad_output)
    zeros = constants.full(input_sizes, 0, dtype, grad_output.device)
    return aten_slice_scatter(zeros, grad_output, dim, start, end, step)


def _embedded_in_zeros(part: MaxTensor, sizes: list[Size], dim: int, first: Size) -> MaxTensor:
    """Zeros of `sizes` with `part` at `first`, by concatenation: MAX would fold slices of zeros."""
    dtype = promotion.dtype_of(part)
    if 0 in shapes.sizes(part):
        return constants.full(sizes, 0, dtype, part.device)
    after = shapes.size(sizes[dim] - (first + part.shape[dim]))

    def zeros(length: Size) -> list[MaxTensor]:
        shape = [*sizes[:dim], length, *sizes[dim + 1 :]]
        return [] if length == 0 else [constants.full(shape, 0, dtype, part.device)]

    pieces = [*zeros(first), part, *zeros(after)]
    return ops.concat(pieces, dim) if len(pieces) > 1 else part


# slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor
@map_to(aten.slice_scatter)
def aten_slice_scatter(
    self: MaxTensor,
    src: MaxTensor,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> MaxTensor:
    dim = shapes.dim(dim, self.rank)
    size = shapes.size(self.shape[dim])
    length = shapes.size(src.shape[dim])
    src = promotion.cast(src, promotion.dtype_of(self))
    first = _bound(start, size, 0)
    if length == 0:
        return self
    if step == 1:
        stop = shapes.size(first + length)
        parts = [src]
        if first != 0:
            parts.insert(0, slice_dim(self, dim, 0, first))
        if not shapes.same(stop, size):
            parts.append(slice_dim(self, dim, stop, size))
        return ops.concat(parts, dim) if len(parts) > 1 else src
    why = "slice_scatter with a step"
    size, length, first, step = (shapes.static_size(s, why) for s in (size, length, first, step))
    index = torch.arange(size)
    index[first : first + (length - 1) * step + 1 : step] = torch.arange(length) + size
    places = constants.constant(index, torch.int64, self.device)
    return take_dim(ops.concat([self, src], dim), dim, places)


# split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]
@map_to(aten.split.Tensor, needs_call=True)
def aten_split(
    self: MaxTensor, split_size: Size, dim: int = 0, *, call: CallInfo
) -> list[MaxTensor | None]:
    return _outputs_of_split(self, dim, call)


# split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]
@map_to(aten.split_with_sizes, needs_call=True)
def aten_split_with_sizes(
    self: MaxTensor, split_sizes: list[Size], dim: int = 0, *, call: CallInfo
) -> list[MaxTensor | None]:
    return _outputs_of_split(self, dim, call)


# squeeze(Tensor(a) self) -> Tensor(a)
# squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)
# squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)
@map_to(aten.squeeze, needs_call=True)
def aten_squeeze(
    self: MaxTensor, dim: int | list[int] | None = None, *, call: CallInfo
) -> MaxTensor:
    return reshape(self, call.output.shape)


# stack(Tensor[] tensors, int dim=0) -> Tensor
@map_to(aten.stack, needs_call=True)
def aten_stack(tensors: list[MaxTensor], dim: int = 0, *, call: CallInfo) -> MaxTensor:
    dim = shapes.dim(dim, len(call.output.shape))
    parts = [ops.unsqueeze(promotion.cast(tensor, call.output.dtype), dim) for tensor in tensors]
    return ops.concat(parts, dim) if len(parts) > 1 else parts[0]


# t(Tensor(a) self) -> Tensor(a)
@map_to(aten.t)
def aten_t(self: MaxTensor) -> MaxTensor:
    return ops.permute(self, [1, 0]) if self.rank == 2 else self


# transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
@map_to(aten.transpose.int)
def aten_transpose(self: MaxTensor, dim0: int, dim1: int) -> MaxTensor:
    first, second = shapes.dim(dim0, self.rank), shapes.dim(dim1, self.rank)
    if first == second:
        return self
    order = list(range(self.rank))
    order[first], order[second] = second, first
    return ops.permute(self, order)


# unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]
@map_to(aten.unbind.int, needs_call=True)
def aten_unbind(self: MaxTensor, dim: int = 0, *, call: CallInfo) -> list[MaxTensor | None]:
    return [
        _select(self, dim, index) if index in call.used_outputs else None
        for index in range(len(call.outputs))
    ]


# unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)
@map_to(aten.unfold, needs_call=True)
def aten_unfold(
    self: MaxTensor, dimension: int, size: int, step: int, *, call: CallInfo
) -> MaxTensor:
    if 0 in call.output.shape:
        return constants.full(call.output.shape, 0, call.output.dtype, self.device)
    if not self.rank:
        return ops.reshape(self, [1])
    dimension = shapes.dim(dimension, self.rank)
    windows = call.output.shape[dimension]
    if isinstance(windows, int):
        table = step * torch.arange(windows)[:, None] + torch.arange(size)
        flat = constants.constant(table.flatten(), torch.int64, self.device)
    else:
        starts = ops.reshape(_positions(0, step, windows, self), [windows, 1])
        within = constants.constant(torch.arange(size)[None], torch.int64, self.device)
        flat = ops.reshape(starts + within, [shapes.numel([windows, size])])
    shape = shapes.sizes(self)
    taken = reshape(
        take_dim(self, dimension, flat),
        [*shape[:dimension], windows, size, *shape[dimension + 1 :]],
    )
    return move_dim(taken, dimension + 1, self.rank)


# unsqueeze(Tensor(a) self, int dim) -> Tensor(a)
@map_to(aten.unsqueeze, needs_call=True)
def aten_unsqueeze(self: MaxTensor, dim: int, *, call: CallInfo) -> MaxTensor:
    return reshape(self, call.output.shape)


# _unsafe_view(Tensor self, SymInt[] size) -> Tensor
# view(Tensor(a) self, SymInt[] size) -> Tensor(a)
@map_to(aten._unsafe_view, needs_call=True)
@map_to(aten.view.default, needs_call=True)
def aten_view(self: MaxTensor, size: list[Size], *, call: CallInfo) -> MaxTensor:
    return reshape(self, call.output.shape)
