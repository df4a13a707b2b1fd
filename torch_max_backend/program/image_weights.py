"""The weights of an image program: filters in panels and values per channel, in one tensor.

Batch norms are folded in here, when the weights are packed: a norm behind a convolution scales its
filters, and what is left of it is one number per channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torch_max_backend.program import huge_pages, winograd


@dataclass(frozen=True)
class Norm:
    """A batch norm with fixed statistics; its tensors by their place among the sources."""

    weight: int | None
    bias: int | None
    mean: int
    variance: int
    eps: float

    def scale(self, sources: tuple[torch.Tensor, ...]) -> torch.Tensor:
        scale = (sources[self.variance].double() + self.eps).rsqrt()
        return scale if self.weight is None else scale * sources[self.weight].double()

    def shift(self, sources: tuple[torch.Tensor, ...], before: torch.Tensor | None) -> torch.Tensor:
        """What is added after scaling; `before` is added ahead of the norm."""
        mean = sources[self.mean].double()
        shift = ((0 if before is None else before.double()) - mean) * self.scale(sources)
        return shift if self.bias is None else shift + sources[self.bias].double()


@dataclass(frozen=True)
class Filters:
    """The filters of one convolution, or of one group or one tap of it."""

    weight: int
    norm: Norm | None = None
    first: int = 0
    """The first output channel of its group."""
    count: int | None = None
    """The output channels of its group; None: all."""
    depthwise: bool = False
    tap: tuple[int, int] | None = None
    """Of a transposed convolution, whose taps do not overlap."""
    winograd: bool = False
    """Transformed, for Winograd's algorithm."""

    def _weight(self, sources: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """[channels out, channels in, height, width], of this group and tap."""
        weight = sources[self.weight]
        if weight.dim() == 2:  # of a linear layer
            weight = weight[:, :, None, None]
        if self.tap is not None:
            weight = weight[:, :, self.tap[0], self.tap[1]].t()[:, :, None, None]
        return weight[self._group]

    @property
    def _group(self) -> slice:
        return slice(self.first, None if self.count is None else self.first + self.count)

    def channels(self, sources: tuple[torch.Tensor, ...]) -> int:
        """How many channels these filters compute."""
        return self._weight(sources).shape[0]

    def matrix(self, sources: tuple[torch.Tensor, ...], some: slice) -> torch.Tensor:
        """[taps * channels in, channels out], or [taps, channels] if it is depthwise.

        `some` of the channels out, in float64. Transformed filters have 36 taps.
        """
        weight = self._weight(sources)[some].double()
        if self.norm is not None:
            weight = weight * self.norm.scale(sources)[self._group][some, None, None, None]
        if self.depthwise:
            return weight[:, 0].flatten(1).t()
        if self.winograd:
            return winograd.transformed(weight).flatten(0, 1)
        return weight.permute(2, 3, 1, 0).flatten(0, 2)


@dataclass(frozen=True)
class Channels:
    """One number per channel: the scale or the shift of a norm, a bias."""

    bias: int | None = None
    norm: Norm | None = None
    scale: bool = False
    first: int = 0
    count: int | None = None

    def values(self, sources: tuple[torch.Tensor, ...]) -> torch.Tensor:
        bias = None if self.bias is None else sources[self.bias]
        if self.norm is None:
            assert bias is not None
            values = bias
        elif self.scale:
            values = self.norm.scale(sources)
        else:
            values = self.norm.shift(sources, bias)
        return values if self.count is None else values[self.first : self.first + self.count]


_AT_ONCE = 1 << 18
"""Numbers of filters that are packed together."""


@dataclass(frozen=True)
class Piece:
    """Where a part lies in the packed tensor."""

    offset: int
    size: int
    part: Filters | Channels


@dataclass(frozen=True)
class ImageWeights:
    """The layout of the packed tensor; `columns` is the width of a panel."""

    pieces: tuple[Piece, ...]
    size: int
    columns: int

    @property
    def shape(self) -> tuple[int]:
        return (self.size,)

    def pack(self, *sources: torch.Tensor) -> torch.Tensor:
        """All pieces, made of the parameters; what is between them is zero."""
        packed = huge_pages.empty((self.size,), torch.float32).zero_()
        tensors = tuple(source.detach() for source in sources)
        for piece in self.pieces:
            to = packed[piece.offset : piece.offset + piece.size]
            if isinstance(piece.part, Channels):
                values = piece.part.values(tensors)
                to[: values.numel()] = values
            elif piece.part.depthwise:
                matrix = piece.part.matrix(tensors, slice(None))
                to.view(matrix.shape[0], -1)[:, : matrix.shape[1]] = matrix
            else:
                self._pack_panels(to, piece.part, tensors)
        return packed

    def _pack_panels(
        self, to: torch.Tensor, filters: Filters, sources: tuple[torch.Tensor, ...]
    ) -> None:
        # Some panels at a time: transformed filters in float64 are eight times as large as the
        # parameter, and what is allocated for them at once stays with the process.
        channels = filters.channels(sources)
        panels = to.view(-(-channels // self.columns), -1, self.columns)
        together = max(1, _AT_ONCE // panels[0].numel())
        for first in range(0, len(panels), together):
            here = panels[first : first + together]
            begin = first * self.columns
            matrix = filters.matrix(sources, slice(begin, begin + len(here) * self.columns))
            for panel, columns in zip(here, matrix.split(self.columns, dim=1), strict=True):
                panel[:, : columns.shape[1]] = columns


def panel_floats(rows: int, channels: int, columns: int) -> int:
    """The size of filters in panels, of so many rows each."""
    return -(-channels // columns) * columns * rows
