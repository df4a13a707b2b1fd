"""Winograd's algorithm: what it computes, and its rounding errors."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from torch_max_backend.program import winograd


def test_it_is_a_convolution() -> None:
    image = torch.randn(2, 5, 14, 10, dtype=torch.float64)
    filters = torch.randn(7, 5, 3, 3, dtype=torch.float64)
    result = winograd.convolve(image, winograd.transformed(filters))
    torch.testing.assert_close(result, F.conv2d(image, filters))


@pytest.mark.parametrize("channels", [16, 64, 256])
def test_errors_are_small(channels: int) -> None:
    torch.manual_seed(0)
    image = torch.randn(1, channels, 30, 30).relu()
    filters = torch.randn(32, channels, 3, 3) * (2 / (9 * channels)) ** 0.5
    exact = F.conv2d(image.double(), filters.double())
    result = winograd.convolve(image, winograd.transformed(filters).float())
    assert (result - exact).abs().max() < 3e-6 * exact.abs().max()


def test_tiles() -> None:
    assert [winograd.tiles(size) for size in (1, 4, 5, 8)] == [1, 1, 2, 2]


def test_where_it_is_used() -> None:
    assert winograd.is_worth_it(56 * 56, 64, 64)
    assert not winograd.is_worth_it(56 * 56, 3, 64)
    assert not winograd.is_worth_it(7 * 7, 512, 512)
