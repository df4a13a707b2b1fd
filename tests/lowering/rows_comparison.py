"""Rows of comparisons and of logic."""

import torch

from tests.lowering.cases import ALL, SOME, SOME_FLOATS, OpCase, t, together

aten = torch.ops.aten

nan, inf = float("nan"), float("inf")
PLAIN = [nan, inf, -inf, 0.0, -0.0, 1.0]
COLUMN = [[value] for value in PLAIN]

PACKETS = [aten.eq, aten.ge, aten.gt, aten.le, aten.lt, aten.ne]
tensors = together(*(op.Tensor for op in PACKETS))
scalars = together(*(op.Scalar for op in PACKETS))
logic = together(aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default)

ROWS = [
    OpCase(tensors, (t(4, 5, low=-2, high=2), t(5, low=-2, high=2)), dtypes=ALL),
    OpCase(tensors, (t(values=PLAIN), t(values=COLUMN)), dtypes=SOME_FLOATS),
    OpCase(tensors, (t(4, 5), t(dtype=torch.float64)), dtypes=SOME),
    OpCase(tensors, (t(4, 5), t(4, 1, dtype=torch.int8)), dtypes=SOME),
    OpCase(tensors, (t(0, 5), t(5))),
    OpCase(scalars, (t(4, 5), 1), dtypes=SOME),
    OpCase(scalars, (t(4, 5), -0.5), dtypes=SOME),
    OpCase(logic, (t(4, 5, special=True), t(5, low=0, high=3)), dtypes=ALL),
    OpCase(logic, (t(5), t(5, dtype=torch.bool)), dtypes=[torch.float32]),
    OpCase(aten.logical_not.default, (t(4, 5, special=True),), dtypes=ALL),
    OpCase(aten.logical_not.default, (t(),)),
]
