"""Gradients of the losses of classifiers. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.reduction import total
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor, Size
from torch_max_backend.program.own_ops import cross_entropy_backward

aten = torch.ops.aten

_MEAN = 1
"""PyTorch's number of the reduction."""


# _log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor
@map_to(aten._log_softmax_backward_data)
def aten__log_softmax_backward_data(
    grad_output: MaxTensor, output: MaxTensor, dim: int, input_dtype: torch.dtype
) -> MaxTensor:
    grad, values = promotion.opmath(grad_output), promotion.opmath(output)
    dims = [shapes.dim(dim, len(output.shape))] if output.shape else []
    probabilities = mojo_kernels.elementwise("tmb_exp", values)
    result = grad - probabilities * total(grad, dims, keepdim=True)
    return promotion.cast(result, input_dtype)


# torch_max_backend::cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor
@map_to(cross_entropy_backward)
def aten_cross_entropy_backward(
    grad_output: MaxTensor,
    self: MaxTensor,
    target: MaxTensor,
    weight: MaxTensor | None,
    reduction: int,
    ignore_index: Size,
    total_weight: MaxTensor,
) -> MaxTensor:
    """The gradient of the logits whose log softmax is `self`, [rows, classes]."""
    grad = _of_rows(grad_output, target, weight, reduction, ignore_index, total_weight)
    outputs = [(promotion.dtype_of(self), self.shape)]
    inputs = [self, grad, target]
    return mojo_kernels.call("tmb_nll_gradient", inputs, outputs, {"of_logits": True})[0]


# nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index, Tensor total_weight) -> Tensor
@map_to(aten.nll_loss_backward.default)
def aten_nll_loss_backward(
    grad_output: MaxTensor,
    self: MaxTensor,
    target: MaxTensor,
    weight: MaxTensor | None,
    reduction: int,
    ignore_index: Size,
    total_weight: MaxTensor,
) -> MaxTensor:
    classes = shapes.size(self.shape[-1])
    rows = [shapes.size(self.shape[0]) if len(self.shape) == 2 else 1, classes]
    target = target.reshape(rows[:1])
    grad = _of_rows(grad_output, target, weight, reduction, ignore_index, total_weight)
    outputs = [(promotion.dtype_of(self), rows)]
    inputs = [self.reshape(rows), grad, target]
    result = mojo_kernels.call("tmb_nll_gradient", inputs, outputs, {"of_logits": False})[0]
    return result.reshape(self.shape)


def _of_rows(
    grad_output: MaxTensor,
    target: MaxTensor,
    weight: MaxTensor | None,
    reduction: int,
    ignore_index: Size,
    total_weight: MaxTensor,
) -> MaxTensor:
    """The gradient of the logarithm of each row's class; 0 where the row is ignored."""
    dtype = promotion.dtype_of(grad_output)
    zero = constants.scalar(0, dtype, target.device)
    ignored = ops.equal(target, constants.scalar(ignore_index, torch.int64, target.device))
    grad = -grad_output
    if reduction == _MEAN:
        grad = mojo_kernels.divide(grad, promotion.cast(total_weight, dtype))
    grad = shapes.broadcast_to(grad.reshape([1]) if not grad.shape else grad, target.shape)
    if weight is not None:
        nowhere = constants.scalar(0, torch.int64, target.device)
        grad = grad * ops.gather(weight, ops.where(ignored, nowhere, target), axis=0)
    return ops.where(ignored, zero, grad)
