"""The attention ops that PyTorch chooses on CUDA, forward and backward. Sorted by ATen name.

They are composed of products and a softmax, and so run on every device. What PyTorch's kernels
save for dropout is zero: a call that drops out runs on PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.attention import (
    additive_mask,
    attention_weights,
    causal_mask,
    repeat_heads,
    scores,
    softmax_scale,
)
from torch_max_backend.lowering.aten_functions.matmul import product
from torch_max_backend.lowering.aten_functions.reduction import extremum, total
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor

aten = torch.ops.aten


def _mask(
    query: MaxTensor, key: MaxTensor, bias: MaxTensor | None, is_causal: bool
) -> MaxTensor | None:
    """What is added to the scores."""
    mask = None if bias is None else additive_mask(bias, promotion.dtype_of(query))
    if not is_causal:
        return mask
    causal = causal_mask(query, key)
    return causal if mask is None else mask + causal


def _forward(
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    bias: MaxTensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    call: CallInfo,
) -> list[MaxTensor | None]:
    """The results of a forward: attention, the logarithm of its sums, and zeros for the others."""
    _refuse_dropout(dropout_p)
    dtype = promotion.dtype_of(query)
    query, key, value = (promotion.opmath(x) for x in (query, key, value))
    key, value = repeat_heads(key, query), repeat_heads(value, query)
    mask = _mask(query, key, bias, is_causal)
    all_scores = scores(query, key, mask, scale)
    results: list[MaxTensor | None] = [
        promotion.cast(product(attention_weights(all_scores, mask), value), dtype)
    ]
    for index, meta in enumerate(call.outputs[1:], 1):
        if meta is None or index not in call.used_outputs:
            results.append(None)
        elif index == 1:
            sums = _padded(_log_sum_exp(all_scores), meta.shape)
            results.append(promotion.cast(sums, meta.dtype))
        else:
            results.append(constants.full(meta.shape, 0, meta.dtype, query.device))
    return results


def _refuse_dropout(dropout_p: float) -> None:
    if dropout_p:
        raise NotImplementedError("attention with dropout draws random numbers on PyTorch")


def _log_sum_exp(all_scores: MaxTensor) -> MaxTensor:
    """The logarithm of each query's sum of exponentials, [..., queries]."""
    last = len(all_scores.shape) - 1
    largest = extremum(all_scores, [last], keepdim=True, largest=True)
    # A query without keys has -inf everywhere: its logarithm is -inf, and no NaN.
    zero = constants.scalar(0, promotion.dtype_of(largest), largest.device)
    infinite = ops.is_inf(largest)
    finite = ops.where(infinite, zero, largest)
    exponentials = mojo_kernels.elementwise("tmb_exp", all_scores - finite)
    sums = mojo_kernels.elementwise("tmb_log", total(exponentials, [last], keepdim=True))
    return (sums + finite).reshape(all_scores.shape[:-1])


def _padded(sums: MaxTensor, shape: Sequence[shapes.Size]) -> MaxTensor:
    """Sums in the shape that PyTorch's kernel gives them: rounded up, with a last dim, or none."""
    queries, wanted = shapes.size(sums.shape[-1]), shape[-1]
    if len(shape) > len(sums.shape):
        return sums.reshape(list(shape))
    if shapes.same(queries, wanted):
        return sums
    if wanted == 0:
        return constants.full(shape, 0, promotion.dtype_of(sums), sums.device)
    missing = shapes.static_size(wanted, "attention") - shapes.static_size(queries, "attention")
    padding = constants.full([*shape[:-1], missing], 0, promotion.dtype_of(sums), sums.device)
    return ops.concat([sums, padding], axis=-1)


def _backward(
    grad_out: MaxTensor,
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    bias: MaxTensor | None,
    out: MaxTensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    bias_wanted: bool = False,
) -> tuple[MaxTensor, MaxTensor, MaxTensor, MaxTensor | None]:
    """The gradients of query, key, value and bias. The softmax is computed again."""
    _refuse_dropout(dropout_p)
    dtype, heads = promotion.dtype_of(query), key.shape
    grad_out, query, key, value, out = (
        promotion.opmath(x) for x in (grad_out, query, key, value, out)
    )
    key, value = repeat_heads(key, query), repeat_heads(value, query)
    mask = _mask(query, key, bias, is_causal)
    weights = attention_weights(scores(query, key, mask, scale), mask)
    last = len(query.shape) - 1
    shared = total(grad_out * out, [last], keepdim=True)
    grad_scores = weights * (product(grad_out, value, transposed=True) - shared)
    factor = softmax_scale(query, scale)
    grad_query = product(grad_scores, key) * factor
    grad_key = product(_turned(grad_scores), query) * factor
    grad_value = product(_turned(weights), grad_out)
    grads = [grad_query, _summed_heads(grad_key, heads), _summed_heads(grad_value, heads)]
    first, second, third = (promotion.cast(grad, dtype) for grad in grads)
    if bias is None or not bias_wanted:
        return first, second, third, None
    return first, second, third, promotion.cast(grad_scores, promotion.dtype_of(bias))


