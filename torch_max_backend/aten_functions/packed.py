"""Ops of our own that graph passes put in place of ATen's."""

from __future__ import annotations

from max.graph import TensorType, TensorValue, ops

from torch_max_backend import constants, mojo_kernels, promotion, shapes
from torch_max_backend.fusion import rms_norm
from torch_max_backend.registry import map_to
from torch_max_backend.types import MaxTensor
from torch_max_backend.weights import matvec, matvec_group, packed_mm, panel_mm


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
    """`self @ weight.T` for one row and two or three weights, one after the other."""
    columns = sum(shapes.static_size(w.shape[0], "a weight's rows") for w in weights)
    outputs = [(promotion.dtype_of(self), [1, columns])]
    first, second, *rest = weights
    third = rest[0] if rest else second  # of two, the kernel does not read it
    return mojo_kernels.call("tmb_matvec_group", [self, first, second, third], outputs)[0]


# torch_max_backend::packed_mm(Tensor self, Tensor packed, int n) -> Tensor
@map_to(packed_mm)
def aten_packed_mm(self: MaxTensor, packed: MaxTensor, n: int) -> MaxTensor:
    """`self @ weight`, the weight as `weights.Layout.pack` leaves it."""
    # MAX's own matmul. Its public op drops `packed_b`, the kernel by its name does not.
    result: TensorValue = ops.custom(
        "mo.matmul",
        self.device,
        [self, packed],
        [TensorType(self.dtype, [self.shape[0], n], self.device)],
        parameters={"transpose_b": False, "packed_b": True},
    )[0].tensor
    return result


# torch_max_backend::panel_mm(Tensor self, Tensor panels, int n, int columns) -> Tensor
@map_to(panel_mm)
def aten_panel_mm(self: MaxTensor, panels: MaxTensor, n: int, columns: int) -> MaxTensor:
    """`self @ weight`, the weight as `weights.Panels` lays it out."""
    outputs = [(promotion.dtype_of(self), [shapes.size(self.shape[0]), n])]
    return mojo_kernels.call("tmb_panel_matmul", [self, panels], outputs)[0]


# torch_max_backend::rms_norm(Tensor self, Tensor? weight, float eps) -> Tensor
@map_to(rms_norm)
def aten_rms_norm(self: MaxTensor, weight: MaxTensor | None, eps: float) -> MaxTensor:
    """`self` over the root of its mean square along the last dim, times `weight`."""
    dtype = promotion.dtype_of(self)
    *leading, length = shapes.sizes(self)
    rows = [shapes.numel(leading), length]
    if weight is None:
        weight = constants.full([length], 1, dtype, self.device)
    inputs = [self.reshape(rows), weight, constants.constant([eps], dtype, self.device)]
    output = mojo_kernels.call("tmb_rms_norm", inputs, [(dtype, rows)])[0]
    return output.reshape(self.shape)
