"""The instructions of `torch_max_backend::image_program`, and PyTorch's way to run them.

The kernel that runs them (`mojo_kernels/image_program.mojo`) describes what they mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import torch
from torch.nn import functional as F

from torch_max_backend.program import winograd

LENGTH = 120
_STEPS = 36
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
    TIMES = 10
    WINOGRAD = 11


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
    root: int = 0
    """What is added to the offset for each image that a program of any batch is called with."""

    def numbers(self) -> list[int]:
        return [self.offset, self.image, self.row, self.pixel]

    def is_line(self, one: bool, height: int, width: int) -> bool:
        """Whether all pixels, and those of all images unless there is `one`, have one distance."""
        rows = height == 1 or self.row == width * self.pixel
        return rows and (one or self.image == height * width * self.pixel)


def is_plain(window: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> bool:
    """Whether a pixel of the result depends on the same pixel of the source alone."""
    return window == (1, 1) and stride == (1, 1) and padding == (0, 0)


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
    together: bool = False
    """Whether the next instruction need not wait for this one."""
    line: bool = False
    """Whether all pixels of all images are one row."""
    scale: View | None = None
    """Of a convolution of single pixels: an image of one pixel that its source is multiplied by."""

    def in_one_line(self, any_batch: bool = False) -> Instruction:
        """The same with all pixels in one row, so that tiles do not end where rows end."""
        n, h, w, c = self.size
        views = [self.result, self.source, *(step.view for step in self.steps if step.view)]
        if self.what not in (What.CONVOLUTION, What.POINTWISE) or not is_plain(
            self.window, self.stride, self.padding
        ):
            return self
        if self.scale is not None and (n > 1 or any_batch):
            # Each image has a scale of its own, so a tile ends where an image ends.
            if not all(view.is_line(True, h, w) for view in views):
                return self
            return replace(self, size=(n, 1, h * w, c), input=(1, h * w, self.input[2]))
        if not all(view.is_line(n == 1 and not any_batch, h, w) for view in views):
            return self
        pixels = n * h * w
        return replace(self, size=(1, 1, pixels, c), input=(1, pixels, self.input[2]), line=True)

    def encode(self) -> list[int]:
        """The numbers that the kernel reads."""
        scale = self.scale or View()
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
            int(self.together),
            self.result.root,
            self.source.root,
            int(self.line),
            int(self.scale is not None),
            scale.offset,
            scale.image,
            scale.root,
        ]
        numbers += [0] * (_STEPS - len(numbers))
        assert len(numbers) == _STEPS and len(self.steps) <= MOST_STEPS
        for step in self.steps:
            offset = step.at if step.view is None else step.view.offset
            view = step.view or View()
            numbers += [int(step.then), offset, *view.numbers()[1:], view.root, 0, 0]
        return numbers + [0] * (LENGTH - len(numbers))


def decode(numbers: Sequence[int]) -> Instruction:
    """What `encode` wrote."""
    steps = []
    for index in range(numbers[26]):
        first = _STEPS + 8 * index
        then, offset, *rest = numbers[first : first + 6]
        of_image = then in (Then.ADD_IMAGE, Then.MULTIPLY_IMAGE)
        view = View(offset, *rest) if of_image else None
        steps.append(Step(Then(then), 0 if of_image else offset, view))
    n = list(numbers)
    return Instruction(
        What(n[0]),
        (n[1], n[2], n[3], n[4]),
        View(n[5], n[6], n[7], n[8], n[28]),
        View(n[9], n[10], n[11], n[12], n[29]),
        (n[13], n[14], n[15]),
        (n[16], n[17]),
        (n[18], n[19]),
        (n[20], n[21]),
        (n[22], n[23]),
        n[24],
        n[25],
        tuple(steps),
        bool(n[27]),
        bool(n[30]),
        View(n[32], n[33], root=n[34]) if n[31] else None,
    )


def timed(program: Sequence[int], outputs: int) -> tuple[list[int], int]:
    """A program whose result has more numbers: the nanoseconds that each instruction took.

    An instruction that the next one need not wait for counts as part of that. Returns the program,
    and how many numbers its result has.
    """
    count = len(program) // LENGTH
    return [*program, *Instruction(What.TIMES, (0, 0, 0, 0), at=outputs).encode()], outputs + count


def run(
    x: torch.Tensor,
    weights: torch.Tensor,
    program: Sequence[int],
    numbers: Sequence[float],
    workspace: int,
    past: int,
    outputs: int,
    columns: int,
) -> torch.Tensor:
    """Run a program on PyTorch, one instruction after the other."""
    times = x.shape[0]
    memory = x.new_zeros(workspace * times + past)
    result = x.new_zeros(times, outputs)
    for start in range(0, len(program), LENGTH):
        line = decode(program[start : start + LENGTH])
        _Run(times, x.reshape(-1), weights, numbers, columns, memory, result.view(-1)).do(line)
    return result


class _Run:
    def __init__(
        self,
        times: int,
        x: torch.Tensor,
        weights: torch.Tensor,
        numbers: Sequence[float],
        columns: int,
        memory: torch.Tensor,
        result: torch.Tensor,
    ) -> None:
        self.times = times
        self.x, self.weights, self.numbers, self.columns = x, weights, numbers, columns
        self.memory, self.result = memory, result

    def _image(self, view: View, size: tuple[int, int, int, int]) -> torch.Tensor:
        """[images, channels, height, width] of the workspace."""
        n, h, w, c = size
        strides = (view.image, view.row, view.pixel, 1)
        offset = view.offset + view.root * self.times
        return self.memory.as_strided((n, h, w, c), strides, offset).permute(0, 3, 1, 2)

    def do(self, line: Instruction) -> None:
        if line.what is What.TIMES:
            return  # they are zero
        n, h, w, c = line.size
        if line.line:
            line = replace(line, size=(n, h, w * self.times, c))
        else:
            line = replace(line, size=(n * self.times, h, w, c))
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
            size = (n, c * h * w)
            self.result.as_strided(size, (line.result.image, 1), line.at).copy_(
                ordered.reshape(size)
            )
        else:
            to.copy_(self._then(self._value(line), line))

    def _value(self, line: Instruction) -> torch.Tensor:
        n, h, w, c = line.size
        if line.what is What.LOAD:
            strides = (line.source.image, h * w, w, 1)
            return self.x.as_strided((n, c, h, w), strides, line.at)
        ih, iw, ic = line.input
        iw = w if line.line else iw
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
        if line.what is What.WINOGRAD:
            return self._winograd(line)
        kh, kw = line.window
        # Padding is read from the workspace, where it has to be zero.
        (ph, pw), (sh, sw), (dh, dw) = line.padding, line.stride, line.dilation
        view = line.source
        first = replace(view, offset=view.offset - ph * view.row - pw * view.pixel)
        seen = ((h - 1) * sh + (kh - 1) * dh + 1, (w - 1) * sw + (kw - 1) * dw + 1)
        padded = self._image(first, (n, *seen, ic))
        if line.scale is not None:
            # In one line there is one image, and one scale.
            padded = padded * self._image(line.scale, (1 if line.line else n, 1, 1, ic))
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

    def _winograd(self, line: Instruction) -> torch.Tensor:
        n, h, w, c = line.size
        (top, left), view, inputs = line.padding, line.source, line.input[2]
        first = replace(view, offset=view.offset - top * view.row - left * view.pixel)
        sides = [winograd.tiles(size) * winograd.SIDE + 2 for size in (h, w)]
        image = self._image(first, (n, sides[0], sides[1], inputs))
        shape = (-(-c // self.columns), winograd.SPOTS, inputs, self.columns)
        flat = self.weights[line.at : line.at + math.prod(shape)].reshape(shape)
        filters = flat.permute(1, 2, 0, 3).reshape(winograd.SPOTS, inputs, -1)[..., :c]
        return _cropped(winograd.convolve(image, filters), h, w)

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
