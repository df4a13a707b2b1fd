"""Fractional max pooling and its gradient, compared with PyTorch's kernels."""

from __future__ import annotations

import pytest
import torch

from torch_max_backend.lowering.decompositions.fractional_pooling import FRACTIONAL_POOLING

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("shape", "kernel", "out"),
    [
        ((2, 3, 9, 11), [2, 3], [4, 5]),
        ((3, 7, 5), [3, 2], [1, 4]),
        ((2, 3, 6, 7, 8), [2, 3, 2], [3, 2, 4]),
        ((2, 5, 5, 6), [2, 2, 2], [2, 1, 4]),
    ],
)
def test_pool_and_gradient(shape: tuple[int, ...], kernel: list[int], out: list[int]) -> None:
    dims = len(kernel)
    forward = getattr(aten, f"fractional_max_pool{dims}d").default
    backward = getattr(aten, f"fractional_max_pool{dims}d_backward").default
    torch.manual_seed(0)
    x = torch.randn(shape)
    batch = shape[0] if len(shape) == dims + 2 else 1
    samples = torch.rand(batch, shape[-dims - 1], dims)
    expected, expected_places = forward(x, kernel, out, samples)
    actual, places = FRACTIONAL_POOLING[forward](x, kernel, out, samples)
    torch.testing.assert_close(actual, expected, atol=0, rtol=0)
    assert torch.equal(places, expected_places)
    grad = torch.randn_like(expected)
    torch.testing.assert_close(
        FRACTIONAL_POOLING[backward](grad, x, kernel, out, places),
        backward(grad, x, kernel, out, places),
    )
