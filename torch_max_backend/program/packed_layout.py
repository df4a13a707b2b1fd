"""The layout of packed matmul weights, and how weights are brought into it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from torch_max_backend.program import huge_pages


@dataclass(frozen=True)
class Layout:
    """The packed form of a [k, n] operand; `transposed` if the parameter is stored as [n, k]."""

    k: int
    n: int
    transposed: bool
    columns: int
    """Of a panel; the last panel is filled up with zeros."""
    biased: bool = False
    """A panel has one row more than k: its part of a bias of n numbers, the second source."""

    @property
    def panels(self) -> int:
        return -(-self.n // self.columns)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.panels, self.k + self.biased, self.columns

    def source_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the parameters that it is made from."""
        weight = (self.n, self.k) if self.transposed else (self.k, self.n)
        return [weight, (self.n,)] if self.biased else [weight]

    def pack(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Panels of `columns` columns, each with all its rows, one after the other."""
        packed = huge_pages.empty(self.shape, weight.dtype)
        self.pack_into(packed, weight, bias)
        return packed

    def pack_into(
        self, packed: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> None:
        """The same, into memory that is there already."""
        matrix = weight.detach().t() if self.transposed else weight.detach()
        self._fill(packed[:, : self.k], matrix)
        if bias is not None:
            self._fill(packed[:, self.k :], bias.detach()[None])

    def _fill(self, panels: torch.Tensor, matrix: torch.Tensor) -> None:
        full = self.n // self.columns
        body = matrix[:, : full * self.columns].unflatten(1, (full, self.columns))
        panels[:full].copy_(body.transpose(0, 1))
        if rest := self.n - full * self.columns:
            panels[full, :, :rest].copy_(matrix[:, full * self.columns :])
            panels[full, :, rest:] = 0


@dataclass(frozen=True)
class JoinedLayout:
    """Weights with the same k in one tensor: for products of the same rows, in one kernel."""

    parts: tuple[Layout, ...]
    alternating: bool = False
    """The panels of the parts take turns; otherwise one part follows the other."""

    @property
    def shape(self) -> tuple[int, int, int]:
        _, lines, columns = self.parts[0].shape
        return sum(part.panels for part in self.parts), lines, columns

    def source_shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the parameters of all parts, one after the other."""
        return [shape for part in self.parts for shape in part.source_shapes()]

    def pack(self, *sources: torch.Tensor) -> torch.Tensor:
        """The panels of all parts."""
        packed = huge_pages.empty(self.shape, sources[0].dtype)
        rest = iter(sources)
        for place, part in zip(self._places(packed), self.parts, strict=True):
            own = [next(rest) for _ in part.source_shapes()]
            part.pack_into(place, *own)
        return packed

    def _places(self, packed: torch.Tensor) -> Iterator[torch.Tensor]:
        start = 0
        for index, part in enumerate(self.parts):
            if self.alternating:
                yield packed[index :: len(self.parts)]
            else:
                yield packed[start : start + part.panels]
                start += part.panels


def joined(parts: Sequence[Layout], alternating: bool = False) -> JoinedLayout | None:
    """The parts in one tensor; None if a kernel could not tell one from the next."""
    same = {(part.shape[1:], part.k) for part in parts}
    if len(same) > 1 or (alternating and len({part.n for part in parts}) > 1):
        return None
    return JoinedLayout(tuple(parts), alternating)
