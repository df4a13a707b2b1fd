"""Small models that several tests of torch_ir use."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Calls(nn.Module):
    """A model of one function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class AllKinds(nn.Module):
    """A weight, a small and a large constant, an op with two outputs, and two subgraphs."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.table = torch.arange(2000.0)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.fc(x) + torch.tensor([1.0, 2.0, 3.0, 4.0])
        best, _ = y.topk(2)
        z = torch.cond(y.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (best,))
        return {"z": z, "t": self.table[:3]}
