"""Convolution, forward and backward, in one to three dimensions. Sorted by ATen name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.matmul import product
from torch_max_backend.lowering.aten_functions.shape import (
    aten_constant_pad_nd,
    aten_flip,
    reshape,
    slice_dim,
)
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Size

aten = torch.ops.aten

MANY_TAPS = 64
"""The gradient of filters with more taps is a convolution, not one slice per tap."""


def _ints(values: Sequence[Size], count: int) -> list[int]:
    """A parameter per spatial dim; PyTorch allows one number for all of them."""
    numbers = [shapes.static_size(value, "a convolution's parameter") for value in values]
    return numbers * count if len(numbers) == 1 else numbers


def _pairs(values: Sequence[int]) -> list[tuple[int, int]]:
    return [(value, value) for value in values]


def _convolve(
    x: MaxTensor,
    weight: MaxTensor,
    stride: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    spread: Sequence[int] | None = None,
) -> MaxTensor:
    """A convolution; `padding` is (before, after) per spatial dim, where negative values crop.

    The input is read with `spread - 1` zeros between its elements. The number of groups follows
    from the sizes.
    """
    batch, inputs, *size = shapes.sizes(x)
    outputs, channels, *window = shapes.sizes(weight)
    spread = spread or [1] * len(size)
    places = [
        shapes.size(((n - 1) * gap + before + after - d * (k - 1)) // s + 1)
        for n, k, s, (before, after), d, gap in zip(
            size, window, stride, padding, dilation, spread, strict=True
        )
    ]
    missing = 3 - len(size)
    flat: list[Size] = [1] * missing
    numbers = [
        *([1] * missing + list(stride)),
        *([0] * missing + [before for before, _ in padding]),
        *([1] * missing + list(dilation)),
        *([1] * missing + list(spread)),
    ]
    arguments = [
        reshape(x, [batch, inputs, *flat, *size]),
        reshape(weight, [outputs, channels, *flat, *window]),
        constants.sizes([*flat, *places], x.device),
        constants.constant(numbers, torch.int64, x.device),
    ]
    out = [(promotion.dtype_of(x), [batch, outputs, shapes.numel(places)])]
    result = mojo_kernels.call("tmb_convolution", arguments, out)[0]
    return reshape(result, [batch, outputs, *places])


def _transposed(
    x: MaxTensor,
    weight: MaxTensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
) -> MaxTensor:
    """A transposed convolution: a convolution of the spread input with the mirrored filters."""
    spatial = x.rank - 2
    inputs, outputs, *window = shapes.static_sizes(weight, "the filter of a convolution")
    split = ops.reshape(weight, [groups, inputs // groups, outputs, *window])
    swapped = ops.permute(split, [0, 2, 1, *range(3, 3 + spatial)])
    filters = ops.reshape(swapped, [groups * outputs, inputs // groups, *window])
    filters = aten_flip(filters, list(range(2, 2 + spatial)))
    border = [
        (d * (k - 1) - p, d * (k - 1) - p + o)
        for k, p, d, o in zip(window, padding, dilation, output_padding, strict=True)
    ]
    return _convolve(x, filters, [1] * spatial, border, dilation, stride)


def _weight_gradient(
    x: MaxTensor,
    grad: MaxTensor,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> MaxTensor:
    """d loss / d filter [out, in / groups, *window] of a convolution of `x`.

    One slice of the input per tap of the filter, then one product of [taps * in, places] with
    [places, out] for each group.
    """
    spatial = len(window)
    batch, inputs = shapes.sizes(x)[:2]
    outputs = shapes.static_size(grad.shape[1], "the filter of a convolution")
    inputs = shapes.static_size(inputs, "the filter of a convolution")
    places = shapes.sizes(grad)[2:]
    pads: list[Size] = [amount for p in reversed(padding) for amount in (p, p)]
    padded = aten_constant_pad_nd(x, pads)
    # [groups, in / groups, batch, *spatial]
    channels = ops.permute(padded, [1, 0, *range(2, x.rank)])
    columns = []
    for tap in itertools.product(*map(range, window)):
        part = channels
        for dim, (offset, step, gap, size) in enumerate(
            zip(tap, stride, dilation, places, strict=True), start=2
        ):
            first = offset * gap
            part = slice_dim(part, dim, first, shapes.size(first + (size - 1) * step + 1), step)
        flat = shapes.numel([batch, *places])
        columns.append(reshape(part, [groups, 1, inputs // groups, flat]))
    taps = len(columns)
    left = ops.concat(columns, 1) if taps > 1 else columns[0]
    left = ops.reshape(left, [groups, taps * (inputs // groups), shapes.size(left.shape[3])])
    right = ops.permute(grad, [1, 0, *range(2, grad.rank)])
    right = reshape(right, [groups, outputs // groups, shapes.size(left.shape[2])])
    summed = product(left, right, transposed=True)
    shaped = ops.reshape(summed, [groups, *window, inputs // groups, outputs // groups])
    ordered = ops.permute(shaped, [0, spatial + 2, spatial + 1, *range(1, spatial + 1)])
    return ops.reshape(ordered, [outputs, inputs // groups, *window])


def _weight_gradient_by_convolution(
    x: MaxTensor,
    grad: MaxTensor,
    window: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> MaxTensor:
    """The same for large filters: swaps batch and channels, and stride and dilation."""
    spatial = len(window)
    batch, inputs, *size = shapes.sizes(x)
    inputs = shapes.static_size(inputs, "the filter of a convolution")
    grouped = ops.reshape(x, [batch, groups, inputs // groups, *size])
    swapped = ops.permute(grouped, [2, 1, 0, *range(3, 3 + spatial)])
    swapped = ops.reshape(swapped, [inputs // groups, shapes.numel([groups, batch]), *size])
    filters = ops.permute(grad, [1, 0, *range(2, grad.rank)])
    result = _convolve(swapped, filters, dilation, _pairs(padding), stride)
    for dim, taps in enumerate(window, start=2):
        result = slice_dim(result, dim, 0, taps)
    return ops.permute(result, [1, 0, *range(2, result.rank)])


# convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor
@map_to(aten.convolution, needs_call=True)
def aten_convolution(
    input: MaxTensor,
    weight: MaxTensor,
    bias: MaxTensor | None,
    stride: list[Size],
    padding: list[Size],
    dilation: list[Size],
    transposed: bool,
    output_padding: list[Size],
    groups: Size,
    *,
    call: CallInfo,
) -> MaxTensor:
    shape, dtype = list(call.output.shape), call.output.dtype
    if 0 in shape:
        return constants.full(shape, 0, dtype, call.device)
    if 0 in shapes.sizes(input):  # without channels only the bias is left
        result = constants.full(shape, 0, dtype, call.device)
    else:
        spatial = input.rank - 2
        steps, pads, gaps, extra = (
            _ints(values, spatial) for values in (stride, padding, dilation, output_padding)
        )
        count = shapes.static_size(groups, "the groups of a convolution")
        x, filters = promotion.opmath(input), promotion.opmath(weight)
        if transposed:
            result = _transposed(x, filters, steps, pads, gaps, extra, count)
        else:
            result = _convolve(x, filters, steps, _pairs(pads), gaps)
    if bias is not None:
        along = [1, shapes.size(bias.shape[0]), *([1] * (input.rank - 2))]
        result = result + ops.reshape(promotion.cast(bias, promotion.dtype_of(result)), along)
    return promotion.cast(result, dtype)


# convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
@map_to(aten.convolution_backward, needs_call=True)
def aten_convolution_backward(
    grad_output: MaxTensor,
    input: MaxTensor,
    weight: MaxTensor,
    bias_sizes: list[Size] | None,
    stride: list[Size],
    padding: list[Size],
    dilation: list[Size],
    transposed: bool,
    output_padding: list[Size],
    groups: Size,
    output_mask: list[bool],
    *,
    call: CallInfo,
) -> list[MaxTensor | None]:
    spatial = input.rank - 2
    steps, pads, gaps = (_ints(values, spatial) for values in (stride, padding, dilation))
    count = shapes.static_size(groups, "the groups of a convolution")
    grad, x, filters = map(promotion.opmath, (grad_output, input, weight))
    window = shapes.static_sizes(weight, "the filter of a convolution")[2:]
    wanted = [masked and index in call.used_outputs for index, masked in enumerate(output_mask)]
    results: list[MaxTensor | None] = [None, None, None]
    empty = 0 in shapes.sizes(input) or 0 in shapes.sizes(grad_output)
    for index, meta in enumerate(call.outputs):
        if empty and wanted[index] and meta is not None:
            results[index] = constants.full(meta.shape, 0, meta.dtype, call.device)
    if empty:
        return results
    if wanted[0]:
        if transposed:
            results[0] = _convolve(grad, filters, steps, _pairs(pads), gaps)
        else:
            # What the forward pass did not read at the end of each dim.
            rest = [
                shapes.static_size(size + 2 * p - d * (k - 1) - 1 - (out - 1) * s, "the gradient")
                for size, out, k, s, p, d in zip(
                    shapes.sizes(input)[2:],
                    shapes.sizes(grad_output)[2:],
                    window,
                    steps,
                    pads,
                    gaps,
                    strict=True,
                )
            ]
            results[0] = _transposed(grad, filters, steps, pads, gaps, rest, count)
    if wanted[1]:
        few = len(list(itertools.product(*map(range, window)))) <= MANY_TAPS
        gradient = _weight_gradient if few else _weight_gradient_by_convolution
        source, target = (grad, x) if transposed else (x, grad)
        results[1] = gradient(source, target, window, steps, pads, gaps, count)
    if wanted[2]:
        channels = shapes.size(grad.shape[1])
        rows = ops.permute(grad, [1, 0, *range(2, grad.rank)])
        results[2] = ops.reshape(ops.sum(_rows(rows), 1), [channels])
    return [
        None if result is None else promotion.cast(result, promotion.dtype_of(grad_output))
        for result in results
    ]


def _rows(tensor: MaxTensor) -> MaxTensor:
    """All dims but the first merged into one."""
    first, *others = shapes.sizes(tensor)
    return ops.reshape(tensor, [first, shapes.numel(others)])
