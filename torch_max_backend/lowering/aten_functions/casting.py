"""Copies and casts, to another dtype or device. Sorted by ATen name.

Inside a graph nothing is mutated, so a copy needs no memory of its own; the runtime ensures that
results do not share memory with arguments.
"""

from __future__ import annotations

import torch

from torch_max_backend.lowering import promotion, shapes
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor

aten = torch.ops.aten
prims = torch.ops.prims


# _to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor
@map_to(aten._to_copy, needs_call=True)
def aten__to_copy(
    self: MaxTensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
    call: CallInfo,
) -> MaxTensor:
    result = promotion.cast(self, call.output.dtype)
    return result if result.device == call.device else result.to(call.device)


# alias(Tensor(a) self) -> Tensor(a)
# clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
# conj_physical(Tensor self) -> Tensor
# detach(Tensor(a) self) -> Tensor(a)
# lift_fresh(Tensor(a) self) -> Tensor(a)
# lift_fresh_copy(Tensor self) -> Tensor
@map_to(aten.alias)
@map_to(aten.clone)
@map_to(aten.conj_physical)  # MAX has no complex dtypes: the tensor is real
@map_to(aten.detach)
@map_to(aten.lift_fresh)
@map_to(aten.lift_fresh_copy)
def aten_clone(self: MaxTensor, *, memory_format: torch.memory_format | None = None) -> MaxTensor:
    return self


# prims::convert_element_type(Tensor a, ScalarType dtype) -> Tensor
@map_to(prims.convert_element_type)
def prims_convert_element_type(a: MaxTensor, dtype: torch.dtype) -> MaxTensor:
    # AOTAutograd emits it where a Python float that changes (a learning rate) became a tensor.
    return promotion.cast(a, dtype)


# copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor
@map_to(aten.copy.default)
def aten_copy(self: MaxTensor, src: MaxTensor, non_blocking: bool = False) -> MaxTensor:
    values = promotion.cast(src, promotion.dtype_of(self))
    values = values if values.device == self.device else values.to(self.device)
    return shapes.broadcast_to(values, shapes.sizes(self))
