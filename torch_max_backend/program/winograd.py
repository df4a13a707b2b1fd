"""Winograd's algorithm F(4 x 4, 3 x 3): its transforms, and when a convolution is worth them.

A tile of 4 x 4 results takes 36 products per pair of channels instead of 144. The transformed
filters are four times as large.

The points of the transforms decide the rounding errors. Relative to the largest result, for 64 to
512 channels, these are 1.2e-6 to 2.3e-6 with 0, 3/4, -3/4, 3/2, -3/2 and infinity; the usual 1 and
2 have 4e-6 to 7e-6, PyTorch's convolution 2e-7.
"""

from __future__ import annotations

import math

import numpy as np
import torch

SIDE = 4
"""Results of a tile, in each direction."""
PATCH = SIDE + 2
"""Pixels that it reads, in each direction."""
SPOTS = PATCH * PATCH
"""Numbers of a transformed tile or filter."""

POINTS = (0.0, 0.75, -0.75, 1.5, -1.5)
"""And infinity."""

CHANNELS = 16
"""Of the source and of the result, at least: with fewer, the transforms take longer."""
PIXELS = 14 * 14
"""Of all results, at least: with fewer, reading the larger filters from memory takes longer."""


def is_worth_it(pixels: int, inputs: int, outputs: int) -> bool:
    """Whether a 3 x 3 convolution with so many results and channels is faster this way."""
    return min(inputs, outputs) >= CHANNELS and pixels >= PIXELS


def tiles(size: int) -> int:
    """In one direction."""
    return -(-size // SIDE)


def _of_filters() -> torch.Tensor:
    """[6, 3]: the values of a filter, as a polynomial, at the points."""
    rows = []
    for point in POINTS:
        distances = math.prod(point - other for other in POINTS if other != point)
        rows.append([point**power / distances for power in range(3)])
    return torch.tensor([*rows, [0.0, 0.0, 1.0]], dtype=torch.float64)


def _of_pixels() -> torch.Tensor:
    """[6, 6]: polynomials that are zero at all other points."""
    rows = [np.poly([other for other in POINTS if other != point]) for point in POINTS]
    matrix = torch.zeros(PATCH, PATCH)
    for index, row in enumerate([*rows, np.poly(POINTS)]):
        matrix[index, : len(row)] = torch.tensor(row[::-1].copy())
    return matrix


def _of_results() -> torch.Tensor:
    """[4, 6]: powers of the points."""
    rows = [[point**power for point in POINTS] + [0.0] for power in range(SIDE)]
    rows[-1][-1] = 1.0
    return torch.tensor(rows)


def transformed(filters: torch.Tensor) -> torch.Tensor:
    """Filters [out, in, 3, 3] as [36, in, out]."""
    matrix = _of_filters()
    found = torch.einsum("ai,oijk,bk->abjo", matrix, filters.permute(0, 2, 1, 3).double(), matrix)
    return found.flatten(0, 1)


def convolve(image: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    """Images of whole tiles, [n, in, h + 2, w + 2], and transformed filters: [n, out, h, w]."""
    n, _, h, w = image.shape
    down, across = (h - 2) // SIDE, (w - 2) // SIDE
    matrix = _of_pixels().to(image.dtype)
    patches = image.unfold(2, PATCH, SIDE).unfold(3, PATCH, SIDE)
    pixels = torch.einsum("ai,ncyxij,bj->abnyxc", matrix, patches, matrix)
    products = pixels.reshape(SPOTS, n * down * across, -1) @ filters
    back = _of_results().to(image.dtype)
    found = products.reshape(PATCH, PATCH, n, down, across, -1)
    results = torch.einsum("ia,abnyxo,jb->noyixj", back, found, back)
    return results.reshape(n, -1, down * SIDE, across * SIDE)
