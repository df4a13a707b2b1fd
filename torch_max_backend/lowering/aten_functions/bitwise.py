"""Bitwise ops on ints, logical ops on bools. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.dtype import DType
from max.graph import ops

from torch_max_backend.lowering import mojo_kernels, promotion
from torch_max_backend.lowering.registry import map_all, map_to
from torch_max_backend.lowering.types import MaxTensor

aten = torch.ops.aten


_AND = mojo_kernels.pointwise("tmb_bitwise_and")
_LEFT_SHIFT = mojo_kernels.pointwise("tmb_bitwise_left_shift")
_OR = mojo_kernels.pointwise("tmb_bitwise_or")
_RIGHT_SHIFT = mojo_kernels.pointwise("tmb_bitwise_right_shift")
_XOR = mojo_kernels.pointwise("tmb_bitwise_xor")

map_all(
    {
        # __lshift__.Tensor(Tensor self, Tensor other) -> Tensor
        # __lshift__.Scalar(Tensor self, Scalar other) -> Tensor
        aten.__lshift__: promotion.binary(_LEFT_SHIFT),
        # __rshift__.Tensor(Tensor self, Tensor other) -> Tensor
        # __rshift__.Scalar(Tensor self, Scalar other) -> Tensor
        aten.__rshift__: promotion.binary(_RIGHT_SHIFT),
        # bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor
        # bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor
        # bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
        aten.bitwise_and: promotion.binary(_AND, bools=ops.logical_and),
        # bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor
        # bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor
        # bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
        aten.bitwise_left_shift: promotion.binary(_LEFT_SHIFT),
        # bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor
        # bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor
        # bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
        aten.bitwise_or: promotion.binary(_OR, bools=ops.logical_or),
        # bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor
        # bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor
        # bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
        aten.bitwise_right_shift: promotion.binary(_RIGHT_SHIFT),
        # bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor
        # bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor
        # bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
        aten.bitwise_xor: promotion.binary(_XOR, bools=ops.logical_xor),
    }
)


# bitwise_not(Tensor self) -> Tensor
@map_to(aten.bitwise_not)
def aten_bitwise_not(self: MaxTensor) -> MaxTensor:
    if self.dtype == DType.bool:
        return ops.logical_not(self)
    return mojo_kernels.elementwise("tmb_bitwise_not", self)
