"""A small model with two entries, and the package of it that the tests share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim

from torch_ir.to_program import to_exported_program
from torch_max_backend import Example, compile_exported, compile_together, save_package
from torch_max_backend.engine.targets import NATIVE
from torch_max_backend.frontend.package.save import _program


class Decoder(nn.Module):
    """Tied weights, a packed product, a constant, and a cache that both entries change."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(300, 64)
        self.up = nn.Linear(64, 288)
        self.down = nn.Linear(288, 64, bias=False)
        self.head = nn.Linear(64, 300, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("cache", torch.zeros(64), persistent=False)
        self.table = torch.linspace(0, 1, 300)

    def forward(self, ids: torch.Tensor, *, scale: float = 1.0) -> dict[str, torch.Tensor]:
        x = self.embed(ids)
        self.cache.add_(x.mean((0, 1)))
        y = x + self.down(nn.functional.gelu(self.up(x + self.cache)))
        return {"logits": self.head(y) * scale + self.table, "hidden": y}


def decoder() -> Decoder:
    torch.manual_seed(0)
    return Decoder().eval()


PROMPT = torch.arange(15).reshape(3, 5)
TOKEN = torch.tensor([[7]])


def save(path: Path, model: Decoder | None = None, targets: Sequence[str] = (NATIVE,)) -> None:
    """The package of `decoder()`: `prefill` of any batch, `decode` of one token."""
    save_package(path, decoder() if model is None else model, entries=entries(), targets=targets)


def entries() -> dict[str, Example]:
    batch = Dim("batch", min=2, max=9)
    return {
        "prefill": Example((PROMPT,), dynamic_shapes={"ids": {0: batch}}),
        "decode": Example((TOKEN,), {"scale": 2.0}),
    }


def compile_all() -> None:
    """The graphs of the package, and those of its IRs, which lack the names of the tied weight."""
    model = decoder()
    weights = {**model.state_dict(), "cache": model.cache}
    with compile_together():
        for name, example in entries().items():
            program, ir = _program(name, model, example, None)
            compile_exported(program)
            compile_exported(to_exported_program(ir, weights))
