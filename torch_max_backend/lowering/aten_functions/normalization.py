"""Batch, group and layer normalization. Sorted by ATen name.

The gradient of group norm is decomposed by PyTorch.
"""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.reduction import count, squared_deviations
from torch_max_backend.lowering.mojo_kernels import divide
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Size

aten = torch.ops.aten


def _inverse_deviation(variance: MaxTensor, eps: float) -> MaxTensor:
    dtype = promotion.dtype_of(variance)
    return ops.rsqrt(variance + constants.scalar(eps, dtype, variance.device))


def _statistics(values: MaxTensor, dims: list[int], eps: float) -> tuple[MaxTensor, MaxTensor]:
    """Mean and reciprocal standard deviation over `dims`, which are kept with size 1."""
    squares, mean = squared_deviations(values, dims)
    number = constants.scalar(count(values, dims), promotion.dtype_of(values), values.device)
    return mean, _inverse_deviation(divide(squares, number), eps)


def _per_channel(vector: MaxTensor, rank: int) -> MaxTensor:
    return vector.reshape([1, vector.shape[0], *[1] * (rank - 2)])


def _affine(values: MaxTensor, weight: MaxTensor | None, bias: MaxTensor | None) -> MaxTensor:
    """`values * weight + bias`, both per channel (dim 1)."""
    rank, dtype = len(values.shape), promotion.dtype_of(values)
    if weight is not None:
        values = values * _per_channel(promotion.cast(weight, dtype), rank)
    if bias is not None:
        values = values + _per_channel(promotion.cast(bias, dtype), rank)
    return values


def _channel_dims(tensor: MaxTensor) -> list[int]:
    """All dims but dim 1, the channels."""
    return [i for i in range(len(tensor.shape)) if i != 1]


def _in_output_dtypes(tensors: list[MaxTensor | None], call: CallInfo) -> list[MaxTensor | None]:
    """The outputs in PyTorch's dtypes; None where it returns none."""
    return [
        None if tensor is None or meta is None else promotion.cast(tensor, meta.dtype)
        for tensor, meta in zip(tensors, call.outputs, strict=True)
    ]


def _by_channel(tensor: MaxTensor) -> MaxTensor:
    """[batch, channels, places], as the kernels take it."""
    batch, channels, *places = shapes.sizes(tensor)
    return tensor.reshape([batch, channels, shapes.numel(places)])


def _vector(vector: MaxTensor | None, default: float, like: MaxTensor) -> MaxTensor:
    """A parameter of each channel, in the dtype of `like`."""
    if vector is None:
        dtype = promotion.dtype_of(like)
        return constants.full([shapes.size(like.shape[1])], default, dtype, like.device)
    return promotion.cast(vector, promotion.dtype_of(like))


def _batch_norm(
    input: MaxTensor, weight: MaxTensor | None, bias: MaxTensor | None, eps: float
) -> list[MaxTensor]:
    """The result, and of each channel mean, reciprocal deviation and sum of squared deviations."""
    values = _by_channel(promotion.opmath(input))
    dtype, channels = promotion.dtype_of(values), [shapes.size(input.shape[1])]
    parameters = [_vector(weight, 1, values), _vector(bias, 0, values)]
    inputs = [values, *parameters, constants.constant([eps], dtype, input.device)]
    outputs = [(dtype, shapes.sizes(values)), *[(dtype, channels)] * 3]
    output, *statistics = mojo_kernels.call("tmb_batch_norm", inputs, outputs)
    return [output.reshape(input.shape), *statistics]


