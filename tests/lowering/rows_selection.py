"""Rows of masks, bounds, and the larger of two."""

import torch

from tests.lowering.cases import BOOL, SOME, SOME_FLOATS, SOME_INTS, OpCase, t, together

aten = torch.ops.aten

nan, inf = float("nan"), float("inf")
PLAIN = [nan, inf, -inf, 0.0, 1.0, -2.5]
COLUMN = [[value] for value in PLAIN]
mask = t(4, 5, dtype=torch.bool)
x = t(4, 5, special=True)
extrema = together(aten.fmax.default, aten.fmin.default, aten.maximum.default, aten.minimum.default)

ROWS = [
    OpCase(extrema, (t(values=PLAIN), t(values=COLUMN)), dtypes=SOME_FLOATS),
    OpCase(extrema, (t(4, 5), t(5)), dtypes=SOME_INTS + BOOL),
    OpCase(extrema, (t(4, 5), t(dtype=torch.float64)), dtypes=[torch.float32]),
    OpCase(aten.clamp.default, (x, -1, 1), dtypes=[*SOME_FLOATS, torch.int64, torch.int8]),
    OpCase(aten.clamp.default, (x, 1, 3), dtypes=[torch.uint8]),
    OpCase(aten.clamp.default, (x, None, 0.5), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.clamp.default, (x, 0.5), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.clamp.default, (x, 3, 1), dtypes=[torch.float32, torch.int64]),
    OpCase(aten.clamp.Tensor, (x, t(5, high=0), t(4, 1, low=0)), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.clamp.Tensor, (x, None, t(4, 1, low=0)), dtypes=SOME_FLOATS),
    OpCase(aten.clamp.Tensor, (t(6), t(values=PLAIN), None)),
    OpCase(aten.clamp_max.default, (x, 1), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.clamp_max.Tensor, (x, t(5)), dtypes=SOME_FLOATS),
    OpCase(aten.clamp_min.default, (x, 1), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.clamp_min.Tensor, (x, t(5)), dtypes=SOME_FLOATS),
    OpCase(aten.masked_fill.Scalar, (x, mask, -inf), dtypes=SOME_FLOATS),
    OpCase(aten.masked_fill.Scalar, (x, mask, 1), dtypes=SOME),
    OpCase(aten.masked_fill.Scalar, (t(5), mask, 3), dtypes=[torch.float32]),
    OpCase(aten.masked_fill.Scalar, (x, t(4, 1, dtype=torch.bool), 3), dtypes=[torch.float32]),
    OpCase(aten.masked_fill.Tensor, (x, mask, t()), dtypes=SOME),
    OpCase(aten.masked_fill.Tensor, (x, mask, t(dtype=torch.float64)), dtypes=SOME_FLOATS),
    OpCase(aten.nan_to_num.default, (x,), dtypes=SOME),
    OpCase(aten.nan_to_num.default, (x, 1.5, 2.5, -3.5), dtypes=SOME_FLOATS),
    OpCase(aten.nonzero_static.default, (t(values=PLAIN),), {"size": 4}),
    OpCase(aten.nonzero_static.default, (mask,), {"size": 30, "fill_value": 7}),
    OpCase(aten.nonzero_static.default, (t(2, 3, 4),), {"size": 2}, dtypes=SOME_INTS),
    OpCase(aten.where.self, (mask, x, t(5)), dtypes=SOME),
    OpCase(aten.where.self, (t(5, dtype=torch.bool), x, t()), dtypes=SOME),
    OpCase(aten.where.self, (t(4, 5, dtype=torch.bool), t(1), t(5)), dtypes=[torch.float32]),
    OpCase(aten.where.self, (mask, x, t(4, 5, dtype=torch.int64)), dtypes=SOME),
    OpCase(aten.where.self, (t(dtype=torch.bool), x, t(5))),
    OpCase(aten.where.ScalarOther, (mask, x, 2), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.where.ScalarSelf, (mask, 2.5, x), dtypes=SOME_FLOATS + SOME_INTS),
]
