"""Decompositions of our own, where PyTorch has none or one that would not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

aten = torch.ops.aten


def native_dropout(
    input: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """A mask that PyTorch draws, as its own kernel draws it, and a product that MAX computes.

    PyTorch's decomposition draws another distribution, so a seed would give another mask. The mask
    is drawn from the shape alone: no dropout of a model waits for what comes before it.
    """
    if train is False or input.numel() == 0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    kept = 1.0 - p
    empty = torch.empty(input.shape, dtype=torch.bool, device=input.device)
    mask = torch.bernoulli(empty, kept)
    return input * mask * (0.0 if kept == 0 else 1.0 / kept), mask


def trilinear(
    i1: torch.Tensor,
    i2: torch.Tensor,
    i3: torch.Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> torch.Tensor:
    """The product of three tensors, summed: what `torch.nn.functional.bilinear` is made of."""
    factors = []
    for tensor, expanded in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in sorted(expanded):
            tensor = tensor.unsqueeze(dim)
        factors.append(tensor)
    product = factors[0] * factors[1] * factors[2]
    return product.sum(sumdim) if sumdim else product


DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {
    aten._trilinear.default: trilinear,
    aten.native_dropout.default: native_dropout,
}
