"""Dropout, embeddings, segments, fma: ops that PyTorch does not decompose, or not as we need."""

from __future__ import annotations

from typing import Any

import torch

Number = torch.Tensor | float | torch.SymFloat


def fma(a: Number, b: Number, c: Number) -> torch.Tensor:
    """Dynamo emits it for `addcmul`, and for `add` if alpha is a tensor (a learning rate).

    One of the three is a tensor. PyTorch rounds once; whether MAX does depends on its compiler.
    """
    result: Any = a * b + c  # type: ignore[operator]  # SymFloat has no annotations
    assert isinstance(result, torch.Tensor)
    return result


def embedding_renorm(
    self: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float
) -> torch.Tensor:
    """`self`, with the rows in `indices` scaled down to `max_norm` where they are longer."""
    norms = torch.linalg.vector_norm(self, norm_type, 1, keepdim=True)
    named = torch.zeros(self.shape[0], dtype=torch.bool, device=self.device)
    named = named.index_put((indices.flatten(),), torch.ones_like(named[:1]))
    too_long = named.unsqueeze(1) & (norms > max_norm)
    return torch.where(too_long, self * (max_norm / (norms + 1e-7)), self)


def native_dropout(
    input: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """A mask that PyTorch draws as its own kernel does, and a product that MAX computes.

    PyTorch's decomposition samples in another way, so that a seed gives a different mask. The mask
    depends on the shape alone, so no dropout has to wait for the ops before it.
    """
    if train is False or input.numel() == 0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    kept = 1.0 - p
    empty = torch.empty(input.shape, dtype=torch.bool, device=input.device)
    mask = torch.bernoulli(empty, kept)
    return input * mask * (0.0 if kept == 0 else 1.0 / kept), mask


def segment_reduce(
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """Reduce each segment along `axis` to one element; segments by `indices` stay with PyTorch."""
    if indices is not None:
        return NotImplemented
    if lengths is None:
        assert offsets is not None
        lengths = offsets.diff(dim=-1)
    outer, n, inner = data.shape[:axis], data.shape[axis], data.shape[axis + 1 :]
    count = lengths.shape[-1]
    places = torch.arange(n, device=data.device).expand(*outer, n).contiguous()
    # The segment of each position; positions after the last segment get `count`, cut off below.
    segment = torch.searchsorted(lengths.cumsum(-1).contiguous(), places, right=True)
    segment = segment.reshape(*outer, n, *(1 for _ in inner)).expand(data.shape)
    neutral = {"max": -torch.inf, "min": torch.inf, "prod": 1.0}.get(reduce, 0.0)
    start = data.new_full((*outer, count + 1, *inner), neutral if initial is None else initial)
    fold = {"max": "amax", "min": "amin", "prod": "prod"}.get(reduce, "sum")
    result = start.scatter_reduce(axis, segment, data, fold).narrow(axis, 0, count)
    if reduce != "mean":
        return result
    lengths = lengths.reshape(*outer, count, *(1 for _ in inner))
    empty = result if initial is not None else result.new_full((), torch.nan)
    return torch.where(lengths > 0, result / lengths, empty)
