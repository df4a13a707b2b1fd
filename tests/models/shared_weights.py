"""Models that use a weight in more than one place."""

from __future__ import annotations

import torch
from torch import nn

from tests.models.spec import TestModelSpec


class TiedEmbedding(nn.Module):
    """Input and output embedding are one parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(ids)).tanh())


class SharedModule(nn.Module):
    """One module under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = self.first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(8, 16, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        output, state = self.cell(x)
        return output, state


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cdist(self.tower(a), self.tower(b))


SPECS = [
    TestModelSpec(
        "tied_embedding",
        "shared_weights",
        TiedEmbedding,
        lambda: (torch.randint(0, 20, (2, 6)),),
        "one parameter under two names",
    ),
    TestModelSpec(
        "shared_module",
        "shared_weights",
        SharedModule,
        lambda: (torch.randn(2, 8),),
        "one module under two names",
    ),
    TestModelSpec(
        "recurrent",
        "shared_weights",
        Recurrent,
        lambda: (torch.randn(2, 5, 8),),
        "an LSTM, the same weights at each step",
    ),
    TestModelSpec(
        "siamese",
        "shared_weights",
        Siamese,
        lambda: (torch.randn(3, 8), torch.randn(4, 8)),
        "one tower called twice",
    ),
]
