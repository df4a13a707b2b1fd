"""Rows of bitwise ops."""

import torch

from tests.ops.cases import BOOL, INTS, OpCase, t

aten = torch.ops.aten

BINARY = [aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor]
SHIFTS = [aten.bitwise_left_shift, aten.bitwise_right_shift]

ROWS = [
    *(OpCase(op.Tensor, (t(4, 5, low=-99, high=99), t(5)), dtypes=INTS + BOOL) for op in BINARY),
    *(OpCase(op.Scalar, (t(4, 5, low=-99, high=99), 6), dtypes=INTS) for op in BINARY),
    *(OpCase(op.Scalar_Tensor, (6, t(4, 5, low=-99, high=99)), dtypes=INTS) for op in BINARY),
    *(OpCase(op.Tensor, (t(4, dtype=torch.int8), t(4)), dtypes=INTS) for op in BINARY),
    *(
        OpCase(
            op.Tensor,
            (t(4, 5, low=-99, high=99), t(values=[[0], [1], [3], [6]])),
            dtypes=INTS,
        )
        for op in SHIFTS
    ),
    *(
        OpCase(op.Tensor, (t(5, low=-99, high=99), t(values=[[70], [8]])), dtypes=INTS)
        for op in SHIFTS
    ),
    *(OpCase(op.Tensor_Scalar, (t(4, 5, low=-99, high=99), 2), dtypes=INTS) for op in SHIFTS),
    OpCase(aten.bitwise_not.default, (t(4, 5, low=-99, high=99),), dtypes=INTS + BOOL),
    OpCase(aten.__lshift__.Scalar, (t(4, 5), 2), dtypes=[torch.int64]),
    OpCase(aten.__rshift__.Scalar, (t(4, 5), 2), dtypes=[torch.int64]),
]
