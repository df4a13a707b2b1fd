"""Rows of reductions and scans."""

import math

import torch

from tests.lowering.cases import ALL, BOOL, FLOATS, HALF, INTS, OpCase, t

aten = torch.ops.aten
KINDS = [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
NUMBERS = [*FLOATS, *INTS]
SOME = [torch.float32, torch.bfloat16, torch.int64]
SOME_FLOATS = [torch.float32, torch.bfloat16]

# NaN in one line only, -0.0 beside 0.0, ties.
TIES = [
    [1.0, 3.0, 3.0, -2.0, 1.0],
    [math.nan, 1.0, math.nan, math.inf, 0.0],
    [0.0, -0.0, -math.inf, -0.0, 0.0],
    [2.0, 2.0, math.nan, 2.0, 2.0],
]
LONG = 8192


def of_expanded(x, shape):
    """What MAX makes of a broadcast before a reduction is a different tensor, or an error."""
    x = x.expand(shape)
    square = x * x + 1
    sums = x.sum(1), square.sum(1, True), square.sum(-1), x.prod(1)
    return *sums, x.amax(1), square.amin(1, True), (x > 0).any(1), x.all(1, True)


def _full(op, dtypes=KINDS):
    return [
        OpCase(op, (t(3, 4),), dtypes=dtypes),
        OpCase(op, (t(),)),
        OpCase(op, (t(2, 3, 4, prepare=lambda x: x.transpose(0, 2)),)),
    ]


def _dims(op, one, dtypes=KINDS, empty=True):
    """Rows of a reduction over dims; `one` says whether it takes a single dim only."""

    def dim(index):
        return index if one else [index]

    rows = [
        OpCase(op, (t(3, 4, 5), dim(1)), dtypes=dtypes),
        OpCase(op, (t(3, 4, 5), dim(-1), True)),
        OpCase(op, (t(values=TIES), dim(1)), dtypes=[d for d in dtypes if d.is_floating_point]),
        OpCase(op, (t(values=TIES), dim(0))),
        OpCase(op, (t(), dim(-1), True)),
        OpCase(op, (t(0, 3), dim(1))),
        OpCase(op, (t(2, 6, 19, special=True), dim(1))),
        OpCase(op, (t(2, 37, prepare=lambda x: x[:, ::2]), dim(1))),
    ]
    if empty:
        rows.append(OpCase(op, (t(3, 0), dim(1)), dtypes=[torch.float32, torch.int64]))
    if not one:
        rows += [
            OpCase(op, (t(2, 3, 4, 5), [-1, 1])),
            OpCase(op, (t(2, 3, 4, 5), [3, 0], True), dtypes=[torch.int64]),
            OpCase(op, (t(2, 3, 4, 5), [2, 1])),
            OpCase(op, (t(2, 3), [])),
        ]
    return rows


ROWS = [
    OpCase(of_expanded, (t(1, 2, 3), [2, 2, 3]), dtypes=[torch.float32, torch.int64]),
    OpCase(of_expanded, (t(1, 4, 5), [3, 4, 5]), dtypes=[torch.float64]),
    OpCase(of_expanded, (t(3, 1, 2), [3, 4, 2]), dtypes=[torch.bfloat16]),
    *_full(aten.all.default),
    OpCase(aten.all.default, (t(0),)),
    *_dims(aten.all.dim, one=True),
    *_dims(aten.all.dims, one=False),
    *_dims(aten.amax.default, one=False, dtypes=ALL, empty=False),
    *_dims(aten.amin.default, one=False, empty=False),
    OpCase(aten.aminmax.default, (t(3, 4, special=True),), dtypes=FLOATS),
    OpCase(aten.aminmax.default, (t(3, 4),), {"dim": 1, "keepdim": True}, dtypes=INTS),
    *_full(aten.any.default),
    OpCase(aten.any.default, (t(0),)),
    *_dims(aten.any.dim, one=True),
    *_dims(aten.any.dims, one=False),
    OpCase(aten.any.dims, (t(3, 4), None, True)),
    *_dims(aten.argmax.default, one=True, dtypes=NUMBERS, empty=False),
    OpCase(aten.argmax.default, (t(values=TIES),)),
    OpCase(aten.argmax.default, (t(3, 4), None, True), dtypes=SOME),
    *_dims(aten.argmin.default, one=True, dtypes=SOME, empty=False),
    OpCase(aten.argmin.default, (t(values=TIES),)),
    OpCase(aten.count_nonzero.default, (t(3, 4, special=True),), dtypes=SOME),
    OpCase(aten.count_nonzero.dim_IntList, (t(3, 4, 5, low=-1, high=2), [0, 2]), dtypes=INTS),
    OpCase(aten.cummax.default, (t(values=TIES), 1), dtypes=FLOATS),
    OpCase(aten.cummax.default, (t(4, 5, 3), 1), dtypes=[torch.int64, torch.uint8, *BOOL]),
    OpCase(aten.cummax.default, (t(), 0)),
    OpCase(aten.cummax.default, (t(0, 3), 0)),
    OpCase(aten.cummin.default, (t(values=TIES), -1), dtypes=FLOATS),
    OpCase(aten.cummin.default, (t(4, 5, 3), 0), dtypes=[torch.int32]),
    OpCase(aten.cumprod.default, (t(3, 7, low=0.5, high=2), 1), dtypes=ALL),
    OpCase(aten.cumprod.default, (t(3, 4, special=True), 0), dtypes=FLOATS),
    OpCase(aten.cumprod.default, (t(3, 4), 0), {"dtype": torch.float64}, dtypes=[torch.int32]),
    OpCase(aten.cumsum.default, (t(3, 4), -1), dtypes=ALL),
    OpCase(aten.cumsum.default, (t(3, 4, 5, special=True), 1), dtypes=FLOATS),
    OpCase(aten.cumsum.default, (t(), 0)),
    OpCase(aten.cumsum.default, (t(2, 0), 1)),
    OpCase(aten.cumsum.default, (t(2, 3000, low=0, high=1), 1), dtypes=[torch.float32, *HALF]),
    OpCase(
        aten.cumsum.default,
        (t(3, 4), 0),
        {"dtype": torch.float32},
        dtypes=[torch.int64, torch.uint8],
    ),
    OpCase(aten.linalg_vector_norm.default, (t(3, 4),), dtypes=FLOATS),
    *[
        OpCase(aten.linalg_vector_norm.default, (t(3, 4, 5, low=-2, high=2), p, [0, -1], keep))
        for p, keep in zip(
            (0, 1, 2, 3, 0.5, -1, math.inf, -math.inf), (False, True) * 4, strict=True
        )
    ],
    OpCase(aten.linalg_vector_norm.default, (t(values=TIES), math.inf, [1])),
    OpCase(aten.linalg_vector_norm.default, (t(values=TIES), 2, [1])),
    OpCase(aten.linalg_vector_norm.default, (t(), 2)),
    OpCase(aten.linalg_vector_norm.default, (t(3, 4), 2), {"dtype": torch.float32}, dtypes=HALF),
    OpCase(aten.logcumsumexp.default, (t(3, 6), 1), dtypes=FLOATS),
    OpCase(aten.logcumsumexp.default, (t(values=TIES), 1)),
    OpCase(
        aten.logcumsumexp.default,
        (t(values=[[-math.inf, -math.inf, 1.0], [math.inf, 1.0, math.inf]]), 1),
    ),
    OpCase(aten.logsumexp.default, (t(3, 4, 5), [1]), dtypes=FLOATS),
    OpCase(aten.logsumexp.default, (t(values=TIES), [-1], True)),
    OpCase(aten.logsumexp.default, (t(values=[[-math.inf, -math.inf]]), [1])),
    *_full(aten.max.default),
    OpCase(aten.max.default, (t(values=TIES),), dtypes=FLOATS),
    *_dims(aten.max.dim, one=True, dtypes=ALL, empty=False),
    OpCase(lambda x: aten.max.dim(x, 1)[0], (t(values=TIES),)),
    *_full(aten.mean.default, dtypes=FLOATS),
    OpCase(aten.mean.default, (t(0),)),
    *[
        row
        for row in _dims(aten.mean.dim, one=False, dtypes=FLOATS)
        if torch.int64 not in row.dtypes
    ],
    OpCase(
        aten.mean.default, (t(3, 4),), {"dtype": torch.float32}, dtypes=[torch.int64, torch.uint8]
    ),
    OpCase(aten.mean.dim, (t(3, 4), None), dtypes=FLOATS),
    OpCase(aten.mean.dim, (t(3, LONG, low=99, high=101), [1])),
    *_full(aten.min.default),
    *_dims(aten.min.dim, one=True, empty=False),
    OpCase(lambda x: aten.min.dim(x, 0)[0], (t(values=TIES),)),
    OpCase(aten.nansum.default, (t(values=TIES), [1]), dtypes=FLOATS),
    OpCase(aten.nansum.default, (t(3, 4),), dtypes=INTS),
    OpCase(aten.norm.Scalar, (t(3, 4), 1)),
    OpCase(aten.norm.ScalarOpt_dim, (t(3, 4), 2, [1], True), dtypes=FLOATS),
    *_full(aten.prod.default, dtypes=ALL),
    OpCase(aten.prod.default, (t(0),), dtypes=[torch.float32, torch.int64]),
    *_dims(aten.prod.dim_int, one=True),
    OpCase(aten.prod.dim_int, (t(3, 4), 0), {"dtype": torch.float64}, dtypes=[torch.int32]),
    OpCase(aten.std.correction, (t(3, 4, 5), [0, 2]), {"correction": 0}, dtypes=FLOATS),
    OpCase(aten.std_mean.correction, (t(3, 4), [1]), {"keepdim": True}),
    *_full(aten.sum.default, dtypes=ALL),
    OpCase(aten.sum.default, (t(0),), dtypes=KINDS),
    *_dims(aten.sum.dim_IntList, one=False),
    OpCase(aten.sum.dim_IntList, (t(3, 4), None, True), dtypes=SOME),
    OpCase(
        aten.sum.dim_IntList,
        (t(3, 4), [1]),
        {"dtype": torch.float32},
        dtypes=[torch.int32, torch.bfloat16],
    ),
    OpCase(aten.sum.default, (t(3, 4),), {"dtype": torch.int32}),
    OpCase(aten.sum.dim_IntList, (t(LONG, 5, low=0, high=1), [0])).within(2e-3, 1e-6),
    OpCase(aten.sum.dim_IntList, (t(2, LONG, low=0, high=1), [1])).within(2e-3, 1e-6),
    OpCase(aten.sum.default, (t(2, LONG, low=0, high=1),), dtypes=HALF),
    OpCase(aten.sum.default, (t(4099, low=0, high=1),)),
    OpCase(aten.var.correction, (t(3, 4, 5),), dtypes=FLOATS),
    *[
        OpCase(aten.var.correction, (t(3, 4, 5, low=99, high=101), dims), {"correction": c})
        for dims, c in ((None, 0), ([1], 1), ([0, -1], 2.5), ([1], 100))
    ],
    OpCase(aten.var.correction, (t(values=TIES), [1]), {"keepdim": True}),
    OpCase(aten.var.correction, (t(3, 0), [1])),
    OpCase(aten.var.correction, (t(3, 1), [1])),
    OpCase(aten.var.correction, (t(),)),
    OpCase(aten.var_mean.correction, (t(3, 4, 5), [0, 2]), {"correction": 0}, dtypes=FLOATS),
    OpCase(aten.var_mean.correction, (t(2, 5, 3), [1]), {"keepdim": True}),
    OpCase(
        aten.histc.default, (t(40, special=True), 7, -3, 4), dtypes=[torch.float32, torch.float64]
    ),
    OpCase(aten.histc.default, (t(5, 8), 10)),
    OpCase(aten.histc.default, (t(values=[2.0, 2.0]), 4)),
]
