"""Models with several, nested or mutated inputs and outputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from tests.models.spec import TestModelSpec


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 16), nn.Linear(4, 16)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cosine_similarity(self.left(a), self.right(b))


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.heads = nn.ModuleList(nn.Linear(16, n) for n in (2, 3, 5))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        y = self.body(x).relu()
        return [head(y) for head in self.heads]


class Nested(nn.Module):
    """Takes a list and a dict; returns a dict that also contains None and numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, pair: list[torch.Tensor], options: dict[str, Any]) -> dict[str, Any]:
        x = self.mix(pair[0]) * options["scale"] + pair[1]
        return {
            "x": x,
            "parts": (x.mean(0), [x.amax(0), x.amin(0)]),
            "nothing": None,
            "rows": x.shape[0],
            "half": 0.5,
            "flag": True,
        }


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Named(nn.Module):
    def forward(self, t: torch.Tensor) -> tuple[Point, Any]:
        return Point(t.sin(), t.cos()), torch.max(t, dim=-1)


class Splitter(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b, c = x.split([1, 3, 4], dim=-1)
        return torch.cat([c, a, b], dim=-1), b, *x.topk(2)


class Counter(nn.Module):
    """Mutates a buffer, which counts the calls, and its input, which it scales."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        x.mul_(2.0)
        return x + self.calls


def _vector() -> tuple[torch.Tensor]:
    return (torch.randn(3, 8),)


SPECS = [
    TestModelSpec(
        "two_towers",
        "multi_io",
        TwoTowers,
        lambda: (torch.randn(3, 8), torch.randn(3, 4)),
        "two inputs",
    ),
    TestModelSpec("heads", "multi_io", Heads, _vector, "a list of outputs"),
    TestModelSpec(
        "nested",
        "multi_io",
        Nested,
        lambda: (
            [torch.randn(3, 8), torch.randn(3, 8)],
            {"scale": torch.randn(8), "unused": None},
        ),
        "lists and dicts as inputs, a dict with None and numbers as output",
        dynamic_shapes=([{0: torch.export.Dim("rows")}] * 2, {"scale": None, "unused": None}),
    ),
    TestModelSpec("named", "multi_io", Named, _vector, "a namedtuple and torch.return_types"),
    TestModelSpec("splitter", "multi_io", Splitter, _vector, "ops with several results"),
    TestModelSpec("counter", "multi_io", Counter, _vector, "a mutated buffer and a mutated input"),
]
