"""Logic of tensors: whatever is not zero is true. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend.lowering.promotion import cast
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor

aten = torch.ops.aten


# logical_and(Tensor self, Tensor other) -> Tensor
@map_to(aten.logical_and)
def aten_logical_and(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return ops.logical_and(cast(self, torch.bool), cast(other, torch.bool))


# logical_not(Tensor self) -> Tensor
@map_to(aten.logical_not)
def aten_logical_not(self: MaxTensor) -> MaxTensor:
    return ops.logical_not(cast(self, torch.bool))


# logical_or(Tensor self, Tensor other) -> Tensor
@map_to(aten.logical_or)
def aten_logical_or(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return ops.logical_or(cast(self, torch.bool), cast(other, torch.bool))


# logical_xor(Tensor self, Tensor other) -> Tensor
@map_to(aten.logical_xor)
def aten_logical_xor(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return ops.logical_xor(cast(self, torch.bool), cast(other, torch.bool))
