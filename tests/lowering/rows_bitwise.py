"""Rows of bitwise ops."""

import torch

from tests.lowering.cases import BOOL, INTS, OpCase, t, together

aten = torch.ops.aten

PACKETS = [aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor]
tensors = together(*(op.Tensor for op in PACKETS))
scalars = together(*(op.Scalar for op in PACKETS))
scalar_tensors = together(*(op.Scalar_Tensor for op in PACKETS))
shifts = together(aten.bitwise_left_shift.Tensor, aten.bitwise_right_shift.Tensor)
scalar_shifts = together(
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.__lshift__.Scalar,
    aten.__rshift__.Scalar,
)
x = t(4, 5, low=-99, high=99)

ROWS = [
    OpCase(tensors, (x, t(5)), dtypes=INTS + BOOL),
    OpCase(tensors, (t(4, dtype=torch.int8), t(4)), dtypes=INTS),
    OpCase(scalars, (x, 6), dtypes=INTS),
    OpCase(scalar_tensors, (6, x), dtypes=INTS),
    OpCase(shifts, (x, t(values=[[0], [1], [3], [6]])), dtypes=INTS),
    OpCase(shifts, (t(5, low=-99, high=99), t(values=[[70], [8]])), dtypes=INTS),
    OpCase(scalar_shifts, (x, 2), dtypes=INTS),
    OpCase(aten.bitwise_not.default, (x,), dtypes=INTS + BOOL),
]
