"""Rows: what mixtures of experts are made of."""

from __future__ import annotations

import torch

from tests.lowering.cases import FLOATS, OpCase, t

aten = torch.ops.aten
grouped_mm = torch.ops.torch_max_backend.grouped_mm.default
INT32 = torch.int32


def ends(*values, dtype=torch.int64):
    return t(values=values, dtype=dtype)


ROWS = [
    OpCase(grouped_mm, (t(6, 5), t(3, 20, 5), ends(2, 2, 6), True), dtypes=FLOATS),
    OpCase(grouped_mm, (t(6, 40), t(3, 40, 21), ends(2, 2, 6, dtype=INT32), False), dtypes=FLOATS),
    # Rows behind the last group are zeros.
    OpCase(grouped_mm, (t(6, 5), t(2, 3, 5), ends(1, 4), True)),
    OpCase(grouped_mm, (t(6, 5), t(2, 5, 3), ends(0, 0), False)),
    OpCase(grouped_mm, (t(0, 5), t(2, 5, 3), ends(0, 0), False)),
    OpCase(
        aten._grouped_mm.default,
        (t(8, 16), t(2, 16, 8), ends(3, 8, dtype=INT32)),
        dtypes=[torch.bfloat16],
    ),
]
