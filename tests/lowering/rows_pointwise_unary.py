"""Rows of pointwise ops of one tensor."""

import torch

from tests.lowering.cases import (
    ALL,
    BOOL,
    FLOATS,
    HALF,
    INTS,
    SOME,
    SOME_FLOATS,
    SOME_INTS,
    OpCase,
    signs,
    t,
    together,
)

aten = torch.ops.aten

SINGLE = [torch.float32, torch.float64]


FLOAT_FUNCTIONS = [
    aten.acos,
    aten.acosh,
    aten.angle,
    aten.asin,
    aten.asinh,
    aten.atan,
    aten.atanh,
    aten.cos,
    aten.cosh,
    aten.digamma,
    aten.erf,
    aten.erfc,
    aten.erfinv,
    aten.exp,
    aten.exp2,
    aten.expm1,
    aten.lgamma,
    aten.log,
    aten.log10,
    aten.log1p,
    aten.log2,
    aten.reciprocal,
    aten.rsqrt,
    aten.sigmoid,
    aten.sin,
    aten.sinc,
    aten.sinh,
    aten.sqrt,
    aten.tan,
    aten.tanh,
]
UNIT_INTERVAL = [aten.acos, aten.asin, aten.atanh, aten.erfinv, aten.logit]
WIDE_RANGE = [
    aten.acosh,
    aten.asinh,
    aten.atan,
    aten.cosh,
    aten.digamma,
    aten.erf,
    aten.erfc,
    aten.exp,
    aten.exp2,
    aten.expm1,
    aten.lgamma,
    aten.log,
    aten.log10,
    aten.log1p,
    aten.log2,
    aten.sigmoid,
    aten.sinh,
    aten.tanh,
]
EXTREMES = [
    1e-30,
    -1e-30,
    1e-7,
    0.5,
    1,
    2,
    10,
    -10,
    43.25,
    88.5,
    89.5,
    -89.5,
    130,
    705,  # PyTorch's vector cosh and sinh of float64 overflow at 710, its scalar ones do not
    1e30,
    -1e30,
]
predicates = together(
    aten.isfinite.default,
    aten.isinf.default,
    aten.isnan.default,
    aten.isneginf.default,
    aten.isposinf.default,
    aten.signbit.default,
)
rounding = together(aten.ceil.default, aten.floor.default, aten.round.default, aten.trunc.default)

ROWS = [
    *(OpCase(op.default, (t(3, 7, special=True),), dtypes=SOME_FLOATS) for op in FLOAT_FUNCTIONS),
    *(OpCase(op.default, (t(3, 7),), dtypes=[torch.int64]) for op in FLOAT_FUNCTIONS[::3]),
    *(OpCase(op.default, (t(values=EXTREMES),), dtypes=SINGLE) for op in WIDE_RANGE),
    *(
        OpCase(op.default, (t(33, low=-1.05, high=1.05, special=True),), dtypes=SINGLE)
        for op in UNIT_INTERVAL
    ),
    OpCase(predicates, (t(5, 3, special=True),), dtypes=ALL),
    OpCase(rounding, (t(4, 5, special=True),), dtypes=FLOATS + INTS),
    OpCase(rounding, (t(values=[-0.5, 0.5, -0.2, -0.0]),), expand=signs),
    OpCase(rounding, (t(values=[0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997]),)),
    OpCase(aten.abs.default, (t(4, 5, special=True),), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.abs.default, (t(),), dtypes=[torch.float32]),
    OpCase(aten.deg2rad.default, (t(4, 5),), dtypes=[torch.float32, torch.int64]),
    OpCase(aten.exp.default, (t(4, 5),), dtypes=INTS + BOOL),
    OpCase(aten.exp.default, (t(),)),
    OpCase(aten.exp.default, (t(0, 3),)),
    OpCase(aten.exp.default, (t(4, 6, prepare=lambda x: x.t()[1:, ::2]),)),
    OpCase(aten.frac.default, (t(4, 5, special=True),), dtypes=SOME_FLOATS),
    OpCase(aten.frexp.Tensor, (t(4, 5, special=True),), dtypes=FLOATS),
    OpCase(aten.frexp.Tensor, (t(values=[1e-30, -0.5, 1, 3, -1024, 1e30]),), dtypes=SINGLE),
    OpCase(aten.logit.default, (t(20, low=0, high=1), 0.1), dtypes=SOME_FLOATS),
    OpCase(aten.neg.default, (t(4, 5, special=True),), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.neg.default, (t(values=[-0.0, 0.0, 1.0]),), dtypes=SOME_FLOATS, expand=signs),
    OpCase(aten.round.decimals, (t(4, 5, special=True),), {"decimals": 2}, dtypes=SINGLE),
    OpCase(aten.round.decimals, (t(4, 5, low=-5000, high=5000),), {"decimals": -2}, dtypes=SINGLE),
    OpCase(aten.round.decimals, (t(4, 5),), {"decimals": 0}, dtypes=SOME_FLOATS),
    OpCase(aten.sgn.default, (t(4, 5, special=True),), dtypes=SOME),
    OpCase(aten.sign.default, (t(4, 5, special=True),), dtypes=SOME),
    OpCase(aten.signbit.default, (t(values=[-0.0, 0.0, -1.0, -float("nan")]),), dtypes=SOME_FLOATS),
    OpCase(aten.square.default, (t(4, 5, special=True),), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.tanh.default, (t(64, low=-0.3, high=0.3),), dtypes=HALF),
    OpCase(aten.tanh.default, (t(64, low=-12, high=12),), dtypes=SINGLE),
]
