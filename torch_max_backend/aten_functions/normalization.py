"""Normalizations: batch, group, layer. Sorted by ATen name.

Gradients and the training form of batch norm are PyTorch's decompositions over reductions.
"""

from __future__ import annotations

import torch
from max.graph import Dim, ops

from torch_max_backend import constants, promotion, shapes
from torch_max_backend.aten_functions.reduction import count, squared_deviations
from torch_max_backend.registry import map_to
from torch_max_backend.types import CallInfo, MaxTensor, Size

aten = torch.ops.aten


def _inverse_deviation(variance: MaxTensor, eps: float) -> MaxTensor:
    dtype = promotion.dtype_of(variance)
    return ops.rsqrt(variance + constants.scalar(eps, dtype, variance.device))


def _statistics(values: MaxTensor, dims: list[int], eps: float) -> tuple[MaxTensor, MaxTensor]:
    """Mean and reciprocal standard deviation over `dims`, which stay as ones."""
    squares, mean = squared_deviations(values, dims)
    number = constants.scalar(count(values, dims), promotion.dtype_of(values), values.device)
    return mean, _inverse_deviation(squares / number, eps)


def _per_channel(vector: MaxTensor, rank: int) -> MaxTensor:
    return vector.reshape([1, vector.shape[0], *[1] * (rank - 2)])


# _native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
@map_to(aten._native_batch_norm_legit.no_stats, needs_call=True)
def aten__native_batch_norm_legit_no_stats(
    input: MaxTensor,
    weight: MaxTensor | None,
    bias: MaxTensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *,
    call: CallInfo,
) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    rank = len(input.shape)
    values = promotion.opmath(input)
    dtype = promotion.dtype_of(values)
    mean, rstd = _statistics(values, [i for i in range(rank) if i != 1], eps)
    output = (values - mean) * rstd
    if weight is not None:
        output = output * _per_channel(promotion.cast(weight, dtype), rank)
    if bias is not None:
        output = output + _per_channel(promotion.cast(bias, dtype), rank)
    saved = [
        promotion.cast(stat.reshape([input.shape[1]]), meta.dtype)
        for stat, meta in zip((mean, rstd), call.outputs[1:], strict=True)
        if meta is not None
    ]
    return promotion.cast(output, promotion.dtype_of(input)), saved[0], saved[1]


# _native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)
@map_to(aten._native_batch_norm_legit_no_training, needs_call=True)
def aten__native_batch_norm_legit_no_training(
    input: MaxTensor,
    weight: MaxTensor | None,
    bias: MaxTensor | None,
    running_mean: MaxTensor,
    running_var: MaxTensor,
    momentum: float,
    eps: float,
    *,
    call: CallInfo,
) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    values = promotion.opmath(input)
    dtype = promotion.dtype_of(values)
    # One multiplication and one addition per element: the rest is done once per channel.
    scale = _inverse_deviation(promotion.cast(running_var, dtype), eps)
    if weight is not None:
        scale = scale * promotion.cast(weight, dtype)
    shift = -promotion.cast(running_mean, dtype) * scale
    if bias is not None:
        shift = shift + promotion.cast(bias, dtype)
    rank = len(input.shape)
    output = values * _per_channel(scale, rank) + _per_channel(shift, rank)
    nothing = constants.full([0], 0, promotion.dtype_of(input), input.device)
    saved = [
        nothing if meta is None else promotion.cast(nothing, meta.dtype)
        for meta in call.outputs[1:]
    ]
    return promotion.cast(output, promotion.dtype_of(input)), saved[0], saved[1]


# native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)
@map_to(aten.native_group_norm, needs_call=True)
def aten_native_group_norm(
    input: MaxTensor,
    weight: MaxTensor | None,
    bias: MaxTensor | None,
    N: Size,
    C: Size,
    HxW: Size,
    group: int,
    eps: float,
    *,
    call: CallInfo,
) -> tuple[MaxTensor, MaxTensor | None, MaxTensor | None]:
    channels = shapes.static_size(C, "native_group_norm's number of channels")
    values = promotion.opmath(input)
    dtype = promotion.dtype_of(values)
    groups = values.reshape([N, group, shapes.numel([channels // group, HxW])])
    mean = rstd = None
    if call.used_outputs == {0} and _fits_layer_norm(groups.shape[2], eps):
        normal = _plain_layer_norm(groups, eps)
    else:
        mean, rstd = _statistics(groups, [2], eps)
        normal = (groups - mean) * rstd
        mean, rstd = (
            promotion.cast(stat.reshape([N, group]), meta.dtype)
            for stat, meta in zip((mean, rstd), call.outputs[1:], strict=True)
            if meta is not None
        )
    output = normal.reshape(input.shape)
    rank = len(input.shape)
    if weight is not None:
        output = output * _per_channel(promotion.cast(weight, dtype), rank)
    if bias is not None:
        output = output + _per_channel(promotion.cast(bias, dtype), rank)
    return promotion.cast(output, promotion.dtype_of(input)), mean, rstd


def _fits_layer_norm(size: Size | Dim, eps: float) -> bool:
    # MAX refuses eps <= 0, and its kernel divides by the row's length.
    size = shapes.size(size)
    return eps > 0 and isinstance(size, int) and size > 0


def _plain_layer_norm(values: MaxTensor, eps: float) -> MaxTensor:
    dtype = promotion.dtype_of(values)
    ones, zeros = (constants.full([values.shape[-1]], x, dtype, values.device) for x in (1, 0))
    return ops.layer_norm(values, ones, zeros, eps)


# native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)
@map_to(aten.native_layer_norm, needs_call=True)
def aten_native_layer_norm(
    input: MaxTensor,
    normalized_shape: list[Size],
    weight: MaxTensor | None,
    bias: MaxTensor | None,
    eps: float,
    *,
    call: CallInfo,
) -> tuple[MaxTensor, MaxTensor | None, MaxTensor | None]:
    values = promotion.opmath(input)
    dtype = promotion.dtype_of(values)
    scale, shift = (None if p is None else promotion.cast(p, dtype) for p in (weight, bias))
    length = shapes.numel(normalized_shape)
    mean = rstd = None
    if call.used_outputs == {0} and _fits_layer_norm(length, eps):
        leading = shapes.sizes(input)[: len(input.shape) - len(normalized_shape)]
        rows = values if len(normalized_shape) == 1 else values.reshape([*leading, length])
        gamma, beta = (
            constants.full([length], default, dtype, input.device)
            if parameter is None
            else parameter.reshape([length])
            for parameter, default in ((scale, 1), (shift, 0))
        )
        output = ops.layer_norm(rows, gamma, beta, eps).reshape(input.shape)
    else:
        rank = len(input.shape)
        mean, rstd = _statistics(values, list(range(rank - len(normalized_shape), rank)), eps)
        output = (values - mean) * rstd
        if scale is not None:
            output = output * scale
        if shift is not None:
            output = output + shift
        mean, rstd = (
            promotion.cast(stat, meta.dtype)
            for stat, meta in zip((mean, rstd), call.outputs[1:], strict=True)
            if meta is not None
        )
    return promotion.cast(output, promotion.dtype_of(input)), mean, rstd
