"""Models with attention in its common forms."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.spec import TestModelSpec

BATCH = torch.export.Dim("batch", min=1, max=64)
LENGTH = torch.export.Dim("length", min=2, max=256)


class SelfAttention(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / math.sqrt(x.shape[-1])
        return scores.softmax(-1) @ self.value(x)


class MultiHead(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        output, weights = self.attention(x, x, x)
        return output, weights


class CausalAttention(nn.Module):
    """Creates its mask in forward, without naming a device."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        mask = torch.full((length, length), float("-inf")).triu(1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class RotaryAttention(nn.Module):
    """Rotary positions from a non-persistent buffer; groups of query heads share keys."""

    inv_freq: torch.Tensor

    def __init__(self, width: int = 32, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.size, bias=False)
        steps = torch.arange(0, self.size, 2, dtype=torch.float32) / self.size
        self.register_buffer("inv_freq", 1.0 / 10000.0**steps, persistent=False)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        angles = torch.outer(torch.arange(x.shape[-2]).float(), self.inv_freq)
        cos, sin = (f(angles).repeat(1, 2) for f in (torch.cos, torch.sin))
        left, right = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-right, left), dim=-1) * sin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q = self.q(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = (
            self.kv(x).view(batch, length, 2 * self.groups, self.size).transpose(1, 2).chunk(2, 1)
        )
        k, v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (self.rotate(k), v))
        y = F.scaled_dot_product_attention(self.rotate(q), k, v, is_causal=True)
        return y.transpose(1, 2).reshape(batch, length, width)


class CrossAttention(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: torch.Tensor, *, memory: torch.Tensor, pad: torch.Tensor) -> torch.Tensor:
        return self.attention(x, memory, memory, key_padding_mask=pad, need_weights=False)[0]


def _x() -> tuple[torch.Tensor]:
    return (torch.randn(2, 10, 32),)


def _memory() -> dict[str, torch.Tensor]:
    pad = torch.zeros(2, 7, dtype=torch.bool)
    pad[1, 5:] = True
    return {"memory": torch.randn(2, 7, 32), "pad": pad}


SPECS = [
    TestModelSpec(
        "self_attention", "attention", SelfAttention, _x, "one head, without nn.MultiheadAttention"
    ),
    TestModelSpec("multi_head", "attention", MultiHead, _x, "nn.MultiheadAttention with weights"),
    TestModelSpec(
        "causal",
        "attention",
        CausalAttention,
        _x,
        "mask created in forward; batch and length are dynamic",
        dynamic_shapes=({0: BATCH, 1: LENGTH},),
    ),
    TestModelSpec("rotary", "attention", RotaryAttention, _x, "rotary positions, grouped queries"),
    TestModelSpec(
        "cross", "attention", CrossAttention, _x, "keyword inputs and a mask", kwargs=_memory
    ),
    TestModelSpec(
        "encoder_layer",
        "attention",
        lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True),
        _x,
        "PyTorch's own encoder layer",
    ),
]
