"""Ops of our own that graph passes put in place of ATen's."""

from __future__ import annotations

from max.graph import TensorType, TensorValue, ops

from torch_max_backend import mojo_kernels, promotion
from torch_max_backend.registry import map_to
from torch_max_backend.types import MaxTensor
from torch_max_backend.weights import matvec, packed_mm


# torch_max_backend::matvec(Tensor self, Tensor weight) -> Tensor
@map_to(matvec)
def aten_matvec(self: MaxTensor, weight: MaxTensor) -> MaxTensor:
    """`self @ weight.T` for one row."""
    rows, columns = self.shape[0], weight.shape[0]
    outputs = [(promotion.dtype_of(self), [rows, columns])]
    return mojo_kernels.call("tmb_matvec", [self, weight], outputs)[0]


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
