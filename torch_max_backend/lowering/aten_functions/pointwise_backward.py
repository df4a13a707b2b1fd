"""Gradients of activations: one kernel each instead of many decomposed ops. Sorted by ATen name."""

from __future__ import annotations

import torch

from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.lowering.promotion import elementwise
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor

aten = torch.ops.aten


# gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor
@map_to(aten.gelu_backward.default)
@elementwise("grad_output", "self", wide=True)
def aten_gelu_backward(
    grad_output: MaxTensor, self: MaxTensor, *, approximate: str = "none"
) -> MaxTensor:
    kernel = "tmb_gelu_tanh_backward" if approximate == "tanh" else "tmb_gelu_backward"
    return mojo_kernels.elementwise(kernel, grad_output, self)


# silu_backward(Tensor grad_output, Tensor self) -> Tensor
@map_to(aten.silu_backward.default)
@elementwise("grad_output", "self", wide=True)
def aten_silu_backward(grad_output: MaxTensor, self: MaxTensor) -> MaxTensor:
    return mojo_kernels.elementwise("tmb_silu_backward", grad_output, self)
