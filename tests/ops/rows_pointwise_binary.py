"""Rows of pointwise ops of two tensors."""

import torch

from tests.ops.cases import FLOATS, INTS, OpCase, t

aten = torch.ops.aten

ROWS = [
    OpCase(aten.add.Tensor, (t(3, 4, special=True), t(4)), dtypes=FLOATS + INTS),
]
