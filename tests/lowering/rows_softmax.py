"""Rows of softmax, its logarithm and their gradients."""

import math

import torch

from tests.lowering.cases import FLOATS, HALF, OpCase, t

aten = torch.ops.aten

EDGES = [
    [1.0, 2.0, math.nan, 3.0],
    [1.0, math.inf, 2.0, 3.0],
    [1.0, -math.inf, 2.0, 3.0],
    [-math.inf] * 4,
    [1e30, -1e30, 0.0, -0.0],
]


def sums_of_exponentials(x, dim):
    """To the last digits: Mojo's own exp of a float64 has 11, and PyTorch's all."""
    soft = torch.softmax(x, dim), torch.log_softmax(x, dim)
    return *soft, torch.logsumexp(x, dim), torch.logcumsumexp(x, dim)


ROWS = [
    row
    for op in (aten._softmax.default, aten._log_softmax.default)
    for row in (
        OpCase(op, (t(3, 4), -1, False), dtypes=FLOATS),
        OpCase(op, (t(3, 4, 5), 1, False), dtypes=[torch.float64]),
        OpCase(op, (t(3, 4, 37), -2, False), dtypes=[torch.float32, torch.bfloat16]),
        OpCase(op, (t(2, 3, 1031), 2, False), dtypes=FLOATS),
        OpCase(op, (t(3, 4, 5), 0, False)),
        OpCase(op, (t(values=EDGES), 1, False), dtypes=FLOATS),
        OpCase(op, (t(values=EDGES), 0, False)),
        OpCase(op, (t(), 0, False)),
        OpCase(op, (t(0, 3), 1, False)),
        OpCase(op, (t(3, 0), 1, False)),
        OpCase(op, (t(3, 1), 1, False)),
        OpCase(op, (t(6, 7, prepare=lambda x: x.t()), 1, False)),
        OpCase(op, (t(3, 4, low=-1000, high=1000), 1, False)),
    )
] + [
    OpCase(aten._safe_softmax.default, (t(values=EDGES), 1), dtypes=FLOATS),
    OpCase(aten._safe_softmax.default, (t(3, 4), 1, torch.float32), dtypes=HALF),
    OpCase(torch.softmax, (t(3, 4), 1, torch.float32), dtypes=HALF),
    *[
        OpCase(sums_of_exponentials, (t(19, 37), dim), dtypes=[torch.float64]).within(1e-15, 1e-14)
        for dim in (0, 1)
    ],
    *[
        OpCase(op, (t(3, 4, 5), t(3, 4, 5, low=0, high=1), dim, torch.float32))
        for op in (aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
        for dim in (1, -1)
    ],
    *[
        OpCase(op, (t(3, 4), t(3, 4, low=0, high=1), 1, torch.bfloat16), dtypes=[torch.bfloat16])
        for op in (aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
    ],
]
