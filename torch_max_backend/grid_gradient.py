"""The gradients of `grid_sample`, composed: PyTorch has kernels for them and no decomposition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

aten = torch.ops.aten

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
_A = -0.75
"""Of PyTorch's cubic convolution."""


@dataclass(frozen=True)
class _Tap:
    """A place along one dim that a sample reads, its weight, and that weight's derivative."""

    place: torch.Tensor
    weight: torch.Tensor
    slope: torch.Tensor


def _padded(x: torch.Tensor, size: int, padding: int, align: bool) -> Any:
    """Where a coordinate reads, and the derivative of that place."""
    slope = torch.ones_like(x)
    if padding == REFLECTION:
        low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        span = high - low
        if span == 0:
            return torch.zeros_like(x), torch.zeros_like(x)
        away = (x - low).abs()
        flips = (away / span).floor()
        odd = flips - 2 * (flips / 2).floor() == 1
        extra = away - flips * span
        slope = torch.where((x < low) ^ odd, -slope, slope)
        x = torch.where(odd, span - extra, extra) + low
    if padding != ZEROS:
        slope = torch.where((x <= 0) | (x >= size - 1), 0.0, slope)
        x = x.clamp(0, size - 1)
    return x, slope


def _cubic(t: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Weights of the four neighbours, and their derivatives by `t`."""
    found = []
    for offset, near, side in (
        (t + 1, False, 1),
        (t, True, 1),
        (1 - t, True, -1),
        (2 - t, False, -1),
    ):
        if near:
            weight = ((_A + 2) * offset - (_A + 3)) * offset * offset + 1
            slope = (3 * (_A + 2) * offset - 2 * (_A + 3)) * offset
        else:
            weight = ((_A * offset - 5 * _A) * offset + 8 * _A) * offset - 4 * _A
            slope = (3 * _A * offset - 10 * _A) * offset + 8 * _A
        found.append((weight, side * slope))
    return found


def _taps(x: torch.Tensor, size: int, mode: int, padding: int, align: bool) -> list[_Tap]:
    """What is read along one dim at the coordinates `x`, which are from -1 to 1."""
    scale = (size - 1) / 2 if align else size / 2
    x = (x + 1) * scale - (0.0 if align else 0.5)
    if mode == BICUBIC:
        first = x.floor()
        return [
            _Tap(_padded(first + step - 1, size, padding, align)[0], weight, slope * scale)
            for step, (weight, slope) in enumerate(_cubic(x - first))
        ]
    x, slope = _padded(x, size, padding, align)
    if mode == NEAREST:
        return [_Tap(x.round(), torch.ones_like(x), torch.zeros_like(x))]
    first, slope = x.floor(), slope * scale
    return [_Tap(first, first + 1 - x, -slope), _Tap(first + 1, x - first, slope)]


def _grid_sampler_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    grid: torch.Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: list[bool],
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Every combination of taps reads one element: it gets its share of the gradient."""
    batch, channels, *sizes = input.shape
    dims = len(sizes)
    points = grid.reshape(batch, -1, dims)
    grad = grad_output.reshape(batch, channels, -1)
    elements = input.reshape(batch, channels, -1)
    # The grid names the last dim first.
    taps = [
        _taps(points[..., dims - 1 - dim], size, interpolation_mode, padding_mode, align_corners)
        for dim, size in enumerate(sizes)
    ]
    grad_input = torch.zeros_like(elements)
    slopes = [torch.zeros_like(points[..., 0]) for _ in sizes]
    for chosen in itertools.product(*taps):
        inside = torch.ones_like(points[..., 0], dtype=torch.bool)
        place = torch.zeros_like(points[..., 0], dtype=torch.int64)
        weight = torch.ones_like(points[..., 0])
        for tap, size in zip(chosen, sizes, strict=True):
            inside = inside & (tap.place >= 0) & (tap.place <= size - 1)
            place = place * size + tap.place.clamp(0, size - 1).to(torch.int64)
            weight = weight * tap.weight
        index = place.unsqueeze(1).expand(grad.shape)
        seen = torch.where(inside.unsqueeze(1), grad, 0.0)
        if output_mask[0]:
            grad_input = grad_input.scatter_add(2, index, seen * weight.unsqueeze(1))
        if interpolation_mode == NEAREST:
            continue
        read = (seen * elements.gather(2, index)).sum(1)
        for dim, tap in enumerate(chosen):
            others = (other.weight for place, other in enumerate(chosen) if place != dim)
            slopes[dim] = slopes[dim] + read * math.prod(others, start=tap.slope)
    grad_grid = torch.stack(slopes[::-1], -1).reshape(grid.shape)
    return (grad_input.reshape(input.shape) if output_mask[0] else None), grad_grid


GRID_GRADIENTS: dict[OpOverload, Callable[..., Any]] = {
    aten.grid_sampler_2d_backward.default: _grid_sampler_backward,
    aten.grid_sampler_3d_backward.default: _grid_sampler_backward,
}
