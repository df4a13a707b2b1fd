"""Fractional max pooling, for which PyTorch has kernels but no decomposition.

If a window has several NaNs, the index here is that of the first one, in PyTorch of the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from torch_max_backend.compat.torch import OpOverload

aten = torch.ops.aten


def _starts(samples: torch.Tensor, size: int, out: int, kernel: int) -> torch.Tensor:
    """Where the windows along one dim begin; the last one ends with the input."""
    last = torch.full([*samples.shape, 1], size - kernel, dtype=torch.int64, device=samples.device)
    if out == 1:
        return last
    step = (size - kernel) / (out - 1)
    windows = torch.arange(out - 1, device=samples.device).to(samples.dtype)
    begin = samples.unsqueeze(-1)
    first = ((windows + begin) * step).to(torch.int64) - (begin * step).to(torch.int64)
    return torch.cat([first, last], -1)


def _pool(
    self: torch.Tensor, kernel_size: list[int], output_size: list[int], random_samples: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    dims = len(output_size)
    *outer, channels = self.shape[: self.dim() - dims]
    sizes = self.shape[self.dim() - dims :]
    # In 2-d the first sample is for the width, in 3-d for the depth.
    samples = random_samples.flip(-1) if dims == 2 else random_samples
    planes = [math.prod(outer), channels]
    places = torch.zeros([*planes, 1, 1], dtype=torch.int64, device=self.device)
    for dim, (size, out, kernel) in enumerate(zip(sizes, output_size, kernel_size, strict=True)):
        starts = _starts(samples[..., dim], size, out, kernel)
        along = starts.unsqueeze(-1) + torch.arange(kernel, device=self.device)
        # From [planes, outputs, window elements] of the dims so far to those with one dim more.
        here = places.shape[2:]
        places = places[:, :, :, None, :, None] * size + along[:, :, None, :, None, :]
        places = places.reshape(*planes, here[0] * out, here[1] * kernel)
    elements = self.reshape(*planes, math.prod(sizes))
    windows = elements.gather(2, places.flatten(2)).reshape(places.shape)
    largest, which = windows.max(-1)
    indices = places.gather(-1, which.unsqueeze(-1)).squeeze(-1)
    shape = [*outer, channels, *output_size]
    return largest.reshape(shape), indices.reshape(shape)


def _backward(
    grad_output: torch.Tensor,
    self: torch.Tensor,
    kernel_size: list[int],
    output_size: list[int],
    indices: torch.Tensor,
) -> torch.Tensor:
    planes = self.shape[: self.dim() - len(output_size)]
    grad = torch.zeros_like(self).reshape(*planes, -1)
    grad = grad.scatter_add(-1, indices.reshape(*planes, -1), grad_output.reshape(*planes, -1))
    return grad.reshape(self.shape)


FRACTIONAL_POOLING: dict[OpOverload, Callable[..., Any]] = {
    aten.fractional_max_pool2d.default: _pool,
    aten.fractional_max_pool2d_backward.default: _backward,
    aten.fractional_max_pool3d.default: _pool,
    aten.fractional_max_pool3d_backward.default: _backward,
}
