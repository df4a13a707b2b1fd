"""Activation functions. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.graph import Dim, ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion
from torch_max_backend.lowering.aten_functions.selection import aten_clamp
from torch_max_backend.lowering.promotion import elementwise
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor, Scalar

aten = torch.ops.aten


def _number(value: Scalar | Dim, like: MaxTensor) -> MaxTensor:
    return constants.scalar(value, promotion.dtype_of(like), like.device)


# elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor
@map_to(aten.elu)
@elementwise("self", wide=True)
def aten_elu(
    self: MaxTensor, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1
) -> MaxTensor:
    falling = mojo_kernels.elementwise("tmb_expm1", ops.mul(self, _number(input_scale, self)))
    falling = ops.mul(falling, _number(alpha * scale, self))
    rising = ops.mul(self, _number(scale, self))
    return ops.where(ops.greater(_number(0, self), self), falling, rising)


# gelu(Tensor self, *, str approximate="none") -> Tensor
@map_to(aten.gelu)
@elementwise("self", wide=True)
def aten_gelu(self: MaxTensor, *, approximate: str = "none") -> MaxTensor:
    kernel = "tmb_gelu_tanh" if approximate == "tanh" else "tmb_gelu"
    return mojo_kernels.elementwise(kernel, self)


# hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor
@map_to(aten.hardtanh)
def aten_hardtanh(self: MaxTensor, min_val: Scalar = -1, max_val: Scalar = 1) -> MaxTensor:
    # The bounds have the tensor's dtype: hardtanh of ints gives ints.
    bounds = [_number(value, self) for value in (min_val, max_val)]
    return aten_clamp(self, *bounds)


# leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor
@map_to(aten.leaky_relu)
@elementwise("self", wide=True)
def aten_leaky_relu(self: MaxTensor, negative_slope: Scalar = 0.01) -> MaxTensor:
    positive = ops.greater(self, _number(0, self))
    return ops.where(positive, self, ops.mul(self, _number(negative_slope, self)))


# relu(Tensor self) -> Tensor
@map_to(aten.relu)
def aten_relu(self: MaxTensor) -> MaxTensor:
    return mojo_kernels.elementwise("tmb_maximum", self, _number(0, self))


# silu(Tensor self) -> Tensor
@map_to(aten.silu)
@elementwise("self", wide=True)
def aten_silu(self: MaxTensor) -> MaxTensor:
    return mojo_kernels.elementwise("tmb_silu", self)
