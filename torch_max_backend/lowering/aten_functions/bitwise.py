"""Bits of ints, logic of bools. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.dtype import DType
from max.graph import ops

from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.lowering.promotion import elementwise
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor

aten = torch.ops.aten


# bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor
# bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor
# bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
@map_to(aten.bitwise_and)
@elementwise("self", "other")
def aten_bitwise_and(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    if self.dtype == DType.bool:
        return ops.logical_and(self, other)
    return mojo_kernels.elementwise("tmb_bitwise_and", self, other)


# bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor
# bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor
# bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
# __lshift__.Tensor(Tensor self, Tensor other) -> Tensor
# __lshift__.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.__lshift__)
@map_to(aten.bitwise_left_shift)
@elementwise("self", "other")
def aten_bitwise_left_shift(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return mojo_kernels.elementwise("tmb_bitwise_left_shift", self, other)


# bitwise_not(Tensor self) -> Tensor
@map_to(aten.bitwise_not)
def aten_bitwise_not(self: MaxTensor) -> MaxTensor:
    if self.dtype == DType.bool:
        return ops.logical_not(self)
    return mojo_kernels.elementwise("tmb_bitwise_not", self)


# bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor
# bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor
# bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
@map_to(aten.bitwise_or)
@elementwise("self", "other")
def aten_bitwise_or(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    if self.dtype == DType.bool:
        return ops.logical_or(self, other)
    return mojo_kernels.elementwise("tmb_bitwise_or", self, other)


# bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor
# bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor
# bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
# __rshift__.Tensor(Tensor self, Tensor other) -> Tensor
# __rshift__.Scalar(Tensor self, Scalar other) -> Tensor
@map_to(aten.__rshift__)
@map_to(aten.bitwise_right_shift)
@elementwise("self", "other")
def aten_bitwise_right_shift(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return mojo_kernels.elementwise("tmb_bitwise_right_shift", self, other)


# bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor
# bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor
# bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
@map_to(aten.bitwise_xor)
@elementwise("self", "other")
def aten_bitwise_xor(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    if self.dtype == DType.bool:
        return ops.logical_xor(self, other)
    return mojo_kernels.elementwise("tmb_bitwise_xor", self, other)
