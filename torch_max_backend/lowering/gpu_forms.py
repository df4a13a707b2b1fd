"""What computes the results of our CPU kernels on a GPU.

A lowering calls a kernel by its name and does not ask for the device. `mojo_kernels.call` does: on
a GPU it looks here first. Products and norms are MAX's own ops, which are made for GPUs.
Convolutions, and products in dtypes that MAX's matmul does not take, are kernels that compute one
number of the result in each thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from max.dtype import DType
from max.graph import StaticDim, TensorValue, ops

from torch_max_backend.lowering import constants, devices, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.reduction import average, squared_deviations, total
from torch_max_backend.lowering.devices import max_dtype
from torch_max_backend.lowering.mojo_kernels import GpuForm, Outputs, Parameters

_MATMUL = {torch.float32, *promotion.HALF}
"""The dtypes that MAX's matmul takes on a GPU."""
_BFLOAT16_DOT = ("gfx950", "gfx11", "gfx12")
"""The architectures of AMD that multiply pairs of bfloat16 numbers (`v_dot2_f32_bf16`)."""


def _form(kernel: str) -> Callable[[GpuForm], GpuForm]:
    def register(form: GpuForm) -> GpuForm:
        mojo_kernels.GPU_FORMS[kernel] = form
        return form

    return register


@_form("tmb_matmul")
def _matmul(
    inputs: Sequence[TensorValue], outputs: Outputs, parameters: Parameters
) -> list[TensorValue]:
    left, right = inputs
    ((dtype, shape),) = outputs
    transposed = bool(parameters["transposed"])
    if shapes.size(left.shape[-1]) == 0:  # MAX's product of nothing is whatever was in memory
        return [constants.full(shape, 0, dtype, left.device)]
    # The left operand was widened for a kernel that accumulates in its dtype; MAX's accumulates
    # 16-bit floats in float32.
    left = ops.cast(left, right.dtype)
    *batch, m, n = shape
    if batch:
        left, right = (shapes.broadcast_to(x, [*batch, *x.shape[-2:]]) for x in (left, right))
    if promotion.dtype_of(right) in _MATMUL:
        if right.dtype == DType.bfloat16 and not _multiplies_bfloat16(left):
            left, right = (ops.cast(x, DType.float32) for x in (left, right))
        right = ops.transpose(right, -1, -2) if transposed else right
        return [ops.cast(_stored(ops.matmul(left, right)), max_dtype(dtype))]
    matrices = [x if batch else x.reshape([1, *x.shape]) for x in (left, right)]
    wanted = [(promotion.dtype_of(right), [*(batch or [1]), m, n])]
    how = {"transposed": transposed}
    [result] = mojo_kernels.call("tmb_direct_matmul", matrices, wanted, how)
    return [ops.cast(result.reshape(list(shape)), max_dtype(dtype))]


def _multiplies_bfloat16(left: TensorValue) -> bool:
    """Whether MAX's matmul of bfloat16 compiles for the GPU of `left`.

    For AMD's it asks for an instruction that not all of them have. For an H100 it does not compile
    if rows are no multiple of 16 bytes and the right operand is a transposed one, which a lowering
    does not see: MAX puts the two together (docs/max_notes.md).
    """
    arch = devices.architecture(left.device)
    if arch.startswith("sm_90"):
        size = left.shape[-1]
        return not isinstance(size, StaticDim) or int(size) % 8 == 0
    return not arch.startswith("gfx") or arch.startswith(_BFLOAT16_DOT)


def _stored(product: TensorValue) -> TensorValue:
    """`product`, written to memory before anything reads it, by a kernel that copies.

    MAX fuses what follows into its matmul, and through a reshape computes it with wrong elements
    (docs/max_notes.md, "Fusion").
    """
    count = shapes.numel(product.shape)
    outputs = [(promotion.dtype_of(product), [count, 1, 1])]
    lines = product.reshape([1, count, 1])  # filters of one input and one tap: turning is copying
    [copy] = mojo_kernels.call("tmb_turned_filters", [lines], outputs)
    return copy.reshape(product.shape)


@_form("tmb_convolution")
def _convolution(
    inputs: Sequence[TensorValue], outputs: Outputs, parameters: Parameters
) -> list[TensorValue]:
    return mojo_kernels.call("tmb_direct_convolution", inputs, outputs)


@_form("tmb_filter_gradient")
def _filter_gradient(
    inputs: Sequence[TensorValue], outputs: Outputs, parameters: Parameters
) -> list[TensorValue]:
    return mojo_kernels.call("tmb_direct_filter_gradient", inputs, outputs)


@_form("tmb_layer_norm")
def _layer_norm(
    inputs: Sequence[TensorValue], outputs: Outputs, parameters: Parameters
) -> list[TensorValue]:
    x, gamma, beta, eps = inputs
    dtype = promotion.dtype_of(x)
    values = promotion.opmath(x)
    squares, mean = squared_deviations(values, [1])
    length = constants.scalar(shapes.size(x.shape[1]), promotion.dtype_of(values), x.device)
    rstd = ops.rsqrt(mojo_kernels.divide(squares, length) + eps)
    output = (values - mean) * rstd * gamma + beta
    rows = [x.shape[0]]
    return [promotion.cast(output, dtype), mean.reshape(rows), rstd.reshape(rows)]


@_form("tmb_layer_norm_gradient")
def _layer_norm_gradient(
    inputs: Sequence[TensorValue], outputs: Outputs, parameters: Parameters
) -> list[TensorValue]:
    grad, x, mean, rstd, gamma = inputs
    column = [shapes.size(x.shape[0]), 1]
    scale = rstd.reshape(column)
    normal = (x - mean.reshape(column)) * scale
    given = grad * gamma
    slope, shift = (average(values, [1], keepdim=True) for values in (given * normal, given))
    return [
        (given - shift - normal * slope) * scale,
        total(grad * normal, [0], keepdim=False),
        total(grad, [0], keepdim=False),
    ]
