"""Logical ops on tensors of any dtype: every value but zero is true. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend.lowering.promotion import Lowering, cast
from torch_max_backend.lowering.registry import map_all, map_to
from torch_max_backend.lowering.types import MaxTensor

aten = torch.ops.aten


def _of_bools(function: Lowering) -> Lowering:
    def lowering(self: MaxTensor, other: MaxTensor) -> MaxTensor:
        return function(cast(self, torch.bool), cast(other, torch.bool))

    return lowering


map_all(
    {
        aten.logical_and: _of_bools(
            ops.logical_and
        ),  # logical_and(Tensor self, Tensor other) -> Tensor
        aten.logical_or: _of_bools(
            ops.logical_or
        ),  # logical_or(Tensor self, Tensor other) -> Tensor
        aten.logical_xor: _of_bools(
            ops.logical_xor
        ),  # logical_xor(Tensor self, Tensor other) -> Tensor
    }
)


# logical_not(Tensor self) -> Tensor
@map_to(aten.logical_not)
def aten_logical_not(self: MaxTensor) -> MaxTensor:
    return ops.logical_not(cast(self, torch.bool))
