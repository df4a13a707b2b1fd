"""Ops of our own, which graph passes put in place of ATen ops. Sorted by name."""

from __future__ import annotations

import torch

from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor
from torch_max_backend.program.own_ops import (
    image_program,
    matvec,
    matvec_group,
    packed_mm,
    rms_norm,
)


# torch_max_backend::image_program(Tensor x, Tensor weights, int[] program, float[] numbers, int workspace, int outputs, int columns) -> Tensor
@map_to(image_program)
def aten_image_program(
    x: MaxTensor,
    weights: MaxTensor,
    program: list[int],
    numbers: list[float],
    workspace: int,
    outputs: int,
    columns: int,
) -> MaxTensor:
    """A convolution network; the second result is the memory that it works in."""
    lines = constants.constant(program, torch.int64, x.device)
    floats = constants.constant(numbers, torch.float32, x.device)
    results = [(torch.float32, [outputs]), (torch.float32, [workspace])]
    inputs = [x, weights, lines, floats]
    return mojo_kernels.call("tmb_image_program", inputs, results, {"columns": columns})[0]


# torch_max_backend::matvec(Tensor self, Tensor weight) -> Tensor
@map_to(matvec)
def aten_matvec(self: MaxTensor, weight: MaxTensor) -> MaxTensor:
    """`self @ weight.T` for one row."""
    rows, columns = self.shape[0], weight.shape[0]
    outputs = [(promotion.dtype_of(self), [rows, columns])]
    return mojo_kernels.call("tmb_matvec", [self, weight], outputs)[0]


# torch_max_backend::matvec_group(Tensor self, Tensor[] weights) -> Tensor
@map_to(matvec_group)
def aten_matvec_group(self: MaxTensor, weights: list[MaxTensor]) -> MaxTensor:
    """`self @ weight.T` of one row and two or three weights, concatenated."""
    columns = sum(shapes.static_size(w.shape[0], "a weight's rows") for w in weights)
    outputs = [(promotion.dtype_of(self), [1, columns])]
    first, second, *rest = weights
    third = rest[0] if rest else second  # not read if there are two
    return mojo_kernels.call("tmb_matvec_group", [self, first, second, third], outputs)[0]


# torch_max_backend::packed_mm(Tensor self, Tensor panels, int n) -> Tensor
@map_to(packed_mm)
def aten_packed_mm(self: MaxTensor, panels: MaxTensor, n: int) -> MaxTensor:
    """`self @ weight`, with the weight as packed by `packed_layout.Layout.pack`."""
    outputs = [(promotion.dtype_of(self), [shapes.size(self.shape[0]), n])]
    columns = shapes.static_size(panels.shape[2], "the columns of a panel")
    return mojo_kernels.call("tmb_packed_matmul", [self, panels], outputs, {"columns": columns})[0]


# torch_max_backend::rms_norm(Tensor self, Tensor? weight, float eps) -> Tensor
@map_to(rms_norm)
def aten_rms_norm(self: MaxTensor, weight: MaxTensor | None, eps: float) -> MaxTensor:
    """`self` divided by the root of its mean square along the last dim, times `weight`."""
    dtype = promotion.dtype_of(self)
    *leading, length = shapes.sizes(self)
    rows = [shapes.numel(leading), length]
    if weight is None:
        weight = constants.full([length], 1, dtype, self.device)
    inputs = [self.reshape(rows), weight, constants.constant([eps], dtype, self.device)]
    output = mojo_kernels.call("tmb_rms_norm", inputs, [(dtype, rows)])[0]
    return output.reshape(self.shape)
