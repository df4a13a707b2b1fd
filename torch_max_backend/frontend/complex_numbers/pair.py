"""A complex tensor as two real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Pair:
    """The real and the imaginary part, of the same shape and dtype."""

    re: torch.Tensor
    im: torch.Tensor

    def each(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Pair:
        """`function` of both parts."""
        return Pair(function(self.re), function(self.im))