# _native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)
@map_to(aten._native_batch_norm_legit_functional, needs_call=True)
def aten__native_batch_norm_legit_functional(
    input: MaxTensor,
    weight: MaxTensor | None,
    bias: MaxTensor | None,
    running_mean: MaxTensor,
    running_var: MaxTensor,
    training: bool,
    momentum: float,
    eps: float,
    *,
    call: CallInfo,
) -> list[MaxTensor | None]:
    # Not PyTorch's decomposition: with symbolic sizes it computes with symbolic floats.
    if not training:
        results = _running_norm(input, weight, bias, running_mean, running_var, eps, call)
        return _in_output_dtypes([*results, running_mean, running_var], call)
    output, mean, rstd, squares = _batch_norm(input, weight, bias, eps)
    dims, dtype = _channel_dims(input), promotion.dtype_of(mean)
    # Not number - 1: MAX compiles and runs a program to fold each expression of constants.
    freedom = constants.scalar(count(input, dims) - 1, dtype, input.device)
    kept, share = (constants.scalar(x, dtype, input.device) for x in (1 - momentum, momentum))
    new_mean = promotion.cast(running_mean, dtype) * kept + mean * share
    new_var = promotion.cast(running_var, dtype) * kept + divide(squares, freedom) * share
    return _in_output_dtypes([output, mean, rstd, new_mean, new_var], call)


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
) -> list[MaxTensor | None]:
    return _in_output_dtypes(list(_batch_norm(input, weight, bias, eps)[:3]), call)


def _running_norm(
    input: MaxTensor,
    weight: MaxTensor | None,
    bias: MaxTensor | None,
    running_mean: MaxTensor,
    running_var: MaxTensor,
    eps: float,
    call: CallInfo,
) -> list[MaxTensor]:
    """`input` normalized by the running statistics, and the statistics as PyTorch saves them."""
    values = promotion.opmath(input)
    dtype = promotion.dtype_of(values)
    # One multiplication and one addition per element; the rest is computed once per channel.
    mean = promotion.cast(running_mean, dtype)
    scale = inverse = _inverse_deviation(promotion.cast(running_var, dtype), eps)
    if weight is not None:
        scale = scale * promotion.cast(weight, dtype)
    shift = -mean * scale
    if bias is not None:
        shift = shift + promotion.cast(bias, dtype)
    results = [promotion.cast(_affine(values, scale, shift), promotion.dtype_of(input))]
    for meta, saved in zip(call.outputs[1:3], (mean, inverse), strict=True):
        # PyTorch saves nothing on the CPU, and the statistics on a GPU.
        nothing = meta is None or meta.shape == (0,)
        empty = constants.full([0], 0, promotion.dtype_of(input), input.device)
        results.append(empty if nothing else saved)
    return results


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
) -> list[MaxTensor | None]:
    results = _running_norm(input, weight, bias, running_mean, running_var, eps, call)
    return _in_output_dtypes([*results], call)


