"""Matrix products of groups of rows, each group with its own matrix."""

from __future__ import annotations

import torch

from torch_max_backend.lowering import mojo_kernels, promotion, shapes
from torch_max_backend.lowering.registry import map_to
from torch_max_backend.lowering.types import MaxTensor
from torch_max_backend.program.own_ops import grouped_mm


# torch_max_backend::grouped_mm(Tensor self, Tensor mat2, Tensor offs, bool transposed) -> Tensor
@map_to(grouped_mm)
def aten_grouped_mm(
    self: MaxTensor, mat2: MaxTensor, offs: MaxTensor, transposed: bool
) -> MaxTensor:
    columns = shapes.size(mat2.shape[1 if transposed else 2])
    [result] = mojo_kernels.call(
        "tmb_grouped_mm",
        [self, mat2, promotion.cast(offs, torch.int64)],
        [(promotion.dtype_of(self), [shapes.size(self.shape[0]), columns])],
        {"transposed": transposed},
    )
    return result
