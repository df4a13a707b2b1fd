"""Rows: distances between rows."""

from __future__ import annotations

import torch

from tests.lowering.cases import OpCase, t

aten = torch.ops.aten
INF = float("inf")

ROWS = [
    OpCase(
        aten._cdist_forward.default,
        (t(3, 4), t(5, 4), 2.0, 2),
        dtypes=[torch.float32, torch.float64],
    ),
    OpCase(aten._cdist_forward.default, (t(2, 3, 4), t(1, 5, 4), 1.0, None)),
    OpCase(aten._cdist_forward.default, (t(3, 4), t(5, 4), INF, None)),
    OpCase(aten._cdist_forward.default, (t(3, 4), t(5, 4), 0.0, None)),
    OpCase(aten._cdist_forward.default, (t(3, 0), t(5, 0), 2.0, None)),
    OpCase(aten._cdist_forward.default, (t(0, 4), t(5, 4), 2.0, None)),
    OpCase(aten._cdist_forward.default, (t(3, 4, special=True), t(2, 4), 3.0, None)),
    OpCase(aten._pdist_forward.default, (t(5, 4),), dtypes=[torch.float32, torch.float64]),
    OpCase(aten._pdist_forward.default, (t(5, 4), 1.0)),
    OpCase(aten._pdist_forward.default, (t(1, 4), 1.0)),
    OpCase(aten._pdist_forward.default, (t(4, 3), INF)),
]
