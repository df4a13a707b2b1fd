"""Rows of sorting, order statistics and search."""

import math

import torch

from tests.lowering.cases import ALL, FLOATS, INTS, OpCase, t

aten = torch.ops.aten
NUMBERS = [*FLOATS, *INTS]
SOME = [torch.float32, torch.bfloat16, torch.int64]

TIES = [
    [1.0, 3.0, 3.0, -2.0, 1.0],
    [math.nan, 1.0, math.nan, math.inf, 0.0],
    [0.0, 2.0, -math.inf, 2.0, 0.0],
    [2.0, 2.0, math.nan, 2.0, 2.0],
    [math.nan] * 5,
]
STEPS = [-2.0, -1.0, 0.0, 0.0, 1.0, 3.0]


def values_only(op):
    """Where several places hold the value, any of them is right."""

    def function(*args, **kwargs):
        return op(*args, **kwargs)[0]

    return function


ROWS = [
    OpCase(
        aten.repeat_interleave.Tensor,
        (t(values=[0, 2, 0, 3, 1]),),
        {"output_size": 6},
        dtypes=[torch.int64, torch.int32],
    ),
    OpCase(aten.argsort.stable, (t(values=TIES),), {"stable": True, "dim": 1}),
    OpCase(aten.argsort.stable, (t(3, 40),), {"stable": True, "dim": 0, "descending": True}),
    *[
        OpCase(aten.bucketize.Tensor, (t(3, 4), t(values=STEPS)), {"right": right}, dtypes=SOME)
        for right in (False, True)
    ],
    OpCase(aten.bucketize.Tensor, (t(4, special=True), t(values=STEPS)), {"out_int32": True}),
    OpCase(aten.bucketize.Scalar, (0.5, t(values=STEPS))),
    OpCase(values_only(aten.kthvalue.default), (t(3, 7), 2), dtypes=SOME),
    OpCase(aten.kthvalue.default, (t(3, 7, 5), 3, 1, True)),
    OpCase(values_only(aten.kthvalue.default), (t(values=TIES), 4)),
    OpCase(aten.kthvalue.default, (t(), 1)),
    OpCase(aten.median.default, (t(3, 4),), dtypes=SOME),
    OpCase(aten.median.default, (t(values=TIES),)),
    OpCase(aten.median.default, (t(),)),
    OpCase(values_only(aten.median.dim), (t(3, 6), 1), dtypes=SOME),
    OpCase(values_only(aten.median.dim), (t(values=TIES), 1, True), dtypes=FLOATS),
    OpCase(aten.median.dim, (t(3, 7, 5), 1)),
    OpCase(aten.mode.default, (t(3, 8, low=0, high=4),), dtypes=[torch.int64, torch.uint8]),
    OpCase(aten.mode.default, (t(values=TIES[:1] + TIES[2:3]), 1, True), dtypes=FLOATS),
    OpCase(values_only(aten.mode.default), (t(values=TIES[3:4]), 1, True)),
    OpCase(aten.msort.default, (t(5, 3),)),
    OpCase(aten.nanmedian.default, (t(values=TIES),), dtypes=FLOATS),
    OpCase(values_only(aten.nanmedian.dim), (t(values=TIES), 1), dtypes=FLOATS),
    OpCase(values_only(aten.nanmedian.dim), (t(3, 6), 0, True), dtypes=[torch.int32]),
    OpCase(aten.searchsorted.Tensor, (t(values=STEPS), t(3, 4)), dtypes=NUMBERS),
    OpCase(
        aten.searchsorted.Tensor,
        (t(3, 6, prepare=lambda x: x.sort(-1)[0]), t(3, 4)),
        {"side": "right"},
        dtypes=SOME,
    ),
    OpCase(
        aten.searchsorted.Tensor,
        (t(values=[3.0, 1.0, 2.0]), t(5)),
        {"sorter": t(values=[1, 2, 0], dtype=torch.int64), "out_int32": True},
    ),
    OpCase(aten.searchsorted.Scalar, (t(values=STEPS), 0), {"right": True}),
    OpCase(aten.searchsorted.Tensor, (t(0), t(5))),
    OpCase(aten.sort.stable, (t(4, 9, low=-2, high=3),), {"stable": True}, dtypes=ALL),
    *[
        OpCase(aten.sort.stable, (x,), {"stable": True, "dim": dim, "descending": descending})
        for x in (t(values=TIES), t(3, 50, 4), t(2, 300, low=0, high=1))
        for dim in (1, 0)
        for descending in (False, True)
    ],
    OpCase(
        aten.sort.stable, (t(values=TIES),), {"stable": True, "descending": True}, dtypes=FLOATS
    ),
    OpCase(aten.sort.default, (t(4, 5),), dtypes=[torch.float32, torch.float64]),
    OpCase(aten.sort.default, (t(), 0)),
    OpCase(aten.sort.default, (t(0, 3), 0)),
    OpCase(aten.sort.default, (t(3, 0), 1, True)),
    OpCase(aten.sort.stable, (t(6, 7, prepare=lambda x: x.t()[1:]),), {"stable": True}),
    OpCase(values_only(aten.topk.default), (t(3, 9), 4), dtypes=NUMBERS),
    OpCase(aten.topk.default, (t(3, 9, 5), 2, 1), dtypes=[torch.float32, torch.float64]),
    OpCase(aten.topk.default, (t(3, 900), 5, -1, False)),
    OpCase(aten.topk.default, (t(2, 900), 200)),
    OpCase(values_only(aten.topk.default), (t(values=TIES), 3), dtypes=FLOATS),
    OpCase(values_only(aten.topk.default), (t(values=TIES), 3, 1, False), dtypes=FLOATS),
    OpCase(values_only(aten.topk.default), (t(4, 40, special=True), 3)),
    OpCase(aten.topk.default, (t(), 1)),
    OpCase(aten.topk.default, (t(3, 4), 0)),
]