# native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
@map_to(aten.native_batch_norm_backward, needs_call=True)
def aten_native_batch_norm_backward(
    grad_out: MaxTensor,
    input: MaxTensor,
    weight: MaxTensor | None,
    running_mean: MaxTensor | None,
    running_var: MaxTensor | None,
    save_mean: MaxTensor | None,
    save_invstd: MaxTensor | None,
    train: bool,
    eps: float,
    output_mask: list[bool],
    *,
    call: CallInfo,
) -> list[MaxTensor | None]:
    # Not PyTorch's decomposition: with symbolic sizes it computes with symbolic floats.
    values, grad = promotion.opmath(input), promotion.opmath(grad_out)
    dtype = promotion.dtype_of(values)
    if train:
        assert save_mean is not None and save_invstd is not None
        mean, rstd = promotion.cast(save_mean, dtype), promotion.cast(save_invstd, dtype)
    else:
        assert running_mean is not None and running_var is not None
        mean = promotion.cast(running_mean, dtype)
        rstd = _inverse_deviation(promotion.cast(running_var, dtype), eps)
    lines = [_by_channel(grad), _by_channel(values)]
    inputs = [*lines, mean, rstd, _vector(weight, 1, values)]
    channels = [shapes.size(input.shape[1])]
    outputs = [(dtype, shapes.sizes(lines[1])), (dtype, channels), (dtype, channels)]
    grad_input, grad_weight, grad_bias = mojo_kernels.call(
        "tmb_batch_norm_gradient", inputs, outputs, {"training": train}
    )
    grad_input = grad_input.reshape(input.shape)
    grads = zip((grad_input, grad_weight, grad_bias), output_mask, strict=True)
    return _in_output_dtypes([grad if wanted else None for grad, wanted in grads], call)


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
    groups = values.reshape([N, group, shapes.numel([channels // group, HxW])])
    # Not MAX's layer norm over the groups: fused with the reshape below, it reads the scale of one
    # channel for a whole SIMD vector, even where the vector crosses into the next channel.
    mean, rstd = _statistics(groups, [2], eps)
    normal = (groups - mean) * rstd
    mean, rstd = (
        promotion.cast(stat.reshape([N, group]), meta.dtype)
        for stat, meta in zip((mean, rstd), call.outputs[1:], strict=True)
        if meta is not None
    )
    output = _affine(normal.reshape(input.shape), weight, bias)
    return promotion.cast(output, promotion.dtype_of(input)), mean, rstd


def layer_norm(
    input: MaxTensor,
    normalized_shape: list[Size],
    weight: MaxTensor | None,
    bias: MaxTensor | None,
    eps: float,
) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    """The result in the input's dtype, the mean, and the reciprocal standard deviation.

    The last two keep the normalized dims with size 1.
    """
    # MAX's own kernel takes ten times as long (docs/performance.md).
    dtype = promotion.dtype_of(input)
    wide = torch.float32 if dtype in promotion.HALF else dtype
    leading = shapes.sizes(input)[: len(input.shape) - len(normalized_shape)]
    rows, length = shapes.numel(leading), shapes.numel(normalized_shape)
    gamma, beta = (
        constants.full([length], default, wide, input.device)
        if parameter is None
        else promotion.cast(parameter, wide).reshape([length])
        for parameter, default in ((weight, 1), (bias, 0))
    )
    epsilon = constants.constant([eps], wide, input.device)
    inputs = [input.reshape([rows, length]), gamma, beta, epsilon]
    outputs = [(dtype, [rows, length]), (wide, [rows]), (wide, [rows])]
    output, mean, rstd = mojo_kernels.call("tmb_layer_norm", inputs, outputs)
    ones = [*leading, *[1] * len(normalized_shape)]
    return output.reshape(input.shape), mean.reshape(ones), rstd.reshape(ones)


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
) -> list[MaxTensor | None]:
    return _in_output_dtypes(list(layer_norm(input, normalized_shape, weight, bias, eps)), call)


# native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
@map_to(aten.native_layer_norm_backward, needs_call=True)
def aten_native_layer_norm_backward(
    grad_out: MaxTensor,
    input: MaxTensor,
    normalized_shape: list[Size],
    mean: MaxTensor,
    rstd: MaxTensor,
    weight: MaxTensor | None,
    bias: MaxTensor | None,
    output_mask: list[bool],
    *,
    call: CallInfo,
) -> list[MaxTensor | None]:
    """All three by one kernel: composed of reductions, it takes as long as the products."""
    grad, values = promotion.opmath(grad_out), promotion.opmath(input)
    dtype = promotion.dtype_of(values)
    leading = shapes.sizes(input)[: len(input.shape) - len(normalized_shape)]
    rows, length = shapes.numel(leading), shapes.numel(normalized_shape)
    if weight is None:
        gamma = constants.full([length], 1, dtype, input.device)
    else:
        gamma = promotion.cast(weight, dtype).reshape([length])
    lines = [x.reshape([rows, length]) for x in (grad, values)]
    statistics = [promotion.cast(x, dtype).reshape([rows]) for x in (mean, rstd)]
    outputs: list[tuple[torch.dtype, list[Size]]] = [
        (dtype, [rows, length]),
        (dtype, [length]),
        (dtype, [length]),
    ]
    inputs = [*lines, *statistics, gamma]
    results = mojo_kernels.call("tmb_layer_norm_gradient", inputs, outputs)
    sizes = (shapes.sizes(input), normalized_shape, normalized_shape)
    grads = [
        result.reshape(size) if wanted else None
        for result, size, wanted in zip(results, sizes, output_mask, strict=True)
    ]
    return _in_output_dtypes(grads, call)
