"""Decompositions of our own, where PyTorch has none or one that would not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import inductor_prims
from torch._ops import OpOverload

from torch_max_backend.foreach import foreach_decompositions
from torch_max_backend.gradients import GRADIENTS

aten = torch.ops.aten


def fma(a: torch.Tensor, b: torch.Tensor | float, c: torch.Tensor | float) -> torch.Tensor:
    """What Dynamo writes for `addcmul` and for `add` whose alpha is a tensor (a learning rate).

    PyTorch's rounds once; whether MAX's does is the choice of its compiler.
    """
    return a * b + c


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


DECOMPOSITIONS: dict[OpOverload, Callable[..., Any]] = {
    aten.native_dropout.default: native_dropout,
    inductor_prims.fma: fma,
    **foreach_decompositions(),
    **GRADIENTS,
}
