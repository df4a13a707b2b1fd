"""Ops of our own, which graph passes put in place of ATen ops. Sorted by name."""

from __future__ import annotations

from typing import Any

import torch
from max.dtype import DType
from max.graph import BufferValue, Value, ops

from torch_max_backend.compat.max import stored
from torch_max_backend.lowering import constants, mojo_kernels, promotion, shapes
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor
from torch_max_backend.program.own_ops import (
    ACTIVATIONS,
    image_program,
    matvec,
    matvec_gated,
    matvec_group,
    packed_mm,
    packed_mm_gated,
    packed_mm_group,
    product,
    rms_norm,
    write_lines,
)


# torch_max_backend::image_program(Tensor x, Tensor weights, int[] program, float[] numbers, int workspace, int past, int outputs, int columns) -> Tensor
@map_to(image_program)
def aten_image_program(
    x: MaxTensor,
    weights: MaxTensor,
    program: list[int],
    numbers: list[float],
    workspace: int,
    past: int,
    outputs: int,
    columns: int,
) -> MaxTensor:
    """A convolution network on each row of `x`; the second result is the memory that it works in."""
    lines = constants.constant(program, torch.int64, x.device)
    floats = constants.constant(numbers, torch.float32, x.device)
    times = shapes.size(x.shape[0])
    results = [(torch.float32, [times, outputs]), (torch.float32, [times * workspace + past])]
    inputs = [x, weights, lines, floats]
    return mojo_kernels.call("tmb_image_program", inputs, results, {"columns": columns})[0]


def _columns(panels: MaxTensor) -> dict[str, bool | int | float | str | DType]:
    """The kernels' parameter: how wide a panel is."""
    return {"columns": shapes.static_size(panels.shape[2], "the columns of a panel")}


def _numbers(values: list[int], like: MaxTensor) -> MaxTensor:
    """Numbers that a kernel reads when it runs: one compiled kernel serves all of them."""
    return constants.constant(values, torch.int64, like.device)


def _follows(activation: str, other: MaxTensor | None = None, multiply: bool = False) -> list[int]:
    """The numbers by which `epilogue.mojo` knows what follows a product."""
    combined = 0 if other is None else 2 if multiply else 1
    return [list(ACTIVATIONS).index(activation), combined]


# torch_max_backend::matvec(Tensor self, Tensor weight, *, Tensor? bias=None, str activation="none", Tensor? other=None, bool multiply=False) -> Tensor
@map_to(matvec)
def aten_matvec(
    self: MaxTensor,
    weight: MaxTensor,
    *,
    bias: MaxTensor | None = None,
    activation: str = "none",
    other: MaxTensor | None = None,
    multiply: bool = False,
) -> MaxTensor:
    """`self @ weight.T` for one row, and what follows."""
    columns = shapes.size(weight.shape[0])
    outputs = [(promotion.dtype_of(self), [1, columns])]
    how = [int(bias is not None), *_follows(activation, other, multiply)]
    # The kernel does not read a bias or another tensor that is not there.
    added = self if bias is None else bias.reshape([1, columns])
    inputs = [self, weight, added, self if other is None else other, _numbers(how, self)]
    return mojo_kernels.call("tmb_matvec", inputs, outputs)[0]


# torch_max_backend::matvec_gated(Tensor self, Tensor gate, Tensor up, str activation) -> Tensor
@map_to(matvec_gated)
def aten_matvec_gated(
    self: MaxTensor, gate: MaxTensor, up: MaxTensor, activation: str
) -> MaxTensor:
    """`activation(self @ gate.T) * (self @ up.T)` for one row."""
    outputs = [(promotion.dtype_of(self), [1, shapes.size(gate.shape[0])])]
    inputs = [self, gate, up, _numbers(_follows(activation), self)]
    return mojo_kernels.call("tmb_matvec_gated", inputs, outputs)[0]


# torch_max_backend::matvec_group(Tensor self, Tensor[] weights, Tensor[] biases) -> Tensor[]
@map_to(matvec_group)
def aten_matvec_group(
    self: MaxTensor, weights: list[MaxTensor], biases: list[MaxTensor]
) -> list[MaxTensor]:
    """`self @ weight.T` of one row and two or three weights."""
    dtype, given = promotion.dtype_of(self), len(weights)
    widths = [shapes.size(weight.shape[0]) for weight in weights]
    # What is missing is not read: a third result has no columns then.
    added = [bias.reshape([1, n]) for bias, n in zip(biases, widths, strict=False)] or [self]
    inputs = [self, *_three(weights), *_three(added), _numbers([len(biases)], self)]
    outputs = [(dtype, [1, width]) for width in [*widths, *[0] * (3 - given)]]
    return mojo_kernels.call("tmb_matvec_group", inputs, outputs)[:given]


