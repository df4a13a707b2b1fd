"""Sums, means and maxima of bags of embeddings."""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.aten_functions.indexing import (
    aten_scatter_reduce,
    in_bounds,
)
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor

aten = torch.ops.aten

_REDUCTIONS = ("sum", "mean", "amax")


# _embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)
# _embedding_bag_forward_only(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)
@map_to(aten._embedding_bag, needs_call=True)
@map_to(aten._embedding_bag_forward_only, needs_call=True)
def aten__embedding_bag(
    weight: MaxTensor,
    indices: MaxTensor,
    offsets: MaxTensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: MaxTensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
    *,
    call: CallInfo,
) -> tuple[MaxTensor | None, ...]:
    if call.used_outputs - {0}:
        raise NotImplementedError("only the first output of embedding_bag is lowered")
    bags, width = call.output.shape
    dtype = call.output.dtype
    empty = constants.full([bags, width], 0, dtype, call.device)
    if 0 in (bags, width) or shapes.sizes(indices)[0] == 0:
        return empty, None, None, None
    count = shapes.sizes(indices)[0]
    rows = ops.gather(weight, in_bounds(indices, shapes.size(weight.shape[0])), 0)
    if per_sample_weights is not None:
        rows = rows * ops.unsqueeze(per_sample_weights, 1)
    # The bag of each index: how many bags begin at or before it, less one.
    starts = ops.reshape(promotion.cast(offsets, torch.int64), [1, offsets.shape[0]])
    places = ops.reshape(constants.iota(count, call.device), [1, count])
    wanted = [(torch.int64, [1, count])]
    [found] = mojo_kernels.call("tmb_searchsorted", [starts, places], wanted, {"right": True})
    bag = ops.reshape(found, [count]) - constants.scalar(1, torch.int64, call.device)
    target, spare = empty, padding_idx >= 0
    if spare:  # padding goes to an extra last bag, which is cut off
        target = constants.full([shapes.size(bags + 1), width], 0, dtype, call.device)
        padding = constants.scalar(padding_idx, torch.int64, call.device)
        last = constants.scalar(bags, torch.int64, call.device)
        is_padding = ops.equal(promotion.cast(indices, torch.int64), padding)
        bag = ops.where(is_padding, shapes.broadcast_to(last, bag.shape), bag)
    index = ops.broadcast_to(ops.unsqueeze(bag, 1), [count, width])
    result = aten_scatter_reduce(target, 0, index, rows, _REDUCTIONS[mode], include_self=False)
    return (result[0:bags, :] if spare else result), None, None, None
