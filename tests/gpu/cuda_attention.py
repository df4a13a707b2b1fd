"""What PyTorch's `scaled_dot_product_attention` becomes on an NVIDIA GPU, while a graph is traced.

A PyTorch without CUDA does not choose among its kernels for CUDA: it composes attention of
products. With `chosen_as_on_cuda`, it chooses as `sdp_utils.cpp` does for a recent GPU.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch._C import DispatchKey
from torch.nn import functional as F

aten = torch.ops.aten
_SDPA = aten.scaled_dot_product_attention.default
_HALF = (torch.float16, torch.bfloat16)


@contextlib.contextmanager
def chosen_as_on_cuda() -> Iterator[None]:
    """Trace attention as PyTorch's ops for CUDA, whatever the device of its fake tensors."""
    with mock.patch.dict(_SDPA.py_kernels, {DispatchKey.CompositeImplicitAutograd: _chosen}):
        _SDPA._dispatch_cache.clear()
        yield
    _SDPA._dispatch_cache.clear()


def _chosen(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    tensors = (query, key, value)
    fits = all(x.dim() == 4 for x in tensors) and query.dtype in (torch.float32, *_HALF)
    equal_lengths = query.shape[2] == key.shape[2]
    if fits and query.dtype in _HALF and attn_mask is None and (equal_lengths or not is_causal):
        return _flash(query, key, value, dropout_p, is_causal, scale)
    if fits and query.shape[1] == key.shape[1]:
        return _efficient(query, key, value, attn_mask, dropout_p, is_causal, scale)
    how = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    out, _ = aten._scaled_dot_product_attention_math(*tensors, attn_mask, dropout_p, **how)
    return out


def _flash(
    query: Any, key: Any, value: Any, dropout_p: float, is_causal: bool, scale: float | None
) -> torch.Tensor:
    """PyTorch pads heads to a multiple of 8."""
    width = query.shape[-1]
    padding = -width % 8
    padded = [F.pad(x, [0, padding]) if padding else x for x in (query, key, value)]
    scale = 1 / math.sqrt(width) if scale is None else scale
    out = aten._scaled_dot_product_flash_attention(*padded, dropout_p, is_causal, scale=scale)[0]
    return out[..., : value.shape[-1]] if padding else out


def _efficient(
    query: Any, key: Any, value: Any, mask: Any, dropout_p: float, causal: bool, scale: float | None
) -> torch.Tensor:
    """PyTorch turns a mask into a bias for each head and query, in lines of a multiple of 16."""
    if mask is not None:
        if mask.dtype is torch.bool:
            hidden = torch.full((), -math.inf, dtype=query.dtype, device=query.device)
            mask = torch.where(mask, hidden.new_zeros(()), hidden)
        keys = key.shape[2]
        if padding := -keys % 16:
            mask = F.pad(mask, [0, padding])[..., :keys]
        mask = mask.expand(query.shape[0], query.shape[1], query.shape[2], keys)
    needs_sums = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
    how = (mask, needs_sums, dropout_p, causal)
    return aten._scaled_dot_product_efficient_attention(query, key, value, *how, scale=scale)[0]
