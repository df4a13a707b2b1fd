"""The layout of a packed matmul weight, and how a weight is brought into it."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Layout:
    """The packed form of a [k, n] operand; `transposed` if the parameter is stored as [n, k]."""

    k: int
    n: int
    transposed: bool
    columns: int
    """Of a panel; the last panel is filled up with zeros."""

    @property
    def shape(self) -> tuple[int, int, int]:
        return -(-self.n // self.columns), self.k, self.columns

    def pack(self, weight: torch.Tensor) -> torch.Tensor:
        """Panels of `columns` columns, each with all its rows, one after the other."""
        matrix = weight.detach().t() if self.transposed else weight.detach()
        packed = matrix.new_empty(self.shape)
        full = self.n // self.columns
        body = matrix[:, : full * self.columns].unflatten(1, (full, self.columns))
        packed[:full].copy_(body.transpose(0, 1))
        if rest := self.n - full * self.columns:
            packed[full, :, :rest].copy_(matrix[:, full * self.columns :])
            packed[full, :, rest:] = 0
        return packed
