"""Matrix products. Sorted by ATen name."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor, Scalar

aten = torch.ops.aten


def product(left: MaxTensor, right: MaxTensor, *, transposed: bool = False) -> MaxTensor:
    """`left @ right` of matrices or broadcast batches of them; accumulates 16-bit floats in float32.

    `transposed`: `left @ right.mT` instead.
    """
    # Not MAX's matmul, which takes as long to compile as everything else in a small Module.
    dtype = promotion.dtype_of(left)
    left = promotion.opmath(left)  # the kernel widens the right operand as it reads it
    m = shapes.sizes(left)[-2]
    n = shapes.sizes(right)[-2 if transposed else -1]
    batch = shapes.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    if batch:
        left, right = _as_batch(left, batch), _as_batch(right, batch)
    rows = [shapes.numel(batch)] if batch else []
    outputs = [(promotion.dtype_of(left), [*rows, m, n])]
    result = mojo_kernels.call("tmb_matmul", [left, right], outputs, {"transposed": transposed})[0]
    if len(batch) > 1:
        result = result.reshape([*batch, m, n])
    return promotion.cast(result, dtype)


def _as_batch(matrices: MaxTensor, batch: Sequence[shapes.Size]) -> MaxTensor:
    """[batch, rows, columns] with the batch dims merged, or of size 1 for a single matrix."""
    *own, rows, columns = shapes.sizes(matrices)
    if all(size == 1 for size in own):
        return matrices.reshape([1, rows, columns])
    matrices = shapes.broadcast_to(matrices, [*batch, rows, columns])
    return matrices if len(batch) == 1 else matrices.reshape([shapes.numel(batch), rows, columns])


def _scaled(tensor: MaxTensor, factor: Scalar) -> MaxTensor:
    if factor == 1:
        return tensor
    return tensor * constants.scalar(factor, promotion.dtype_of(tensor), tensor.device)


def _add(self: MaxTensor, product: MaxTensor, beta: Scalar, alpha: Scalar) -> MaxTensor:
    product = _scaled(product, alpha)
    if beta == 0:  # PyTorch then ignores self, even its NaNs
        return product
    # After the product, so that it becomes the matmul's epilogue.
    return product + _scaled(promotion.cast(self, promotion.dtype_of(product)), beta)


# addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
@map_to(aten.addbmm)
def aten_addbmm(
    self: MaxTensor, batch1: MaxTensor, batch2: MaxTensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> MaxTensor:
    # The sum of the products is one product, with the batches concatenated along the inner dim.
    b, n, k = batch1.shape
    left = ops.permute(batch1, [1, 0, 2]).reshape([n, b * k])
    right = batch2.reshape([b * k, batch2.shape[2]])
    return _add(self, product(left, right), beta, alpha)


# addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
@map_to(aten.addmm.default)
def aten_addmm(
    self: MaxTensor, mat1: MaxTensor, mat2: MaxTensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> MaxTensor:
    return _add(self, product(mat1, mat2), beta, alpha)


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
    wide = product(promotion.opmath(batch1), promotion.opmath(batch2))
    return promotion.cast(_add(self, wide, beta, alpha), promotion.dtype_of(batch1))


# bmm(Tensor self, Tensor mat2) -> Tensor
@map_to(aten.bmm.default)
def aten_bmm(self: MaxTensor, mat2: MaxTensor) -> MaxTensor:
    return product(self, mat2)


# dot(Tensor self, Tensor tensor) -> Tensor
@map_to(aten.dot)
def aten_dot(self: MaxTensor, tensor: MaxTensor) -> MaxTensor:
    return aten_mv(self.reshape([1, self.shape[0]]), tensor).reshape([])


# linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor
@map_to(aten.linear)
def aten_linear(input: MaxTensor, weight: MaxTensor, bias: MaxTensor | None = None) -> MaxTensor:
    # One product of two matrices, whatever the rank of the input.
    *leading, features = shapes.sizes(input)
    rows = input.reshape([shapes.numel(leading), features])
    lines = weight.reshape([1, features]) if len(weight.shape) == 1 else weight
    result = product(rows, lines, transposed=True)
    if bias is not None:
        result = result + bias
    return result.reshape([*leading, *weight.shape[:-1]])


# matmul(Tensor self, Tensor other) -> Tensor
@map_to(aten.matmul)
def aten_matmul(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    # A vector is a row on the left and a column on the right; its extra dim is removed again.
    left = self.reshape([1, self.shape[0]]) if len(self.shape) == 1 else self
    right = other.reshape([other.shape[0], 1]) if len(other.shape) == 1 else other
    result = product(left, right)
    shape = list(result.shape)
    if len(other.shape) == 1:
        del shape[-1]
    if len(self.shape) == 1:
        del shape[-1 if len(other.shape) == 1 else -2]
    return result if len(shape) == len(result.shape) else result.reshape(shape)


# mm(Tensor self, Tensor mat2) -> Tensor
@map_to(aten.mm.default)
def aten_mm(self: MaxTensor, mat2: MaxTensor) -> MaxTensor:
    return product(self, mat2)


# mv(Tensor self, Tensor vec) -> Tensor
@map_to(aten.mv)
def aten_mv(self: MaxTensor, vec: MaxTensor) -> MaxTensor:
    # With the vector on the left, the kernel reads whole rows of the matrix.
    row = vec.reshape([1, vec.shape[0]])
    return product(row, self, transposed=True).reshape([self.shape[0]])


# vdot(Tensor self, Tensor other) -> Tensor
@map_to(aten.vdot)
def aten_vdot(self: MaxTensor, other: MaxTensor) -> MaxTensor:
    return aten_dot(self, other)  # MAX has no complex dtypes: there is nothing to conjugate
