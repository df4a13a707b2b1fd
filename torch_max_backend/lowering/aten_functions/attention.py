"""Scaled dot product attention, forward and backward. Sorted by ATen name.

Tensors of four dims, which PyTorch's flash attention takes, have kernels of ours for both. Others
are composed of products and a softmax.
"""

from __future__ import annotations

import math

import torch
from max.dtype import DType
from max.graph import ops

from torch_max_backend.compat.max import is_permuted
from torch_max_backend.lowering import constants, devices, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.activation import aten_gelu, aten_relu
from torch_max_backend.lowering.aten_functions.matmul import aten_linear, product
from torch_max_backend.lowering.aten_functions.normalization import layer_norm
from torch_max_backend.lowering.aten_functions.reduction import extremum
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor, Size

aten = torch.ops.aten


def softmax_scale(query: MaxTensor, scale: float | None) -> MaxTensor:
    """The scale of the scores, in the dtype of `query`."""
    dtype = promotion.dtype_of(query)
    if scale is not None:
        return constants.scalar(scale, dtype, query.device)
    width = shapes.size(query.shape[-1])
    if isinstance(width, int):
        return constants.scalar(1 / math.sqrt(width) if width else 1.0, dtype, query.device)
    return ops.rsqrt(constants.scalar(width, dtype, query.device))


def additive_mask(mask: MaxTensor, dtype: torch.dtype) -> MaxTensor:
    """A mask to add to the scores; in a bool mask, False hides a key."""
    if promotion.dtype_of(mask) is not torch.bool:
        return promotion.cast(mask, dtype)
    seen, hidden = (constants.scalar(x, dtype, mask.device) for x in (0.0, -math.inf))
    return ops.where(mask, seen, hidden)


def _mask(query: MaxTensor, attn_mask: MaxTensor | None) -> MaxTensor | None:
    return None if attn_mask is None else additive_mask(attn_mask, promotion.dtype_of(query))


def _heads(tensor: MaxTensor) -> MaxTensor:
    """[batch, heads, length, width] of a tensor with any leading dims; the last is the heads."""
    *leading, length, width = shapes.sizes(tensor)
    heads = leading[-1] if leading else 1
    return tensor.reshape([shapes.numel(leading[:-1]), heads, length, width])


def _flash(
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    mask: MaxTensor | None,
    is_causal: bool,
    scale: float | None,
) -> tuple[MaxTensor, MaxTensor]:
    """Our kernel, on [batch, length, heads, width]; key and value may have fewer heads.

    The second result is the logarithm of the sum of exponentials, [batch, heads, length].
    """
    # Keys and values of a cache lie with the heads first; those of a product are permuted views.
    heads_first = not (is_permuted(key) or is_permuted(value))
    permuted = [ops.permute(x, [0, 2, 1, 3]) for x in (query, key, value)]
    inputs = [permuted[0], key, value] if heads_first else permuted
    inputs.append(softmax_scale(query, scale).reshape([1]))
    batch, length, heads, _ = inputs[0].shape
    dtype = promotion.dtype_of(query)
    outputs = [
        (dtype, [batch, length, heads, value.shape[-1]]),
        (dtype, [batch, heads, length]),
    ]
    how: dict[str, bool | int | float | str | DType] = {"heads_first": heads_first}
    if mask is None:
        how["causal"] = is_causal
        result, sums = mojo_kernels.call("tmb_attention", inputs, outputs, how)
    else:
        inputs.append(_four_dims(mask, key))
        result, sums = mojo_kernels.call("tmb_attention_masked", inputs, outputs, how)
    return ops.permute(result, [0, 2, 1, 3]), sums


def _four_dims(mask: MaxTensor, key: MaxTensor) -> MaxTensor:
    """A mask as [batch, heads, queries, keys]; the kernels broadcast all but the last dim."""
    sizes: list[Size] = [1] * (4 - len(mask.shape))
    sizes += [*shapes.sizes(mask)[:-1], shapes.size(key.shape[2])]
    return shapes.broadcast_to(mask, sizes)


def _sees_no_key(mask: MaxTensor) -> MaxTensor:
    """Which queries the mask leaves without any key, as [..., queries, 1]."""
    last = len(mask.shape) - 1
    hidden = constants.scalar(-math.inf, promotion.dtype_of(mask), mask.device)
    return ops.equal(extremum(mask, [last], keepdim=True, largest=True), hidden)


