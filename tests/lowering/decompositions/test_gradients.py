"""Gradients that PyTorch has kernels for: each compared with its kernel."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_max_backend.lowering.decompositions.gradients import GRADIENTS

aten = torch.ops.aten


def check(op: Any, *args: Any) -> None:
    actual, expected = GRADIENTS[op](*args), op(*args)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, math.inf])
def test_distances(p: float) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 4, 3), torch.randn(2, 5, 3)
    y[:, 0] = x[:, 1]  # a distance of 0 has the gradient 0
    y[:, 1, 0] = x[:, 2, 0]  # a difference of 0 in one of three numbers
    distance = torch.cdist(x, y, p)
    check(aten._cdist_backward.default, torch.randn_like(distance), x, y, p, distance)
    rows = x[0].clone()
    rows[2] = rows[0]
    rows[3, 1] = rows[1, 1]
    pairs = torch.pdist(rows, p)
    check(aten._pdist_backward.default, torch.randn_like(pairs), rows, p, pairs)


@pytest.mark.parametrize(("mode", "weighted"), [(0, False), (0, True), (1, False)])
@pytest.mark.parametrize("padding", [-1, 2])
def test_embedding_bags(mode: int, weighted: bool, padding: int) -> None:
    torch.manual_seed(0)
    table = torch.randn(5, 3)
    indices, offsets = torch.tensor([1, 2, 4, 1, 0, 2]), torch.tensor([0, 2, 2, 5])
    weights = torch.rand(6) if weighted else None
    result, bags, sizes, most = aten._embedding_bag.default(
        table, indices, offsets, False, mode, False, weights, False, padding
    )
    grad = torch.randn_like(result)
    arguments = (grad, indices, offsets, bags, sizes, most, 5, False, mode, False, weights, padding)
    check(aten._embedding_bag_backward.default, *arguments)
    if weighted:
        check(
            aten._embedding_bag_per_sample_weights_backward.default,
            *(grad, table, indices, offsets, bags, mode, padding),
        )


def test_what_stays_with_pytorch() -> None:
    empty = torch.empty(0, dtype=torch.int64)
    backward = GRADIENTS[aten._embedding_bag_backward.default]
    one = torch.ones(1, dtype=torch.int64)
    for indices, by_freq, mode in ((empty, False, 0), (one, True, 0), (one, False, 2)):
        given = (torch.ones(1, 3), indices, one * 0, empty, empty, empty, 5, by_freq, mode)
        assert backward(*given, False, None) is NotImplemented


def test_trilinear() -> None:
    torch.manual_seed(0)
    x, weight, y = torch.randn(3, 4), torch.randn(5, 4, 6), torch.randn(3, 6)
    op = aten._trilinear.default
    check(op, x, weight, y, [1, 3], [0], [1, 2], [2, 3])
    check(op, x, weight, y, [1, 3], [0], [1, 2], [])


@pytest.mark.parametrize("dim", [0, 1])
def test_weight_norm(dim: int) -> None:
    torch.manual_seed(0)
    v = torch.randn(4, 3)
    g = torch.rand(4, 1) if dim == 0 else torch.rand(1, 3)
    weight, norms = aten._weight_norm_interface.default(v, g, dim)
    op = aten._weight_norm_interface_backward.default
    check(op, torch.randn_like(weight), v, g, norms, dim)


def test_every_gradient_is_tested_here() -> None:
    text = Path(__file__).read_text()
    missing = [str(op) for op in GRADIENTS if str(op) not in text]
    assert not missing
