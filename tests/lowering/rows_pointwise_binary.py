"""Rows of arithmetic of two tensors."""

import functools

import torch

from tests.lowering.cases import (
    ALL,
    BOOL,
    HALF,
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
nan, inf = float("nan"), float("inf")

# Every pair of these meets: t(values=PLAIN) against t(values=COLUMN).
PLAIN = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 7.0, -7.0, 1e20]
COLUMN = [[value] for value in PLAIN]
WHOLE = [-7, -3, -2, -1, 1, 2, 3, 7]
WHOLE_COLUMN = [[value] for value in [-8, -7, -1, 0, 1, 5, 7, 8, 100]]


SIGNED = [torch.int64, torch.int32, torch.int16, torch.int8]
PAIRS = [
    aten.atan2.default,
    aten.copysign.Tensor,
    aten.div.Tensor,
    aten.floor_divide.default,
    aten.fmod.Tensor,
    aten.hypot.default,
    aten.logaddexp.default,
    aten.logaddexp2.default,
    aten.nextafter.default,
    aten.pow.Tensor_Tensor,
    aten.remainder.Tensor,
    aten.special_xlog1py.default,
    aten.xlogy.Tensor,
]
divisions = together(
    aten.div.Tensor,
    functools.partial(aten.div.Tensor_mode, rounding_mode="floor"),
    functools.partial(aten.div.Tensor_mode, rounding_mode="trunc"),
    aten.floor_divide.default,
    aten.fmod.Tensor,
    aten.remainder.Tensor,
)
POWERS = [0, 1, 2, 3, 4, 7, 9]


def rounded_numbers(x: torch.Tensor) -> list[torch.Tensor]:
    """Where PyTorch rounds a number to 16 bits and where it does not."""
    return [
        x + 0.7,
        x - 0.7,
        torch.add(x, x.flip(0), alpha=0.7),
        x * 0.7,
        x / 0.7,
        x % 0.7,
        torch.fmod(x, 0.7),
        x // 0.7,
    ]


def folded(x: torch.Tensor) -> list[torch.Tensor]:
    """What a compiler may not simplify where NaN, inf and -0.0 exist."""
    return [x - x, x / x, x * 0, 0 * x, x / 1, x == x, x != x, x <= x, x >= x, x < x, x > x]


