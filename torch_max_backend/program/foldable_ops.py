"""Ops that PyTorch may run on parameters beforehand.

A package holds expressions of weights that strangers wrote, so none of these ops writes to its
arguments or reads memory beside them.
"""

from __future__ import annotations

import torch

from torch_max_backend.compat.torch import OpOverload, schema_of

aten = torch.ops.aten

RESHAPING = frozenset(
    {
        aten._unsafe_view,
        aten.alias,
        aten.detach,
        aten.expand,
        aten.reshape,
        aten.squeeze,
        aten.unsqueeze,
        aten.view,
    }
)
"""Ops that compute nothing and leave the order of the elements as it is."""

MOVING = RESHAPING | {
    aten.clone,
    aten.lift_fresh_copy,
    aten.permute,
    aten.select,
    aten.slice,
    aten.split,
    aten.split_with_sizes,
    aten.t,
    aten.transpose,
    aten.unbind,
}
"""Ops that compute nothing: MAX reads their argument at other places."""

_COMPUTING = frozenset(
    {
        aten._softmax,
        aten._to_copy,
        aten._unsafe_index,
        aten._upsample_bicubic2d_aa,
        aten._upsample_bilinear2d_aa,
        aten.addmm,
        aten.amax,
        aten.arange,
        aten.bmm,
        aten.cat,
        aten.constant_pad_nd,
        aten.copy,
        aten.cumsum,
        aten.embedding,
        aten.fill,
        aten.flip,
        aten.full,
        aten.full_like,
        aten.gather,
        aten.index,
        aten.index_select,
        aten.linalg_vector_norm,
        aten.mean,
        aten.mm,
        aten.ones_like,
        aten.repeat,
        aten.roll,
        aten.scalar_tensor,
        aten.select_scatter,
        aten.slice_scatter,
        aten.stack,
        aten.sum,
        aten.tril,
        aten.triu,
        aten.upsample_bicubic2d,
        aten.upsample_bilinear2d,
        aten.upsample_linear1d,
        aten.upsample_nearest1d,
        aten.upsample_nearest2d,
        aten.upsample_nearest3d,
        aten.upsample_trilinear3d,
        aten.zeros_like,
    }
)


def is_foldable(op: OpOverload) -> bool:
    """Whether an op is one of these, or a pointwise one."""
    known = op.overloadpacket in MOVING or op.overloadpacket in _COMPUTING
    return (known or torch.Tag.pointwise in op.tags) and not schema_of(op).is_mutable
