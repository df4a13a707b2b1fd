"""A complex tensor as two real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

REAL_OF_COMPLEX = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


@dataclass(frozen=True)
class Pair:
    """The real and the imaginary part, of one shape and dtype."""

    re: torch.Tensor
    im: torch.Tensor

    def each(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Pair:
        """`function` of both parts."""
        return Pair(function(self.re), function(self.im))


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a complex dtype's parts; other dtypes are their own."""
    return REAL_OF_COMPLEX.get(dtype, dtype)
