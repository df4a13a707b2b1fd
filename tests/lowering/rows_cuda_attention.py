"""Rows of the attention ops that PyTorch chooses on CUDA.

PyTorch has no CPU kernels for them. So where a row is traced it calls these ops, and where PyTorch
computes what is expected, its attention of plain products and autograd.
"""

import math
from collections.abc import Callable

import torch

from tests.lowering.cases import FLOATS, HALF, OpCase, t
from tests.lowering.rows_attention import GROUPED, LONGER, QKV

aten = torch.ops.aten
cudnn = aten._scaled_dot_product_cudnn_attention
efficient = aten._scaled_dot_product_efficient_attention
flash = aten._scaled_dot_product_flash_attention
cudnn_backward = aten._scaled_dot_product_cudnn_attention_backward
efficient_backward = aten._scaled_dot_product_efficient_attention_backward
flash_backward = aten._scaled_dot_product_flash_attention_backward


def _expected(query, key, value, bias=None, *, is_causal=False, scale=None):
    """Attention and its logarithms of sums."""
    groups = query.shape[1] // key.shape[1]
    wide = torch.float64 if query.dtype is torch.float64 else torch.float32
    key, value = (x.repeat_interleave(groups, 1).to(wide) for x in (key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query.to(wide) @ key.mT * factor
    if bias is not None:
        scores = scores + bias.to(wide)
    if is_causal:
        scores = scores + torch.full(scores.shape[-2:], -math.inf).triu(1)
    seen = scores.isfinite().any(-1, keepdim=True)  # a query without keys gives zeros
    weights = torch.softmax(torch.where(seen, scores, 0), -1) * seen
    return (weights @ value).to(query.dtype), torch.logsumexp(scores, -1).float()


def _gradients(*tensors, **how):
    with torch.enable_grad():
        tensors = [None if x is None else x.detach().requires_grad_() for x in tensors]
        out, _ = _expected(*tensors, **how)
        given = torch.cos(out.detach())
        return torch.autograd.grad(out, [x for x in tensors if x is not None], given)


def _traced(*tensors) -> bool:
    return type(tensors[0]) is not torch.Tensor


def on_cuda(call: Callable, expected: Callable) -> Callable:
    """`call` where a row is traced for MAX, `expected` where PyTorch runs it."""

    def either(*args, **kwargs):
        return (call if _traced(*args) else expected)(*args, **kwargs)

    either.__name__ = either.__qualname__ = call.__name__
    return either


def _queries(query):
    return slice(0, query.shape[2])


def efficient_forward(query, key, value, bias=None, *, is_causal=False, scale=None):
    out, sums, *_ = efficient(query, key, value, bias, True, 0.0, is_causal, scale=scale)
    return out, sums[:, :, _queries(query)]


def efficient_output(query, key, value, bias=None, **how):
    return efficient(query, key, value, bias, False, **how)[0]


def efficient_gradients(query, key, value, bias=None, *, is_causal=False, scale=None):
    out, sums, *drawn = efficient(query, key, value, bias, True, 0.0, is_causal, scale=scale)
    wanted = [True, True, True, bias is not None]
    given = (torch.cos(out), query, key, value, bias, out, sums, *drawn, 0.0, wanted, is_causal)
    return [grad for grad in efficient_backward(*given, scale=scale) if grad is not None]


def flash_forward(query, key, value, **how):
    return flash(query, key, value, 0.0, **how)[:2]


def flash_gradients(query, key, value, *, is_causal=False, scale=None):
    out, sums, *others = flash(query, key, value, 0.0, is_causal, scale=scale)
    seq_q, seq_k, max_q, max_k, state, unused, _ = others
    saved = (out, sums, seq_q, seq_k, max_q, max_k, 0.0, is_causal, state, unused)
    return flash_backward(torch.cos(out), query, key, value, *saved, scale=scale)


def cudnn_forward(query, key, value, bias=None, **how):
    out, sums, *_ = cudnn(query, key, value, bias, True, 0.0, **how)
    return out, sums[..., 0]


def cudnn_gradients(query, key, value, bias=None, *, is_causal=False):
    out, sums, *others = cudnn(query, key, value, bias, True, 0.0, is_causal)
    seq_q, seq_k, max_q, max_k, seed, offset, _ = others
    lengths = (seq_q, seq_k, max_q, max_k)
    saved = (out, sums, seed, offset, bias, *lengths, 0.0, is_causal)
    return cudnn_backward(torch.cos(out), query, key, value, *saved)


def _output(*args, **kwargs):
    return _expected(*args, **kwargs)[0]


def _gradients_of_three(query, key, value, bias=None, **how):
    return _gradients(query, key, value, bias, **how)[:3]


FORWARD = [efficient_forward, flash_forward, cudnn_forward]
BACKWARD = [efficient_gradients, flash_gradients, cudnn_gradients]
FULL_BIAS = t(2, 4, 7, 9)


def _hidden(mask):
    mask[..., 2, :] = -math.inf
    mask[..., 3, 1:] = -math.inf
    return mask


HIDING_BIAS = t(2, 4, 7, 9, prepare=_hidden)

ROWS = [
    *[OpCase(on_cuda(op, _expected), QKV, dtypes=FLOATS) for op in FORWARD],
    *[OpCase(on_cuda(op, _expected), LONGER, {"scale": 0.3}) for op in FORWARD],
    *[OpCase(on_cuda(op, _expected), QKV, {"is_causal": True}) for op in FORWARD],
    OpCase(on_cuda(flash_forward, _expected), GROUPED, dtypes=HALF),
    OpCase(on_cuda(efficient_forward, _expected), (*LONGER, HIDING_BIAS)),
    OpCase(on_cuda(cudnn_forward, _expected), (*LONGER, FULL_BIAS), dtypes=HALF),
    OpCase(on_cuda(efficient_output, _output), (*LONGER, FULL_BIAS), {"is_causal": True}),
    *[OpCase(on_cuda(op, _gradients), QKV) for op in BACKWARD],
    *[OpCase(on_cuda(op, _gradients), QKV, {"is_causal": True}) for op in BACKWARD],
    OpCase(on_cuda(flash_gradients, _gradients), GROUPED),
    OpCase(on_cuda(efficient_gradients, _gradients), (*LONGER, FULL_BIAS), {"scale": 0.3}),
    OpCase(on_cuda(efficient_gradients, _gradients), (*LONGER, HIDING_BIAS)),
    OpCase(on_cuda(cudnn_gradients, _gradients_of_three), (*LONGER, FULL_BIAS)),
]