def _turned(matrices: MaxTensor) -> MaxTensor:
    return ops.transpose(matrices, -1, -2)


def _summed_heads(grad: MaxTensor, shape: Sequence[shapes.Size]) -> MaxTensor:
    """The gradient of a tensor whose heads were repeated."""
    if shapes.same(shapes.size(grad.shape[-3]), shapes.size(shape[-3])):
        return grad
    heads = shapes.static_size(shapes.size(shape[-3]), "attention's key heads")
    batch, wide, length, width = shapes.sizes(grad)
    groups = shapes.static_size(wide, "attention's heads") // heads
    return total(grad.reshape([batch, heads, groups, length, width]), [2], keepdim=False)


# _scaled_dot_product_cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)
@map_to(aten._scaled_dot_product_cudnn_attention, needs_call=True)
def aten__scaled_dot_product_cudnn_attention(
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    attn_bias: MaxTensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
    call: CallInfo,
) -> list[MaxTensor | None]:
    return _forward(query, key, value, attn_bias, dropout_p, is_causal, scale, call)


# _scaled_dot_product_cudnn_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, Tensor attn_bias, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, *, float? scale=None) -> (Tensor, Tensor, Tensor)
@map_to(aten._scaled_dot_product_cudnn_attention_backward)
def aten__scaled_dot_product_cudnn_attention_backward(
    grad_out: MaxTensor,
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    out: MaxTensor,
    logsumexp: MaxTensor,
    philox_seed: MaxTensor,
    philox_offset: MaxTensor,
    attn_bias: MaxTensor | None,
    cum_seq_q: MaxTensor | None,
    cum_seq_k: MaxTensor | None,
    max_q: shapes.Size,
    max_k: shapes.Size,
    dropout_p: float,
    is_causal: bool,
    *,
    scale: float | None = None,
) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    return _backward(grad_out, query, key, value, attn_bias, out, dropout_p, is_causal, scale)[:3]


# _scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)
@map_to(aten._scaled_dot_product_efficient_attention, needs_call=True)
def aten__scaled_dot_product_efficient_attention(
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    attn_bias: MaxTensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    call: CallInfo,
) -> list[MaxTensor | None]:
    return _forward(query, key, value, attn_bias, dropout_p, is_causal, scale, call)


# _scaled_dot_product_efficient_attention_backward(Tensor grad_out_, Tensor query, Tensor key, Tensor value, Tensor attn_bias, Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, float dropout_p, bool[4] grad_input_mask, bool is_causal=False, *, float? scale=None) -> (Tensor, Tensor, Tensor, Tensor)
@map_to(aten._scaled_dot_product_efficient_attention_backward)
def aten__scaled_dot_product_efficient_attention_backward(
    grad_out_: MaxTensor,
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    attn_bias: MaxTensor | None,
    out: MaxTensor,
    logsumexp: MaxTensor,
    philox_seed: MaxTensor,
    philox_offset: MaxTensor,
    dropout_p: float,
    grad_input_mask: list[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[MaxTensor, MaxTensor, MaxTensor, MaxTensor | None]:
    return _backward(
        grad_out_,
        query,
        key,
        value,
        attn_bias,
        out,
        dropout_p,
        is_causal,
        scale,
        bias_wanted=grad_input_mask[3],
    )


# _scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)
@map_to(aten._scaled_dot_product_flash_attention.default, needs_call=True)
def aten__scaled_dot_product_flash_attention(
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
    call: CallInfo,
) -> list[MaxTensor | None]:
    return _forward(query, key, value, None, dropout_p, is_causal, scale, call)


# _scaled_dot_product_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, Tensor philox_seed, Tensor philox_offset, *, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)
@map_to(aten._scaled_dot_product_flash_attention_backward)
def aten__scaled_dot_product_flash_attention_backward(
    grad_out: MaxTensor,
    query: MaxTensor,
    key: MaxTensor,
    value: MaxTensor,
    out: MaxTensor,
    logsumexp: MaxTensor,
    cum_seq_q: MaxTensor | None,
    cum_seq_k: MaxTensor | None,
    max_q: shapes.Size,
    max_k: shapes.Size,
    dropout_p: float,
    is_causal: bool,
    philox_seed: MaxTensor,
    philox_offset: MaxTensor,
    *,
    scale: float | None = None,
) -> tuple[MaxTensor, MaxTensor, MaxTensor]:
    return _backward(grad_out, query, key, value, None, out, dropout_p, is_causal, scale)[:3]
