"""Distances between rows. Sorted by ATen name."""

from __future__ import annotations

import torch
from max.graph import ops

from torch_max_backend.lowering import constants, shapes
from torch_max_backend.lowering.aten_functions.reduction import aten_linalg_vector_norm
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor

aten = torch.ops.aten


# _cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor
@map_to(aten._cdist_forward, needs_call=True)
def aten__cdist_forward(
    x1: MaxTensor, x2: MaxTensor, p: float, compute_mode: int | None, *, call: CallInfo
) -> MaxTensor:
    if 0 in call.output.shape or shapes.sizes(x1)[-1] == 0:
        return constants.full(call.output.shape, 0, call.output.dtype, call.device)
    # PyTorch's matmul form of p = 2 is faster for many rows but less exact: this is the exact form.
    difference = ops.unsqueeze(x1, -2) - ops.unsqueeze(x2, -3)
    return aten_linalg_vector_norm(difference, p, [-1], call=call)


# _pdist_forward(Tensor self, float p=2.) -> Tensor
@map_to(aten._pdist_forward, needs_call=True)
def aten__pdist_forward(self: MaxTensor, p: float = 2.0, *, call: CallInfo) -> MaxTensor:
    if 0 in call.output.shape or shapes.sizes(self)[-1] == 0:
        return constants.full(call.output.shape, 0, call.output.dtype, call.device)
    rows = shapes.static_size(self.shape[0], "pdist")
    first, second = torch.triu_indices(rows, rows, 1)
    left, right = (
        ops.gather(self, constants.constant(index, torch.int64, self.device), 0)
        for index in (first, second)
    )
    return aten_linalg_vector_norm(left - right, p, [-1], call=call)
