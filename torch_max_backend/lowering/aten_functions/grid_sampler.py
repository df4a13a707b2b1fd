"""Sampling of images and volumes at the positions of a grid, and its gradient."""

from __future__ import annotations

import itertools

import torch
from max.dtype import DType
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.shape import reshape
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Size

aten = torch.ops.aten

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


class _Axis:
    """One axis of the image: maps grid coordinates in [-1, 1] to pixels."""

    def __init__(self, size: Size, like: MaxTensor, padding_mode: int, align_corners: bool) -> None:
        self.like = like
        self.size = self._number(size)
        self.last = self._number(shapes.size(size - 1))
        self.steps = constants.scalar(size, torch.int64, like.device)
        self.last_step = constants.scalar(shapes.size(size - 1), torch.int64, like.device)
        # A span of 0 has a single position; dividing by it would give NaN.
        self.span = shapes.size(size - 1) if align_corners else size
        self.divisor = self._number(1 if self.span == 0 else self.span)
        self.padding_mode = padding_mode
        self.align_corners = align_corners

    def _number(self, value: Size | float) -> MaxTensor:
        return constants.scalar(value, promotion.dtype_of(self.like), self.like.device)

    def pixel(self, place: MaxTensor) -> MaxTensor:
        """The pixel position of a grid coordinate."""
        if self.align_corners:
            return (place + 1) * self._number(0.5) * self.last
        return ((place + 1) * self.size - 1) * self._number(0.5)

    def padded(self, pixel: MaxTensor) -> MaxTensor:
        """Positions, with those outside the image moved as the padding mode says."""
        if self.padding_mode == ZEROS:
            return pixel
        if self.padding_mode == REFLECTION:
            low, span = self._number(0 if self.align_corners else -0.5), self._number(self.span)
            distance = ops.abs(pixel - low)
            flips = ops.floor(mojo_kernels.divide(distance, self.divisor))
            extra = distance - flips * span
            odd = ops.not_equal(flips - ops.floor(flips * self._number(0.5)) * 2, self._number(0))
            pixel = ops.where(odd, span - extra + low, extra + low)
        return ops.min(ops.max(pixel, self._number(0)), self.last)

    def inside(self, step: MaxTensor) -> MaxTensor:
        zero = constants.scalar(0, torch.int64, self.like.device)
        return ops.logical_and(
            ops.greater_equal(step, zero), ops.logical_not(ops.greater_equal(step, self.steps))
        )

    def clamped(self, step: MaxTensor) -> MaxTensor:
        zero = constants.scalar(0, torch.int64, self.like.device)
        return ops.max(ops.min(step, self.last_step), zero)

    def taps(self, place: MaxTensor, mode: int) -> list[tuple[MaxTensor, MaxTensor | None]]:
        """The (pixel, weight) pairs that are read at `place`; None is a weight of 1."""
        pixel = self.pixel(place)
        if mode == NEAREST:
            return [(ops.cast(ops.round(self.padded(pixel)), DType.int64), None)]
        if mode == BILINEAR:
            pixel = self.padded(pixel)
            low = ops.floor(pixel)
            part = pixel - low
            step = ops.cast(low, DType.int64)
            return [(step, 1 - part), (step + 1, part)]
        low = ops.floor(pixel)
        part = pixel - low
        return [
            (ops.cast(self.padded(low + (k - 1)), DType.int64), weight)
            for k, weight in enumerate(_cubic_weights(part))
        ]


def _cubic_weights(part: MaxTensor) -> list[MaxTensor]:
    a = -0.75

    def near(x: MaxTensor) -> MaxTensor:
        return (x * (a + 2) - (a + 3)) * x * x + 1

    def far(x: MaxTensor) -> MaxTensor:
        return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(part + 1), near(part), near(1 - part), far(2 - part)]


# grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor
# grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor
@map_to(aten.grid_sampler_2d, needs_call=True)
@map_to(aten.grid_sampler_3d, needs_call=True)
def aten_grid_sampler(
    input: MaxTensor,
    grid: MaxTensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    *,
    call: CallInfo,
) -> MaxTensor:
    # The grid's coordinates begin with the last dim.
    if 0 in call.output.shape:
        return constants.full(call.output.shape, 0, call.output.dtype, call.device)
    batch, channels, *spatial = shapes.sizes(input)
    _, *outer, _ = shapes.sizes(grid)
    count = len(spatial)
    image, places = promotion.opmath(input), promotion.opmath(grid)
    order = [0, *range(2, 2 + count), 1]
    pixels = ops.reshape(ops.permute(image, order), [shapes.numel([batch, *spatial]), channels])
    axes = [_Axis(size, places, padding_mode, align_corners) for size in spatial]
    taps = [
        axis.taps(places[..., count - 1 - i], interpolation_mode) for i, axis in enumerate(axes)
    ]
    index = constants.iota(batch, call.device)
    index = index * constants.scalar(shapes.numel(spatial), torch.int64, call.device)
    base = ops.reshape(index, [batch] + [1] * count)
    strides = [
        constants.scalar(shapes.numel(spatial[i + 1 :]), torch.int64, call.device)
        for i in range(count)
    ]
    total: MaxTensor | None = None
    for corner in itertools.product(*taps):
        position, weight, inside = base, None, None
        for axis, stride, (step, part) in zip(axes, strides, corner, strict=True):
            position = position + axis.clamped(step) * stride
            here = axis.inside(step)
            inside = here if inside is None else ops.logical_and(inside, here)
            if part is not None:
                weight = part if weight is None else weight * part
        assert inside is not None
        flat = ops.reshape(position, [shapes.numel([batch, *outer])])
        read = ops.reshape(ops.gather(pixels, flat, 0), [batch, *outer, channels])
        if weight is not None:
            read = read * ops.unsqueeze(weight, -1)
        seen = ops.broadcast_to(ops.unsqueeze(inside, -1), read.shape)
        zero = constants.full(read.shape, 0, promotion.dtype_of(image), call.device)
        term = ops.where(seen, read, zero)
        total = term if total is None else total + term
    assert total is not None
    back = [0, count + 1, *range(1, count + 1)]
    return promotion.cast(ops.permute(total, back), call.output.dtype)


# grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)
# grid_sampler_3d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)
@map_to(aten.grid_sampler_2d_backward, needs_call=True)
@map_to(aten.grid_sampler_3d_backward, needs_call=True)
def aten_grid_sampler_backward(
    grad_output: MaxTensor,
    input: MaxTensor,
    grid: MaxTensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: list[bool],
    *,
    call: CallInfo,
) -> list[MaxTensor | None]:
    batch, channels, *spatial = shapes.sizes(input)
    _, *outer, dims = shapes.sizes(grid)
    pixels, points = shapes.numel(spatial), shapes.numel(outer)
    image = promotion.opmath(input)
    dtype, device = promotion.dtype_of(image), call.device
    if 0 in (batch, channels, pixels, points):
        return [
            None if meta is None else constants.full(meta.shape, 0, meta.dtype, device)
            for meta in call.outputs
        ]
    depth = [1] * (3 - len(spatial))
    settings = [interpolation_mode, padding_mode, int(align_corners)]
    numbers = [constants.scalar(n, torch.int64, device) for n in [*depth, *spatial, *settings]]
    inputs = [
        reshape(promotion.opmath(grad_output), [batch, channels, points]),
        reshape(image, [batch, channels, pixels]),
        reshape(promotion.opmath(grid), [batch, points, dims]),
        ops.stack(numbers),
    ]
    wanted = [(dtype, [batch, channels, pixels]), (dtype, [batch, points, dims])]
    found = mojo_kernels.call("tmb_grid_gradient", inputs, wanted)
    return [
        None if meta is None else promotion.cast(reshape(result, meta.shape), meta.dtype)
        for result, meta in zip(found, call.outputs, strict=True)
    ]