ROWS = [
    OpCase(aten.add.Tensor, (t(3, 4, special=True), t(4)), dtypes=ALL),
    OpCase(aten.add.Tensor, (t(3, 4), t(3, 1)), {"alpha": 3}, dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.add.Tensor, (t(3, 4), t(3, 1)), {"alpha": 0.3}, dtypes=SOME_FLOATS),
    OpCase(aten.add.Tensor, (t(3, 4), t(dtype=torch.float64)), dtypes=SOME),
    OpCase(aten.add.Tensor, (t(), t(3, dtype=torch.int64)), dtypes=SOME),
    OpCase(aten.add.Tensor, (t(0, 4), t(4))),
    OpCase(aten.add.Tensor, (t(5, 3, prepare=lambda x: x.t()), t(3, 5))),
    OpCase(aten.add.Scalar, (t(3, 4), 2), dtypes=SOME),
    OpCase(aten.add.Scalar, (t(3, 4), 0.7), dtypes=SOME),
    OpCase(folded, (t(9, special=True),), dtypes=SOME_FLOATS),
    OpCase(rounded_numbers, (t(64),), dtypes=HALF).within(0, 0),
    OpCase(aten.add.Scalar, (t(3, 4), True), dtypes=BOOL),
    OpCase(aten.addcdiv.default, (t(3, 4), t(4), t(3, 1)), {"value": 0.5}, dtypes=SOME_FLOATS),
    OpCase(
        aten.addcmul.default, (t(3, 4), t(4), t(3, 1)), {"value": 2}, dtypes=SOME_FLOATS + SOME_INTS
    ),
    *(OpCase(op, (t(values=PLAIN), t(values=COLUMN)), dtypes=SINGLE) for op in PAIRS),
    *(
        OpCase(op, (t(4, 5), t(5)), dtypes=[torch.bfloat16])
        for op in PAIRS
        # It has its own row.
        if op is not aten.nextafter.default
    ),
    OpCase(divisions, (t(values=WHOLE_COLUMN), t(values=WHOLE)), dtypes=SIGNED),
    OpCase(
        divisions,
        (t(values=[[0], [5], [7], [255]]), t(values=[1, 2, 3, 200])),
        dtypes=[torch.uint8, *SOME_FLOATS],
    ),
    OpCase(aten.atan2.default, (t(3, 4), t(4)), dtypes=[torch.int64, *BOOL]),
    OpCase(aten.atan2.default, (t(values=[0.0, -0.0]), t(values=[-1.0, -0.0])), dtypes=SINGLE),
    OpCase(aten.copysign.Scalar, (t(3, 4), -2.0), dtypes=[*SOME_FLOATS, torch.int64]),
    OpCase(aten.copysign.Tensor, (t(values=[0.0, 1.0]), t(values=[-0.0, -0.0])), expand=signs),
    OpCase(aten.div.Scalar, (t(3, 4), 3), dtypes=SOME),
    OpCase(
        aten.div.Scalar_mode,
        (t(3, 4), 0.7),
        {"rounding_mode": "floor"},
        dtypes=SOME_FLOATS + SOME_INTS,
    ),
    OpCase(
        aten.div.Scalar_mode, (t(3, 4), -2), {"rounding_mode": "trunc"}, dtypes=SOME_FLOATS + SIGNED
    ),
    OpCase(aten.div.Tensor, (t(3, 4), t(4)), dtypes=BOOL),
    OpCase(
        aten.div.Tensor_mode,
        (t(values=PLAIN), t(values=COLUMN)),
        {"rounding_mode": "trunc"},
        dtypes=SINGLE,
    ),
    OpCase(
        aten.floor_divide.default,
        (t(values=[-2147483648, 6, -6]), t(values=[-1, 4, 4])),
        dtypes=[torch.int32, torch.int64],
    ),
    OpCase(aten.float_power.Tensor_Scalar, (t(3, 4), 2.5), dtypes=[torch.float32, torch.int64]),
    OpCase(aten.float_power.Tensor_Tensor, (t(3, 4), t(4)), dtypes=[torch.float32, torch.int64]),
    OpCase(aten.fmod.Scalar, (t(3, 4), -3), dtypes=SOME_FLOATS + SIGNED),
    OpCase(aten.fmod.Scalar, (t(3, 4), 0.7), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.gcd.default, (t(values=WHOLE_COLUMN), t(values=WHOLE)), dtypes=SIGNED),
    OpCase(aten.gcd.default, (t(9, high=200), t(9, high=200)), dtypes=[torch.uint8]),
    OpCase(aten.heaviside.default, (t(4, special=True), t(4)), dtypes=[*SOME_FLOATS, torch.int64]),
    OpCase(aten.lcm.default, (t(values=WHOLE_COLUMN), t(values=[0, 1, 3, -4])), dtypes=SIGNED[:1]),
    OpCase(aten.ldexp.Tensor, (t(3, 4), t(4, dtype=torch.int32)), dtypes=SOME_FLOATS),
    OpCase(aten.lerp.Scalar, (t(3, 4), t(3, 4), 0.3), dtypes=SOME_FLOATS),
    OpCase(aten.lerp.Tensor, (t(3, 4), t(3, 4), t(4)), dtypes=SOME_FLOATS),
    OpCase(aten.mul.Tensor, (t(3, 4, special=True), t(4)), dtypes=ALL),
    OpCase(aten.mul.Tensor, (t(3, 4), t(dtype=torch.float64)), dtypes=SOME),
    OpCase(aten.mul.Tensor, (t(values=[0.0, 2.0]), t(values=[-1.0, -0.0])), expand=signs),
    OpCase(aten.mul.Scalar, (t(3, 4), 0.1), dtypes=SOME),
    OpCase(aten.mul.Scalar, (t(3, 4), -2), dtypes=SOME_FLOATS + SIGNED),
    OpCase(aten.nextafter.default, (t(values=PLAIN), t(values=COLUMN)), dtypes=[torch.bfloat16]),
    OpCase(aten.nextafter.default, (t(40), t(40)), dtypes=SINGLE).within(0, 0),
    OpCase(aten.pow.Scalar, (2, t(3, 4, special=True)), dtypes=SOME_FLOATS),
    OpCase(aten.pow.Scalar, (2, t(5, low=0)), dtypes=SOME_INTS),
    OpCase(aten.pow.Scalar, (2.0, t(5)), dtypes=SOME_INTS),
    OpCase(aten.pow.Scalar, (1.7, t(3, 4)), dtypes=[*SOME_FLOATS, torch.int64]),
    *(OpCase(aten.pow.Tensor_Scalar, (t(3, 4), n), dtypes=SOME_FLOATS + SOME_INTS) for n in POWERS),
    *(
        OpCase(aten.pow.Tensor_Scalar, (t(3, 4, special=True), n), dtypes=SINGLE)
        for n in (0, 0.5, -0.5, 1.7, -1, -2, -3, 2.0, 3.0)
    ),
    OpCase(aten.pow.Tensor_Scalar, (t(3, 4), 2), dtypes=BOOL),
    OpCase(aten.pow.Tensor_Scalar, (t(3, 4), 1.5), dtypes=[*HALF, torch.int64]),
    OpCase(
        aten.pow.Tensor_Tensor,
        (t(values=[[-3], [-1], [0], [1], [2], [5]]), t(values=[-3, -2, -1, 0, 1, 2, 5])),
        dtypes=SIGNED,
    ),
    OpCase(aten.pow.Tensor_Tensor, (t(3, 4), t(4, dtype=torch.int64)), dtypes=SOME_FLOATS),
    OpCase(aten.remainder.Scalar, (t(3, 4), -3), dtypes=SOME_FLOATS + SIGNED),
    OpCase(aten.remainder.Scalar, (t(3, 4), 0.7), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.remainder.Scalar_Tensor, (7, t(3, 4, low=1)), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.remainder.Tensor, (t(40, low=-1e6, high=1e6), t(40)), dtypes=SINGLE),
    OpCase(aten.rsub.Scalar, (t(3, 4), 0), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.rsub.Scalar, (t(3, 4), 2), {"alpha": 3}, dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.rsub.Tensor, (t(3, 4), t(4)), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(
        aten.sub.Tensor, (t(3, 4, special=True), t(4)), {"alpha": 2}, dtypes=SOME_FLOATS + SOME_INTS
    ),
    OpCase(aten.sub.Tensor, (t(3, 4), t()), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.sub.Scalar, (t(3, 4), 0.3), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.true_divide.Tensor, (t(3, 4), t(4)), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.xlogy.Scalar_Self, (0, t(values=PLAIN)), dtypes=SINGLE),
    OpCase(aten.xlogy.Scalar_Other, (t(3, 4), 2.0), dtypes=[*SOME_FLOATS, torch.int64]),
]
