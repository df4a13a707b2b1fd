"""Matrix products. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend import constants, promotion, shapes
from torch_max_backend.registry import map_to
from torch_max_backend.types import MaxTensor, Scalar

aten = torch.ops.aten


def _batched(left: MaxTensor, right: MaxTensor) -> MaxTensor:
    # MAX adds up batched 16-bit products in 16 bits, unlike those of two matrices.
    dtype = promotion.dtype_of(left)
    return promotion.cast(promotion.opmath(left) @ promotion.opmath(right), dtype)


def _scaled(tensor: MaxTensor, factor: Scalar) -> MaxTensor:
    if factor == 1:
        return tensor
    return tensor * constants.scalar(factor, promotion.dtype_of(tensor), tensor.device)


def _add(self: MaxTensor, product: MaxTensor, beta: Scalar, alpha: Scalar) -> MaxTensor:
    product = _scaled(product, alpha)
    if beta == 0:  # PyTorch does not look at self then, not even at its NaNs
        return product
    # Behind the product, so that it becomes the matmul's epilogue.
    return product + _scaled(promotion.cast(self, promotion.dtype_of(product)), beta)


# addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
@map_to(aten.addbmm)
def aten_addbmm(
    self: MaxTensor, batch1: MaxTensor, batch2: MaxTensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> MaxTensor:
    # The sum of products is one product: batches lie side by side along the inner dimension.
    b, n, k = batch1.shape
    left = ops.permute(batch1, [1, 0, 2]).reshape([n, b * k])
    right = batch2.reshape([b * k, batch2.shape[2]])
    return _add(self, left @ right, beta, alpha)


# addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
@map_to(aten.addmm.default)
def aten_addmm(
    self: MaxTensor, mat1: MaxTensor, mat2: MaxTensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> MaxTensor:
    return _add(self, mat1 @ mat2, beta, alpha)


# addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor
@map_to(aten.addmv)
def aten_addmv(
    self: MaxTensor, mat: MaxTensor, vec: MaxTensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> MaxTensor:
    return _add(self, aten_mv(mat, vec), beta, alpha)


# baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
@map_to(aten.baddbmm.default)
def aten_baddbmm(
    self: MaxTensor, batch1: MaxTensor, batch2: MaxTensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> MaxTensor:
    product = promotion.opmath(batch1) @ promotion.opmath(batch2)
    return promotion.cast(_add(self, product, beta, alpha), promotion.dtype_of(batch1))


# bmm(Tensor self, Tensor mat2) -> Tensor
@map_to(aten.bmm.default)
def aten_bmm(self: MaxTensor, mat2: MaxTensor) -> MaxTensor:
    return _batched(self, mat2)


# dot(Tensor self, Tensor tensor) -> Tensor
@map_to(aten.dot)
def aten_dot(self: MaxTensor, tensor: MaxTensor) -> MaxTensor:
    if shapes.size(self.shape[0]) == 0:
        return constants.full([], 0, promotion.dtype_of(self), self.device)
    return self @ tensor


# linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor
@map_to(aten.linear)
def aten_linear(input: MaxTensor, weight: MaxTensor, bias: MaxTensor | None = None) -> MaxTensor:
    # One product of two matrices, whatever the rank of the input.
    *leading, features = shapes.sizes(input)
    across = weight if len(weight.shape) == 1 else ops.permute(weight, [1, 0])
    product = input.reshape([shapes.numel(leading), features]) @ across
    if bias is not None:
        product = product + bias
    return product.reshape([*leading, *weight.shape[:-1]])


# matmul(Tensor self, Tensor other) -> Tensor
@map_to(aten.matmul)
def aten_matmul(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return _batched(self, other) if max(len(self.shape), len(other.shape)) > 2 else self @ other


# mm(Tensor self, Tensor mat2) -> Tensor
@map_to(aten.mm.default)
def aten_mm(self: MaxTensor, mat2: MaxTensor) -> MaxTensor:
    return self @ mat2


# mv(Tensor self, Tensor vec) -> Tensor
@map_to(aten.mv)
def aten_mv(self: MaxTensor, vec: MaxTensor) -> MaxTensor:
    if shapes.size(vec.shape[0]) == 0:  # MAX's product of no columns is not 0, but undefined
        return constants.full([self.shape[0]], 0, promotion.dtype_of(self), self.device)
    return self @ vec


# vdot(Tensor self, Tensor other) -> Tensor
@map_to(aten.vdot)
def aten_vdot(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return self @ other  # MAX has no complex numbers, so nothing to conjugate
