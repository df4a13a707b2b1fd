"""Rows of comparisons and of logic."""

import torch

from tests.ops.cases import ALL, FLOATS, OpCase, t

aten = torch.ops.aten

# It mutates its own results, which AOTAutograd makes functional.
isclose = torch.func.functionalize(torch.isclose)
nan, inf = float("nan"), float("inf")
PLAIN = [nan, inf, -inf, 0.0, -0.0, 1.0]
COLUMN = [[value] for value in PLAIN]

COMPARISONS = [aten.eq, aten.ge, aten.gt, aten.le, aten.lt, aten.ne]
LOGIC = [aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default]

ROWS = [
    *(
        OpCase(op.Tensor, (t(4, 5, low=-2, high=2), t(5, low=-2, high=2)), dtypes=ALL)
        for op in COMPARISONS
    ),
    *(OpCase(op.Tensor, (t(values=PLAIN), t(values=COLUMN)), dtypes=FLOATS) for op in COMPARISONS),
    *(OpCase(op.Scalar, (t(4, 5), 1), dtypes=ALL) for op in COMPARISONS),
    *(OpCase(op.Scalar, (t(9), 0.5), dtypes=[torch.float16, torch.int32]) for op in COMPARISONS),
    *(OpCase(op, (t(4, 5, special=True), t(5, low=0, high=3)), dtypes=ALL) for op in LOGIC),
    *(OpCase(op, (t(5), t(5, dtype=torch.bool)), dtypes=[torch.float32]) for op in LOGIC),
    OpCase(aten.eq.Tensor, (t(4, 5), t(dtype=torch.float64))),
    OpCase(aten.eq.Tensor, (t(0, 5), t(5))),
    OpCase(isclose, (t(values=PLAIN), t(values=COLUMN)), dtypes=FLOATS),
    OpCase(isclose, (t(values=PLAIN), t(values=COLUMN), 1e-3, 1e-3, True), dtypes=FLOATS),
    OpCase(isclose, (t(9), t(9), 0.5, 0.5), dtypes=[torch.int64, torch.float32]),
    OpCase(aten.logical_not.default, (t(4, 5, special=True),), dtypes=ALL),
    OpCase(aten.logical_not.default, (t(),)),
]