def repeat_heads(tensor: MaxTensor, query: MaxTensor) -> MaxTensor:
    """`tensor` with its heads repeated, so that it has as many as `query`."""
    heads, wanted = shapes.size(tensor.shape[-3]), shapes.size(query.shape[-3])
    if shapes.same(heads, wanted):
        return tensor
    groups = shapes.static_size(wanted, "grouped attention's heads") // shapes.static_size(
        heads, "grouped attention's key heads"
    )
    *leading, _, length, width = shapes.sizes(tensor)
    grouped = tensor.reshape([*leading, heads, 1, length, width])
    grouped = ops.broadcast_to(grouped, [*leading, heads, groups, length, width])
    return grouped.reshape([*leading, wanted, length, width])


def scores(
    query: MaxTensor, key: MaxTensor, mask: MaxTensor | None, scale: float | None
) -> MaxTensor:
    scores = product(query * softmax_scale(query, scale), key, transposed=True)
    return scores if mask is None else scores + mask


def attention_weights(scores: MaxTensor, mask: MaxTensor | None) -> MaxTensor:
    """Softmax over the keys; zeros for a query that sees none."""
    last = len(scores.shape) - 1
    lines = shapes.fold(scores, [last])
    outputs = [(promotion.dtype_of(scores), lines.shape)]
    weights = mojo_kernels.call("tmb_softmax", [lines], outputs, {"logarithm": False})[0]
    weights = weights.reshape(scores.shape)
    if mask is None:
        return weights
    zero = constants.scalar(0, promotion.dtype_of(weights), weights.device)
    return ops.where(_sees_no_key(mask), zero, weights)


def _attention(
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    attn_mask: MaxTensor | None,
    is_causal: bool,
    scale: float | None,
) -> MaxTensor:
    dtype = promotion.dtype_of(query)
    query, key, value = (promotion.opmath(x) for x in (query, key, value))
    mask = None if is_causal else _mask(query, attn_mask)
    if devices.is_gpu(query.device):
        if is_causal:
            mask = causal_mask(query, key)
        result = _composed(query, key, value, mask, scale)
    elif len(query.shape) == len(key.shape) == 4:
        result, _ = _flash(query, key, value, mask, is_causal, scale)
    elif is_causal:
        parts = (_heads(query), _heads(key), _heads(value))
        result, _ = _flash(*parts, None, is_causal, scale)
        result = result.reshape([*query.shape[:-1], value.shape[-1]])
    else:
        result = _composed(query, key, value, mask, scale)
    return promotion.cast(result, dtype)


def _composed(
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    mask: MaxTensor | None,
    scale: float | None,
) -> MaxTensor:
    if len(query.shape) > 2:
        key, value = repeat_heads(key, query), repeat_heads(value, query)
    return product(attention_weights(scores(query, key, mask, scale), mask), value)


def causal_mask(query: MaxTensor, key: MaxTensor) -> MaxTensor:
    """The mask [queries, keys] that hides from each query the keys with a higher index."""
    queries, keys = shapes.size(query.shape[-2]), shapes.size(key.shape[-2])
    rows = constants.iota(queries, query.device).reshape([queries, 1])
    columns = constants.iota(keys, query.device).reshape([1, keys])
    return additive_mask(ops.greater_equal(rows, columns), promotion.dtype_of(query))


# _scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)
@map_to(aten._scaled_dot_product_flash_attention_for_cpu, needs_call=True)
def aten__scaled_dot_product_flash_attention_for_cpu(
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: MaxTensor | None = None,
    scale: float | None = None,
    call: CallInfo,
) -> tuple[MaxTensor, MaxTensor | None]:
    if call.used_outputs == {0}:
        return _attention(query, key, value, attn_mask, is_causal, scale), None
    dtype = promotion.dtype_of(query)
    query, key, value = (promotion.opmath(x) for x in (query, key, value))
    mask = None if is_causal else _mask(query, attn_mask)
    result, logsumexp = _flash(query, key, value, mask, is_causal, scale)
    meta = call.outputs[1]
    assert meta is not None
    return promotion.cast(result, dtype), promotion.cast(logsumexp, meta.dtype)


