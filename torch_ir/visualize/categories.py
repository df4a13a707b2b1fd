"""Categories of ops, such as convolution or indexing, for colours and counts."""

from __future__ import annotations

from functools import lru_cache

__all__ = ["CATEGORIES", "category_of"]

_OPS: dict[str, str] = {
    "matmul": "mm bmm matmul linear addmm addbmm baddbmm addmv mv dot vdot einsum outer ger kron "
    "bilinear tensordot chain_matmul multi_dot inner",
    "convolution": "conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d "
    "conv_transpose3d conv_tbc unfold im2col col2im fold",
    "attention": "scaled_dot_product_attention multi_head_attention_forward "
    "flex_attention lstm gru rnn_tanh rnn_relu lstm_cell gru_cell",
    "normalization": "layer_norm native_layer_norm batch_norm native_batch_norm group_norm "
    "native_group_norm instance_norm rms_norm local_response_norm normalize softmax log_softmax "
    "weight_norm dropout native_dropout alpha_dropout feature_dropout",
    "activation": "relu relu6 gelu silu sigmoid tanh elu selu celu leaky_relu prelu rrelu mish "
    "softplus hardswish hardsigmoid hardtanh glu log_sigmoid threshold softsign tanhshrink",
    "pooling": "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d upsample "
    "interpolate grid_sampler pixel_shuffle pixel_unshuffle",
    "reduction": "sum mean amax amin max min prod var std var_mean std_mean norm argmax argmin all "
    "any cumsum cumprod logsumexp logcumsumexp median mode topk sort argsort unique histc bincount "
    "kthvalue count_nonzero",
    "indexing": "embedding embedding_bag index index_select index_put index_add gather scatter "
    "scatter_add scatter_reduce masked_fill masked_select masked_scatter take where nonzero select "
    "slice narrow index_copy one_hot slice_scatter select_scatter searchsorted bucketize getitem",
    "shape": "view reshape permute transpose t unsqueeze squeeze expand flatten unflatten cat "
    "stack split split_with_sizes chunk unbind repeat repeat_interleave tile roll flip contiguous "
    "clone pad constant_pad_nd reflection_pad2d movedim swapaxes expand_as view_as alias detach "
    "as_strided copy to _to_copy type_as lift_fresh_copy lift_fresh real imag diagonal tril triu",
    "creation": "arange zeros ones full empty zeros_like ones_like full_like empty_like "
    "scalar_tensor eye linspace rand randn randint rand_like randn_like bernoulli new_zeros "
    "new_ones new_full new_empty tensor randperm multinomial normal",
    "control": "cond while_loop scan map sym_size sym_constrain_range "
    "sym_constrain_range_for_size item _local_scalar_dense wrap_with_set_grad_enabled",
}

CATEGORIES = (*_OPS, "elementwise", "other")
"""In the order of the viewer's colours. Other ATen ops are `elementwise`, all others `other`."""

_BY_OP = {op: category for category, ops in _OPS.items() for op in ops.split()}
_ENDINGS = ("_copy", "_forward", "_backward", "_")


@lru_cache(maxsize=4096)
def category_of(op_type: str) -> str:
    """The category of an op type such as `aten.conv2d.default`.

    >>> category_of("aten.conv2d.default"), category_of("aten.add.Tensor"), category_of("my.op")
    ('convolution', 'elementwise', 'other')
    """
    parts = op_type.split(".")
    name = parts[1] if len(parts) > 1 else parts[0]
    candidates = [name, name.lstrip("_")]
    candidates += [name.removesuffix(ending).lstrip("_") for ending in _ENDINGS]
    for candidate in candidates:
        if candidate in _BY_OP:
            return _BY_OP[candidate]
    for stem, category in (
        ("assert", "other"),
        ("scaled_dot_product", "attention"),
        ("upsample", "pooling"),
        ("conv", "convolution"),
        ("sym_", "control"),
    ):
        if name.lstrip("_").startswith(stem):
            return category
    return "elementwise" if parts[0] in {"aten", "operator", "prims"} else "other"
