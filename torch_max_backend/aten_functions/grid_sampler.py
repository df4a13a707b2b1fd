"""Sampling of images at given places: grid_sampler_2d."""

from __future__ import annotations

import torch
from max.dtype import DType
from max.graph import ops

from torch_max_backend import constants, promotion, shapes
from torch_max_backend.registry import map_to
from torch_max_backend.types import CallInfo, MaxTensor, Size

aten = torch.ops.aten

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


class _Axis:
    """One axis of the image: from [-1, 1] to its pixels."""

    def __init__(self, size: Size, like: MaxTensor, padding_mode: int, align_corners: bool) -> None:
        self.like = like
        self.size = self._number(size)
        self.last = self._number(shapes.size(size - 1))
        self.steps = constants.scalar(size, torch.int64, like.device)
        self.last_step = constants.scalar(shapes.size(size - 1), torch.int64, like.device)
        # A span of 0 has a single place; dividing by it must not make NaN.
        self.span = shapes.size(size - 1) if align_corners else size
        self.divisor = self._number(1 if self.span == 0 else self.span)
        self.padding_mode = padding_mode
        self.align_corners = align_corners

    def _number(self, value: Size | float) -> MaxTensor:
        return constants.scalar(value, promotion.dtype_of(self.like), self.like.device)

    def pixel(self, place: MaxTensor) -> MaxTensor:
        """Where a place of the grid lies among the pixels."""
        if self.align_corners:
            return (place + 1) * self._number(0.5) * self.last
        return ((place + 1) * self.size - 1) * self._number(0.5)

    def padded(self, pixel: MaxTensor) -> MaxTensor:
        """Places outside the image, as the padding mode sees them."""
        if self.padding_mode == ZEROS:
            return pixel
        if self.padding_mode == REFLECTION:
            low, span = self._number(0 if self.align_corners else -0.5), self._number(self.span)
            distance = ops.abs(pixel - low)
            flips = ops.floor(distance / self.divisor)
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
        """(pixel, weight) of everything that is read at `place`; None is a weight of 1."""
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
@map_to(aten.grid_sampler_2d, needs_call=True)
def aten_grid_sampler_2d(
    input: MaxTensor,
    grid: MaxTensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    *,
    call: CallInfo,
) -> MaxTensor:
    if 0 in call.output.shape:
        return constants.full(call.output.shape, 0, call.output.dtype, call.device)
    batch, channels, height, width = shapes.sizes(input)
    _, rows, columns, _ = shapes.sizes(grid)
    image, places = promotion.opmath(input), promotion.opmath(grid)
    pixels = ops.reshape(
        ops.permute(image, [0, 2, 3, 1]), [shapes.numel([batch, height, width]), channels]
    )
    x_axis = _Axis(width, places, padding_mode, align_corners)
    y_axis = _Axis(height, places, padding_mode, align_corners)
    index = constants.iota(batch, call.device)
    index = index * constants.scalar(shapes.numel([height, width]), torch.int64, call.device)
    base = ops.reshape(index, [batch, 1, 1])
    stride = constants.scalar(width, torch.int64, call.device)
    total: MaxTensor | None = None
    for y, y_weight in y_axis.taps(places[..., 1], interpolation_mode):
        for x, x_weight in x_axis.taps(places[..., 0], interpolation_mode):
            position = base + y_axis.clamped(y) * stride + x_axis.clamped(x)
            flat = ops.reshape(position, [shapes.numel([batch, rows, columns])])
            read = ops.reshape(ops.gather(pixels, flat, 0), [batch, rows, columns, channels])
            inside = ops.logical_and(y_axis.inside(y), x_axis.inside(x))
            if y_weight is not None and x_weight is not None:
                read = read * ops.unsqueeze(y_weight * x_weight, -1)
            seen = ops.broadcast_to(ops.unsqueeze(inside, -1), read.shape)
            zero = constants.full(read.shape, 0, promotion.dtype_of(image), call.device)
            part = ops.where(seen, read, zero)
            total = part if total is None else total + part
    assert total is not None
    return promotion.cast(ops.permute(total, [0, 3, 1, 2]), call.output.dtype)