# _scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)
@map_to(aten._scaled_dot_product_flash_attention_for_cpu_backward)
def aten__scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out: MaxTensor,
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    out: MaxTensor,
    logsumexp: MaxTensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: MaxTensor | None = None,
    scale: float | None = None,
) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    dtype = promotion.dtype_of(query)
    grad_out, query, key, value, out = (
        promotion.opmath(x) for x in (grad_out, query, key, value, out)
    )
    mask = None if is_causal else _mask(query, attn_mask)
    # The kernel computes the softmax again: the saved logsumexp would add its own rounding.
    inputs = [ops.permute(x, [0, 2, 1, 3]) for x in (grad_out, query, key, value, out)]
    inputs.append(softmax_scale(query, scale).reshape([1]))
    outputs = [(promotion.dtype_of(x), list(x.shape)) for x in inputs[1:4]]
    if mask is None:
        how: dict[str, bool | int | float | str | DType] = {"causal": is_causal}
        grads = mojo_kernels.call("tmb_attention_gradient", inputs, outputs, how)
    else:
        inputs.append(_four_dims(mask, key))
        grads = mojo_kernels.call("tmb_attention_gradient_masked", inputs, outputs)
    grad_query, grad_key, grad_value = (
        promotion.cast(ops.permute(grad, [0, 2, 1, 3]), dtype) for grad in grads
    )
    return grad_query, grad_key, grad_value


# _transformer_encoder_layer_fwd(Tensor src, int embed_dim, int num_heads, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, bool use_gelu, bool norm_first, float eps, Tensor norm_weight_1, Tensor norm_bias_1, Tensor norm_weight_2, Tensor norm_bias_2, Tensor ffn_weight_1, Tensor ffn_bias_1, Tensor ffn_weight_2, Tensor ffn_bias_2, Tensor? mask=None, int? mask_type=None) -> Tensor
@map_to(aten._transformer_encoder_layer_fwd)
def aten__transformer_encoder_layer_fwd(
    src: MaxTensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: MaxTensor,
    qkv_bias: MaxTensor,
    proj_weight: MaxTensor,
    proj_bias: MaxTensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: MaxTensor,
    norm_bias_1: MaxTensor,
    norm_weight_2: MaxTensor,
    norm_bias_2: MaxTensor,
    ffn_weight_1: MaxTensor,
    ffn_bias_1: MaxTensor,
    ffn_weight_2: MaxTensor,
    ffn_bias_2: MaxTensor,
    mask: MaxTensor | None = None,
    mask_type: int | None = None,
) -> MaxTensor:
    """What nn.TransformerEncoderLayer runs in eval mode; PyTorch has no decomposition for it."""

    def norm(x: MaxTensor, weight: MaxTensor, bias: MaxTensor) -> MaxTensor:
        return layer_norm(x, [embed_dim], weight, bias, eps)[0]

    def attend(x: MaxTensor) -> MaxTensor:
        batch, length, _ = shapes.sizes(x)
        width = embed_dim // num_heads
        packed = aten_linear(x, qkv_weight, qkv_bias).reshape([batch, length, 3, num_heads, width])
        heads = ops.permute(packed, [2, 0, 3, 1, 4])
        query, key, value = (heads[i] for i in range(3))
        result = _attention(query, key, value, visible, False, None)
        joined = ops.permute(result, [0, 2, 1, 3]).reshape([batch, length, embed_dim])
        return aten_linear(joined, proj_weight, proj_bias)

    def feed(x: MaxTensor) -> MaxTensor:
        hidden = aten_linear(x, ffn_weight_1, ffn_bias_1)
        hidden = aten_gelu(hidden) if use_gelu else aten_relu(hidden)
        return aten_linear(hidden, ffn_weight_2, ffn_bias_2)

    visible = None
    if mask is not None:  # True hides a key, unlike in scaled_dot_product_attention
        visible = ops.logical_not(promotion.cast(mask, torch.bool))
        if mask_type == 1:  # which keys are padding
            visible = visible.reshape([mask.shape[0], 1, 1, mask.shape[1]])
    if norm_first:
        src = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return src + feed(norm(src, norm_weight_2, norm_bias_2))
    src = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(src + feed(src), norm_weight_2, norm_bias_2)


# scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor
@map_to(aten.scaled_dot_product_attention)
def aten_scaled_dot_product_attention(
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    attn_mask: MaxTensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> MaxTensor:
    if dropout_p:
        raise NotImplementedError("attention with dropout draws random numbers on PyTorch")
    return _attention(query, key, value, attn_mask, is_causal, scale)
