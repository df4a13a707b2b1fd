"""Softmax and its logarithm, whose gradients PyTorch decomposes. Sorted by ATen name."""

from __future__ import annotations

import torch

from torch_max_backend.lowering import mojo_kernels, shapes
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import CallInfo, MaxTensor

aten = torch.ops.aten


def _softmax(self: MaxTensor, dim: int, call: CallInfo, logarithm: bool) -> MaxTensor:
    # With a NaN or +inf in a line, PyTorch's result is NaN in the whole line; MAX's is not.
    lines = shapes.fold(self, [shapes.dim(dim, len(self.shape))] if self.shape else [])
    outputs = [(call.output.dtype, lines.shape)]
    result = mojo_kernels.call("tmb_softmax", [lines], outputs, {"logarithm": logarithm})[0]
    return result.reshape(self.shape)


# _log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
@map_to(aten._log_softmax, needs_call=True)
def aten__log_softmax(
    self: MaxTensor, dim: int, half_to_float: bool, *, call: CallInfo
) -> MaxTensor:
    return _softmax(self, dim, call, logarithm=True)


# _softmax(Tensor self, int dim, bool half_to_float) -> Tensor
@map_to(aten._softmax, needs_call=True)
def aten__softmax(self: MaxTensor, dim: int, half_to_float: bool, *, call: CallInfo) -> MaxTensor:
    return _softmax(self, dim, call, logarithm=False)
