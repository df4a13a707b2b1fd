"""Rows: creation ops."""

from __future__ import annotations

import torch

from tests.lowering.cases import ALL, BOOL, FLOATS, INTS, OpCase, t

aten = torch.ops.aten


def _zeroed(results: list[torch.Tensor]) -> list[torch.Tensor]:
    """What an uninitialised tensor promises: shape and dtype."""
    return [torch.zeros_like(result) for result in results]


def _to(op, *args):
    """Creation ops take no tensor that carries the row's dtype: one case per dtype."""
    return [OpCase(op, args, {"dtype": dtype}, dtypes=[dtype]) for dtype in ALL]


ROWS = [
    OpCase(aten.arange.start_step, (0, 7), {"dtype": torch.int64}),
    OpCase(aten.arange.start_step, (1, 8, 3)),
    OpCase(aten.arange.start_step, (8, 1, -3)),
    OpCase(aten.arange.start_step, (0.5, 3.0, 0.25)),
    OpCase(aten.arange.start_step, (0, 5, 1), {"dtype": torch.float16}),
    OpCase(aten.arange.start_step, (0, 50, 7), {"dtype": torch.bfloat16}),
    OpCase(aten.arange.start_step, (0.0, 1.0, 0.1), {"dtype": torch.float64}),
    OpCase(aten.arange.start_step, (3, 3)),
    OpCase(aten.arange.start_step, (0, 100, 1), {"dtype": torch.uint8}),
    OpCase(aten.arange.default, (5,)),
    OpCase(aten.arange.start, (2, 5), {"dtype": torch.int32}),
    *_to(aten.empty.memory_format, [2, 3]),
    OpCase(aten.empty_like.default, (t(2, 3),), dtypes=ALL),
    OpCase(aten.empty_permuted.default, ([2, 3], [1, 0])),
    OpCase(aten.empty_strided.default, ([2, 3], [3, 1])),
    *_to(aten.eye.m, 3, 4),
    OpCase(aten.eye.default, (3,)),
    OpCase(aten.fill.Scalar, (t(2, 3), 2), dtypes=ALL),
    OpCase(aten.fill.Tensor, (t(2, 3), t()), dtypes=[*FLOATS, *INTS]),
    *_to(aten.full.default, [2, 3], 2),
    OpCase(aten.full.default, ([2], float("nan"))),
    OpCase(aten.full.default, ([], True)),
    OpCase(aten.full.default, ([0, 2], 1.5)),
    OpCase(aten.full_like.default, (t(2, 3), 3), dtypes=ALL),
    OpCase(aten.full_like.default, (t(2, 3), 3), {"dtype": torch.float16}),
    OpCase(aten.linspace.default, (0, 1, 7)),
    OpCase(aten.linspace.default, (3.5, -1, 4), {"dtype": torch.float64}),
    OpCase(aten.linspace.default, (1, 5, 1)),
    OpCase(aten.linspace.default, (1, 5, 0)),
    OpCase(aten.linspace.default, (0, 10, 4), {"dtype": torch.int64}),
    OpCase(aten.new_empty.default, (t(2), [3])),
    OpCase(aten.new_full.default, (t(2), [3, 2], 5), dtypes=ALL),
    OpCase(aten.new_ones.default, (t(2), [3, 2]), dtypes=[torch.float16, torch.int32, *BOOL]),
    OpCase(aten.new_zeros.default, (t(2), [3, 2]), dtypes=[torch.float16, torch.int32, *BOOL]),
    *_to(aten.ones.default, [2, 3]),
    OpCase(aten.ones_like.default, (t(2, 3),), dtypes=ALL),
    *_to(aten.scalar_tensor.default, 3),
    OpCase(aten.scalar_tensor.default, (-0.0,)),
    OpCase(aten.tril.default, (t(4, 5),), dtypes=ALL),
    OpCase(aten.tril.default, (t(2, 4, 5), -1)),
    OpCase(aten.tril.default, (t(4, 5), 2)),
    OpCase(aten.tril.default, (t(0, 5), 2)),
    OpCase(aten.tril_indices.default, (4, 5, 1)),
    OpCase(aten.tril_indices.default, (0, 5)),
    OpCase(aten.triu.default, (t(4, 5),), dtypes=ALL),
    OpCase(aten.triu.default, (t(4, 5), -9)),
    OpCase(aten.triu.default, (t(4, 5, special=True), 9)),
    OpCase(aten.triu_indices.default, (4, 5, -1), {"dtype": torch.int32}),
    *_to(aten.zeros.default, [2, 3]),
    OpCase(aten.zeros_like.default, (t(2, 3),), dtypes=ALL),
]

for _i, _case in enumerate(ROWS):
    if "empty" in str(_case.op):
        ROWS[_i] = OpCase(_case.op, _case.args, _case.kwargs, _case.dtypes, expand=_zeroed)
