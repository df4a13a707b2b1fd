"""Convolution, forward and backward, in one to three dimensions. Sorted by ATen name."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.shape import (
    reshape,
)
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Size

aten = torch.ops.aten


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
    lines = reshape(weight, [inputs, outputs, math.prod(window)])
    shape = [groups * outputs, inputs // groups, math.prod(window)]
    turned = [(promotion.dtype_of(weight), shape)]
    filters = mojo_kernels.call("tmb_turned_filters", [lines], turned)[0]
    filters = reshape(filters, [groups * outputs, inputs // groups, *window])
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
    """d loss / d filter [out, in / groups, *window] of a convolution of `x`."""
    batch, inputs, *size = shapes.sizes(x)
    outputs = shapes.size(grad.shape[1])
    channels = shapes.static_size(inputs, "the filter of a convolution") // groups
    places = shapes.sizes(grad)[2:]
    missing = 3 - len(window)
    flat: list[Size] = [1] * missing
    numbers = [
        *([1] * missing + list(stride)),
        *([0] * missing + list(padding)),
        *([1] * missing + list(dilation)),
        *[1] * 3,
    ]
    arguments = [
        reshape(x, [batch, inputs, *flat, *size]),
        reshape(grad, [batch, outputs, shapes.numel(places)]),
        constants.sizes([*flat, *places], x.device),
        constants.constant(numbers, torch.int64, x.device),
        constants.constant([*[1] * missing, *window], torch.int64, x.device),
    ]
    out = [(promotion.dtype_of(x), [outputs, channels, math.prod(window)])]
    result = mojo_kernels.call("tmb_filter_gradient", arguments, out)[0]
    return reshape(result, [outputs, channels, *window])


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
        source, target = (grad, x) if transposed else (x, grad)
        results[1] = _weight_gradient(source, target, window, steps, pads, gaps, count)
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