def _three(tensors: list[MaxTensor]) -> list[MaxTensor]:
    return [*tensors, *[tensors[-1]] * (3 - len(tensors))]


# torch_max_backend::packed_mm(Tensor self, Tensor panels, int n, *, str activation="none", Tensor? other=None, bool multiply=False) -> Tensor
@map_to(packed_mm)
def aten_packed_mm(
    self: MaxTensor,
    panels: MaxTensor,
    n: int,
    *,
    activation: str = "none",
    other: MaxTensor | None = None,
    multiply: bool = False,
) -> MaxTensor:
    """`self @ weight`, with the weight as packed by `packed_layout.Layout.pack`, and what follows."""
    outputs = [(promotion.dtype_of(self), [shapes.size(self.shape[0]), n])]
    how = _numbers(_follows(activation, other, multiply), self)
    # The kernel does not read another tensor that is not there.
    inputs = [self, panels, self if other is None else other, how]
    return mojo_kernels.call("tmb_packed_matmul", inputs, outputs, _columns(panels))[0]


# torch_max_backend::packed_mm_gated(Tensor self, Tensor panels, int n, str activation) -> Tensor
@map_to(packed_mm_gated)
def aten_packed_mm_gated(self: MaxTensor, panels: MaxTensor, n: int, activation: str) -> MaxTensor:
    """`activation(self @ gate) * (self @ up)`; the panels of both weights take turns."""
    outputs = [(promotion.dtype_of(self), [shapes.size(self.shape[0]), n])]
    inputs = [self, panels, _numbers(_follows(activation), self)]
    return mojo_kernels.call("tmb_packed_matmul_gated", inputs, outputs, _columns(panels))[0]


# torch_max_backend::packed_mm_group(Tensor self, Tensor panels, int[] widths) -> Tensor[]
@map_to(packed_mm_group)
def aten_packed_mm_group(self: MaxTensor, panels: MaxTensor, widths: list[int]) -> list[MaxTensor]:
    """The products with two or three weights, whose panels follow each other."""
    dtype, rows, given = promotion.dtype_of(self), shapes.size(self.shape[0]), len(widths)
    outputs = [(dtype, [rows, width]) for width in [*widths, *[0] * (3 - given)]]
    results = mojo_kernels.call(
        "tmb_packed_matmul_group", [self, panels], outputs, _columns(panels)
    )
    return results[:given]


def _as_stored(matrix: MaxTensor, transposed: bool) -> tuple[MaxTensor, bool]:
    """A matrix that the builder has transposed, since its argument lies so in memory, undone."""
    base = stored(matrix)
    return (matrix, transposed) if base is None else (base, not transposed)


# torch_max_backend::product(Tensor self, Tensor mat2, *, Tensor? bias=None, bool left_transposed=False, bool right_transposed=False) -> Tensor
@map_to(product)
def aten_product(
    self: MaxTensor,
    mat2: MaxTensor,
    *,
    bias: MaxTensor | None = None,
    left_transposed: bool = False,
    right_transposed: bool = False,
) -> MaxTensor:
    """A product of two matrices as they are stored."""
    self, left_transposed = _as_stored(self, left_transposed)
    mat2, right_transposed = _as_stored(mat2, right_transposed)
    rows = shapes.size(self.shape[1 if left_transposed else 0])
    columns = shapes.size(mat2.shape[0 if right_transposed else 1])
    outputs = [(promotion.dtype_of(self), [rows, columns])]
    how: dict[str, bool | int | float | str | DType] = {
        "left_transposed": left_transposed,
        "right_transposed": right_transposed,
        "biased": bias is not None,
    }
    # The kernel does not read a bias that is not there.
    added = constants.constant([0.0], promotion.dtype_of(self), self.device)
    inputs = [self, mat2, added if bias is None else bias]
    return mojo_kernels.call("tmb_product", inputs, outputs, how)[0]


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


# torch_max_backend::write_lines(Tensor self, int dim, Tensor index, Tensor source) -> Tensor
@map_to(write_lines)
def aten_write_lines(self: BufferValue, dim: int, index: MaxTensor, source: MaxTensor) -> MaxTensor:
    """`self` with `source` at the positions `index` of a dim, in the memory of `self`."""
    inputs: list[Value[Any]] = [self, index, source, _numbers([dim], source)]
    mojo_kernels.call_in_place("tmb_write_lines", source.device, inputs)
    return ops.buffer_load(self)
