"""QR factorization by Householder reflections, and products with Q. Sorted by ATen name."""

from __future__ import annotations

import torch

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.creation import aten_triu
from torch_max_backend.lowering.aten_functions.linalg import empty_output, stacked, transposed
from torch_max_backend.lowering.aten_functions.shape import reshape
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Size

aten = torch.ops.aten


def _geqrf(x: MaxTensor) -> tuple[MaxTensor, MaxTensor]:
    """R with the reflectors below it, and tau, of [batch, rows, columns]."""
    batch, rows, columns = shapes.static_sizes(x, "a factorization")
    dtype = promotion.dtype_of(x)
    outputs = [(dtype, [batch, rows, columns]), (dtype, [batch, min(rows, columns)])]
    factors, tau = mojo_kernels.call("tmb_geqrf", [x], outputs)
    return factors, tau


def _apply(factors: MaxTensor, tau: MaxTensor, c: MaxTensor, *, transpose: bool) -> MaxTensor:
    """Q C, or Q' C."""
    outputs = [(promotion.dtype_of(c), shapes.sizes(c))]
    inputs = [factors, tau, c]
    return mojo_kernels.call("tmb_apply_reflectors", inputs, outputs, {"transpose": transpose})[0]


def _eye(count: Size, rows: int, columns: int, like: MaxTensor) -> MaxTensor:
    eye = constants.constant(torch.eye(rows, columns), promotion.dtype_of(like), like.device)
    return shapes.broadcast_to(reshape(eye, [1, rows, columns]), [count, rows, columns])


# geqrf(Tensor self) -> (Tensor a, Tensor tau)
@map_to(aten.geqrf, needs_call=True)
def aten_geqrf(self: MaxTensor, *, call: CallInfo) -> tuple[MaxTensor, MaxTensor]:
    first, second = call.outputs
    assert first is not None and second is not None
    if 0 in first.shape:
        return self, empty_output(second, call)
    factors, tau = _geqrf(stacked(self))
    return reshape(factors, first.shape), reshape(tau, second.shape)


# linalg_householder_product(Tensor input, Tensor tau) -> Tensor
@map_to(aten.linalg_householder_product, needs_call=True)
def aten_linalg_householder_product(
    input: MaxTensor, tau: MaxTensor, *, call: CallInfo
) -> MaxTensor:
    if 0 in call.output.shape:
        return empty_output(call.output, call)
    factors = stacked(input)
    batch, rows, columns = shapes.static_sizes(factors, "a product of reflectors")
    eye = _eye(batch, rows, columns, factors)
    if 0 in shapes.sizes(tau):
        return reshape(eye, call.output.shape)
    scales = reshape(tau, [batch, tau.shape[-1]])
    return reshape(_apply(factors, scales, eye, transpose=False), call.output.shape)


# linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)
@map_to(aten.linalg_qr, needs_call=True)
def aten_linalg_qr(
    A: MaxTensor, mode: str = "reduced", *, call: CallInfo
) -> tuple[MaxTensor, MaxTensor]:
    q, r = call.outputs
    assert q is not None and r is not None
    if 0 in shapes.sizes(A):
        # Without elements to reflect, Q is the identity, if it has elements at all.
        if 0 in q.shape:
            return empty_output(q, call), empty_output(r, call)
        rows, columns = (shapes.static_size(size, "QR") for size in q.shape[-2:])
        eye = _eye(shapes.numel(q.shape[:-2]), rows, columns, A)
        return reshape(eye, q.shape), empty_output(r, call)
    factors, tau = _geqrf(stacked(A))
    height = shapes.static_size(r.shape[-2], "QR")
    upper = reshape(aten_triu(factors, 0)[:, :height, :], r.shape)
    if 0 in q.shape:
        return empty_output(q, call), upper
    rows, columns = (shapes.static_size(size, "QR") for size in q.shape[-2:])
    eye = _eye(factors.shape[0], rows, columns, factors)
    return reshape(_apply(factors, tau, eye, transpose=False), q.shape), upper


# ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor
@map_to(aten.ormqr, needs_call=True)
def aten_ormqr(
    self: MaxTensor,
    input2: MaxTensor,
    input3: MaxTensor,
    left: bool = True,
    transpose: bool = False,
    *,
    call: CallInfo,
) -> MaxTensor:
    if 0 in call.output.shape:
        return empty_output(call.output, call)
    if 0 in shapes.sizes(input2):
        return input3
    factors = stacked(self)
    scales = reshape(input2, [factors.shape[0], input2.shape[-1]])
    # C Q is (Q' C')'.
    c = stacked(input3 if left else transposed(input3))
    product = _apply(factors, scales, c, transpose=transpose == left)
    return reshape(product if left else transposed(product), call.output.shape)
