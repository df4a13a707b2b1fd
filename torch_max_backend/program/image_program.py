"""The instructions of `torch_max_backend::image_program`, and PyTorch's way to run them.

The kernel that runs them (`mojo_kernels/image_program.mojo`) describes what they mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import torch
from torch.nn import functional as F

LENGTH = 112
_STEPS = 28
MOST_STEPS = (LENGTH - _STEPS) // 8


class What(IntEnum):
    """What an instruction computes."""

    LOAD = 0
    CONVOLUTION = 1
    DEPTHWISE = 2
    MAX_POOL = 3
    AVERAGE_POOL = 4
    MEAN = 5
    POINTWISE = 6
    STORE = 7
    BORDER = 8
    LAYER_NORM = 9


class Then(IntEnum):
    """What is done to each value before it is stored."""

    ADD_CHANNELS = 1
    MULTIPLY_CHANNELS = 2
    ADD_IMAGE = 3
    MULTIPLY_IMAGE = 4
    RELU = 5
    CLAMP = 6
    SIGMOID = 7
    SILU = 8
    ADD_NUMBER = 9
    MULTIPLY_NUMBER = 10
    DIVIDE_BY_NUMBER = 11
    HARDSWISH = 12
    GELU = 13


@dataclass(frozen=True)
class View:
    """An image in the workspace: its first value, and the distances of images, rows and pixels."""

    offset: int = 0
    image: int = 0
    row: int = 0
    pixel: int = 0

    def numbers(self) -> list[int]:
        return [self.offset, self.image, self.row, self.pixel]

    def is_line(self, images: int, height: int, width: int) -> bool:
        """Whether all pixels of all images have one distance."""
        rows = height == 1 or self.row == width * self.pixel
        return rows and (images == 1 or self.image == height * width * self.pixel)


@dataclass(frozen=True)
class Step:
    """One thing that is done to each value."""

    then: Then
    at: int = 0
    """In the weights, or in the numbers."""
    view: View | None = None


@dataclass(frozen=True)
class Instruction:
    """One line of a program."""

    what: What
    size: tuple[int, int, int, int]
    """Images, height, width and channels of the result."""
    result: View = View()
    source: View = View()
    input: tuple[int, int, int] = (0, 0, 0)
    """Height, width and channels of the source."""
    window: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    at: int = 0
    """Of the filters in the weights; of the tensor, for LOAD and STORE."""
    flag: int = 0
    steps: tuple[Step, ...] = field(default=())

    def in_one_line(self) -> Instruction:
        """The same with all pixels in one row, so that tiles do not end where rows end."""
        n, h, w, c = self.size
        views = [self.result, self.source, *(step.view for step in self.steps if step.view)]
        plain = self.window == (1, 1) and self.stride == (1, 1) and self.padding == (0, 0)
        if self.what not in (What.CONVOLUTION, What.POINTWISE) or not plain:
            return self
        if not all(view.is_line(n, h, w) for view in views):
            return self
        return replace(self, size=(1, 1, n * h * w, c), input=(1, n * h * w, self.input[2]))

    def encode(self) -> list[int]:
        """The numbers that the kernel reads."""
        numbers = [
            int(self.what),
            *self.size,
            *self.result.numbers(),
            *self.source.numbers(),
            *self.input,
            *self.window,
            *self.stride,
            *self.padding,
            *self.dilation,
            self.at,
            self.flag,
            len(self.steps),
            0,
        ]
        assert len(numbers) == _STEPS and len(self.steps) <= MOST_STEPS
        for step in self.steps:
            offset = step.at if step.view is None else step.view.offset
            rest = [0, 0, 0] if step.view is None else step.view.numbers()[1:]
            numbers += [int(step.then), offset, *rest, 0, 0, 0]
        return numbers + [0] * (LENGTH - len(numbers))


def decode(numbers: Sequence[int]) -> Instruction:
    """What `encode` wrote."""
    steps = []
    for index in range(numbers[26]):
        then, offset, image, row, pixel = numbers[_STEPS + 8 * index : _STEPS + 8 * index + 5]
        of_image = then in (Then.ADD_IMAGE, Then.MULTIPLY_IMAGE)
        view = View(offset, image, row, pixel) if of_image else None
        steps.append(Step(Then(then), 0 if of_image else offset, view))
    n = list(numbers)
    return Instruction(
        What(n[0]),
        (n[1], n[2], n[3], n[4]),
        View(*n[5:9]),
        View(*n[9:13]),
        (n[13], n[14], n[15]),
        (n[16], n[17]),
        (n[18], n[19]),
        (n[20], n[21]),
        (n[22], n[23]),
        n[24],
        n[25],
        tuple(steps),
    )


def run(
    x: torch.Tensor,
    weights: torch.Tensor,
    program: Sequence[int],
    numbers: Sequence[float],
    workspace: int,
    outputs: int,
    columns: int,
) -> torch.Tensor:
    """Run a program on PyTorch, one instruction after the other."""
    memory = x.new_zeros(workspace)
    result = x.new_zeros(outputs)
    for start in range(0, len(program), LENGTH):
        line = decode(program[start : start + LENGTH])
        _Run(x, weights, numbers, columns, memory, result).do(line)
    return result


class _Run:
    def __init__(
        self,
        x: torch.Tensor,
        weights: torch.Tensor,
        numbers: Sequence[float],
        columns: int,
        memory: torch.Tensor,
        result: torch.Tensor,
    ) -> None:
        self.x, self.weights, self.numbers, self.columns = x, weights, numbers, columns
        self.memory, self.result = memory, result

    def _image(self, view: View, size: tuple[int, int, int, int]) -> torch.Tensor:
        """[images, channels, height, width] of the workspace."""
        n, h, w, c = size
        strides = (view.image, view.row, view.pixel, 1)
        return self.memory.as_strided((n, h, w, c), strides, view.offset).permute(0, 3, 1, 2)

    def do(self, line: Instruction) -> None:
        n, h, w, c = line.size
        to = self._image(line.result, line.size)
        if line.what is What.BORDER:
            (top, left), (below, right) = line.padding, line.dilation
            view = line.result
            offset = view.offset - top * view.row - left * view.pixel
            whole = replace(view, offset=offset)
            around = self._image(whole, (n, top + h + below, left + w + right, c))
            inside = to.clone()
            around.zero_()
            to.copy_(inside)
        elif line.what is What.STORE:
            source = self._image(line.source, line.size)
            ordered = source.permute(0, 2, 3, 1) if line.flag else source
            self.result[line.at : line.at + n * c * h * w] = ordered.reshape(-1)
        else:
            to.copy_(self._then(self._value(line), line))

    def _value(self, line: Instruction) -> torch.Tensor:
        n, h, w, c = line.size
        if line.what is What.LOAD:
            return self.x[line.at : line.at + n * c * h * w].reshape(n, c, h, w)
        ih, iw, ic = line.input
        image = self._image(line.source, (n, ih, iw, ic))
        if line.what is What.POINTWISE:
            return image
        if line.what is What.LAYER_NORM:
            last = image.permute(0, 2, 3, 1)
            normal = F.layer_norm(last, [ic], eps=self.numbers[line.flag])
            return normal.permute(0, 3, 1, 2)
        if line.what is What.MEAN:
            return image.mean((2, 3), keepdim=True)
        if line.what is What.MAX_POOL:
            args = (line.window, line.stride, line.padding, line.dilation)
            return _cropped(F.max_pool2d(image, *args, ceil_mode=True), h, w)
        if line.what is What.AVERAGE_POOL:
            pooled = F.avg_pool2d(
                image, line.window, line.stride, line.padding, True, bool(line.flag)
            )
            return _cropped(pooled, h, w)
        kh, kw = line.window
        # Padding is read from the workspace, where it has to be zero.
        (ph, pw), (sh, sw), (dh, dw) = line.padding, line.stride, line.dilation
        view = line.source
        first = replace(view, offset=view.offset - ph * view.row - pw * view.pixel)
        seen = ((h - 1) * sh + (kh - 1) * dh + 1, (w - 1) * sw + (kw - 1) * dw + 1)
        padded = self._image(first, (n, *seen, ic))
        panels = -(-c // self.columns)
        if line.what is What.DEPTHWISE:
            size = kh * kw * panels * self.columns
            flat = self.weights[line.at : line.at + size].reshape(kh, kw, -1)[:, :, :c]
            filters = flat.permute(2, 0, 1)[:, None]
            return F.conv2d(padded, filters, None, (sh, sw), 0, (dh, dw), c)
        depth = kh * kw * ic
        size = panels * depth * self.columns
        flat = self.weights[line.at : line.at + size].reshape(panels, depth, self.columns)
        matrix = flat.transpose(0, 1).reshape(kh, kw, ic, -1)[..., :c]
        return F.conv2d(padded, matrix.permute(3, 2, 0, 1), None, (sh, sw), 0, (dh, dw))

    def _then(self, value: torch.Tensor, line: Instruction) -> torch.Tensor:
        channels = line.size[3]
        for step in line.steps:
            numbers = [*self.numbers[step.at : step.at + 2], 0.0, 0.0]
            per_channel = self.weights[step.at : step.at + channels][:, None, None]
            if step.then is Then.ADD_CHANNELS:
                value = value + per_channel
            elif step.then is Then.MULTIPLY_CHANNELS:
                value = value * per_channel
            elif step.view is not None:
                other = self._image(step.view, line.size)
                value = value + other if step.then is Then.ADD_IMAGE else value * other
            else:
                value = {
                    Then.RELU: lambda v: v.relu(),
                    Then.CLAMP: lambda v: v.clamp(numbers[0], numbers[1]),  # noqa: B023
                    Then.SIGMOID: torch.sigmoid,
                    Then.SILU: F.silu,
                    Then.ADD_NUMBER: lambda v: v + numbers[0],  # noqa: B023
                    Then.MULTIPLY_NUMBER: lambda v: v * numbers[0],  # noqa: B023
                    Then.DIVIDE_BY_NUMBER: lambda v: v / numbers[0],  # noqa: B023
                    Then.HARDSWISH: F.hardswish,
                    Then.GELU: F.gelu,
                }[step.then](value)
        return value


def _cropped(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    return image[:, :, :height, :width]
