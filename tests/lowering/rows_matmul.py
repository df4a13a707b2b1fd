"""Rows of matrix products."""

import math

import torch

from tests.lowering.cases import F32, FLOATS, HALF, INTS, OpCase, t
from torch_max_backend.program.own_ops import (
    ACTIVATIONS,
    matvec,
    matvec_gated,
    matvec_group,
    packed_mm,
    packed_mm_gated,
    packed_mm_group,
    product,
)

aten = torch.ops.aten
NUMBERS = [*FLOATS, *INTS]
SOME = [torch.float32, torch.bfloat16, torch.int64]


def _m(*shape, **keywords):
    return t(*shape, low=-2, high=3, **keywords)


def _product_and_more(left, right, bias):
    return torch.tanh(left @ right + bias).transpose(-1, -2) * 2


def _narrow_heads(left, right, scale):
    """Rows of a product divided into pieces shorter than a vector."""
    return (left @ right).unflatten(-1, (5, 4)) * scale


def _stored(left, right, bias=None, *, transposed):
    """A product whose operands are stored as their transposes, where `transposed` says so."""
    operands = [
        x.t().contiguous() if turn else x for x, turn in zip((left, right), transposed, strict=True)
    ]
    how = dict(zip(("left_transposed", "right_transposed"), transposed, strict=True))
    return product(*operands, bias=bias, **how)


NAN = t(3, 5, prepare=lambda x: x.fill_(math.nan))
ROWS = [
    *(
        OpCase(_stored, (_m(*left), _m(*right), *bias), {"transposed": (one, other)})
        for left, right, bias in (
            ((5, 7), (7, 33), ()),
            ((67, 300), (300, 70), (_m(70),)),
            ((300, 31), (31, 45), (_m(45),)),
            ((40, 0), (0, 9), (_m(9),)),
        )
        for one in (False, True)
        for other in (False, True)
    ),
    OpCase(_stored, (_m(0, 4), _m(4, 9)), {"transposed": (False, False)}),
    OpCase(aten.addbmm.default, (_m(3, 5), _m(2, 3, 4), _m(2, 4, 5)), dtypes=SOME).within(
        5e-2, 2e-2, HALF
    ),
    OpCase(aten.addbmm.default, (_m(5), _m(2, 3, 4), _m(2, 4, 5)), {"beta": 0.5, "alpha": 2}),
    OpCase(aten.addmm.default, (_m(5), _m(3, 4), _m(4, 5)), dtypes=NUMBERS),
    OpCase(
        aten.addmm.default, (_m(3, 5), _m(3, 4), _m(4, 5)), {"beta": 2, "alpha": 3}, dtypes=NUMBERS
    ),
    OpCase(
        aten.addmm.default,
        (_m(3, 5), _m(3, 4), _m(4, 5)),
        {"beta": 0.5, "alpha": -1.5},
        dtypes=FLOATS,
    ),
    OpCase(aten.addmm.default, (NAN, _m(3, 4), _m(4, 5)), {"beta": 0}),
    OpCase(aten.addmm.default, (_m(1, 5), _m(3, 4), _m(4, 5))),
    OpCase(aten.addmm.default, (_m(), _m(3, 4), _m(4, 5))),
    OpCase(aten.addmm.default, (_m(5), _m(3, 0), _m(0, 5))),
    OpCase(aten.addmm.default, (_m(5), _m(0, 4), _m(4, 5))),
    OpCase(
        aten.addmm.default, (_m(7), _m(33, 64), _m(7, 64, prepare=lambda x: x.t())), dtypes=FLOATS
    ),
    OpCase(aten.addmv.default, (_m(3), _m(3, 4), _m(4)), {"beta": 2, "alpha": 3}, dtypes=SOME),
    OpCase(aten.addmv.default, (t(values=[math.nan] * 3), _m(3, 4), _m(4)), {"beta": 0}),
    OpCase(aten.addr.default, (_m(3, 4), _m(3), _m(4)), {"beta": 2, "alpha": 3}, dtypes=SOME),
    OpCase(aten.baddbmm.default, (_m(2, 3, 5), _m(2, 3, 4), _m(2, 4, 5)), dtypes=SOME),
    OpCase(
        aten.baddbmm.default,
        (_m(5), _m(2, 3, 4), _m(2, 4, 5)),
        {"beta": 0.5, "alpha": 2},
        dtypes=FLOATS,
    ),
    OpCase(aten.baddbmm.default, (NAN, _m(2, 3, 4), _m(2, 4, 5)), {"beta": 0}),
    OpCase(aten.bmm.default, (_m(2, 3, 4), _m(2, 4, 5)), dtypes=NUMBERS),
    OpCase(aten.bmm.default, (_m(2, 3, 300), _m(2, 300, 5)), dtypes=HALF),
    OpCase(aten.bmm.default, (_m(0, 3, 4), _m(0, 4, 5))),
    OpCase(aten.bmm.default, (_m(2, 3, 0), _m(2, 0, 5))),
    OpCase(
        aten.bmm.default, (_m(2, 4, 3, prepare=lambda x: x.mT), _m(2, 5, 4, prepare=lambda x: x.mT))
    ),
    OpCase(aten.bmm.default, (t(1, 3, 4, special=True), _m(1, 4, 5))),
    OpCase(aten.dot.default, (_m(7), _m(7)), dtypes=SOME),
    OpCase(aten.dot.default, (_m(0), _m(0))),
    # More rows than pass by a panel at once, deeper than a panel, columns that fill no panel.
    OpCase(aten.mm.default, (_m(200, 401), _m(401, 37)), dtypes=[torch.float32, *HALF]).within(
        1e-3, 1e-5, F32
    ),
    OpCase(aten.linear.default, (_m(3, 7, 401), _m(37, 401), _m(37)), dtypes=FLOATS).within(
        1e-3, 1e-5, F32
    ),
    OpCase(torch.einsum, ("bij,bkj->bik", _m(2, 3, 4), _m(2, 5, 4))),
    OpCase(aten.linear.default, (_m(2, 3, 4), _m(5, 4), _m(5)), dtypes=FLOATS),
    OpCase(aten.linear.default, (_m(4), _m(5, 4), _m(5))),
    OpCase(aten.linear.default, (_m(2, 3, 4), _m(5, 4))),
    OpCase(aten.linear.default, (_m(0, 4), _m(5, 4), _m(5))),
    *[
        OpCase(torch.matmul, (_m(*a), _m(*b)))
        for a, b in [
            ((4,), (4,)),
            ((3, 4), (4,)),
            ((2, 3, 4), (4, 5)),
            ((2, 3, 4), (4,)),
            ((2, 1, 3, 4), (6, 4, 5)),
            ((3, 7, 9), (1, 9, 33)),
            ((1, 7, 9), (3, 9, 33)),
            ((4,), (3, 4, 5)),
        ]
    ],
    OpCase(aten.mm.default, (_m(3, 4), _m(4, 5)), dtypes=NUMBERS),
    OpCase(aten.mm.default, (_m(1, 64), _m(64, 96)), dtypes=FLOATS).within(1e-4, 1e-5, F32),
    OpCase(aten.mm.default, (_m(33, 64), _m(64, 1)), dtypes=FLOATS).within(1e-4, 1e-5, F32),
    OpCase(aten.mm.default, (t(3, 4, special=True), _m(4, 5))),
    OpCase(aten.mm.default, (_m(3, 0), _m(0, 5)), dtypes=[torch.float32, torch.int64]),
    OpCase(aten.mm.default, (_m(0, 4), _m(4, 5))),
    OpCase(aten.mm.default, (_m(3, 4), _m(4, 0))),
    OpCase(aten.mm.default, (_m(4, 3, prepare=lambda x: x.t()), _m(5, 4, prepare=lambda x: x.t()))),
    OpCase(aten.mv.default, (_m(3, 4), _m(4)), dtypes=SOME),
    OpCase(aten.mv.default, (_m(3, 0), _m(0))),
    OpCase(aten.vdot.default, (_m(7), _m(7)), dtypes=FLOATS),
    # What follows a product may not be computed in its vectors: they cross the heads.
    OpCase(_narrow_heads, (_m(7, 12), _m(12, 20), _m(5, 1))),
    OpCase(_narrow_heads, (_m(2, 7, 12), _m(2, 12, 20), _m(5, 1))),
    OpCase(_product_and_more, (_m(2, 7, 9), _m(2, 9, 33), _m(33))),
    OpCase(_product_and_more, (_m(7, 9), _m(9, 33), _m(33))),
    OpCase(matvec.default, (_m(1, 300), _m(70, 300)), dtypes=[torch.float32, *HALF]).within(
        1e-3, 1e-5, F32
    ),
    OpCase(matvec.default, (_m(1, 5), _m(3, 5))),
    OpCase(packed_mm.default, (_m(13, 9), _m(2, 9, 16), 29)),
    OpCase(packed_mm.default, (_m(13, 9), _m(1, 9, 32), 32)),
    OpCase(packed_mm.default, (_m(200, 800), _m(1, 800, 16), 16)).within(2e-3, 1e-5),
    # More rows than pass by at once, all sizes of tiles, a bias, no depth, one number deep.
    *[OpCase(packed_mm.default, (_m(m, 9), _m(2, 9, 32), 45)) for m in (1, 7, 15, 265)],
    OpCase(packed_mm.default, (_m(3, 0), _m(2, 1, 16), 29)),
    OpCase(packed_mm.default, (_m(3, 0), _m(2, 0, 16), 29)),
    OpCase(packed_mm.default, (_m(3, 1), _m(2, 1, 16), 29)),
    OpCase(packed_mm.default, (_m(0, 5), _m(2, 5, 16), 29)),
    *[
        OpCase(
            packed_mm.default,
            (_m(13, 9), _m(2, 10, 16), 29),
            {"activation": activation, "other": _m(13, 29), "multiply": activation == "silu"},
        ).within(1e-4, 1e-5)
        for activation in ACTIVATIONS
    ],
    OpCase(packed_mm.default, (_m(5, 9), _m(2, 9, 16), 32), {"activation": "gelu"}),
    OpCase(
        packed_mm.default,
        (_m(5, 2), t(1, 3, 16, special=True), 16),
        {"activation": "relu", "other": _m(5, 16)},
    ),
    OpCase(packed_mm_gated.default, (_m(13, 9), _m(4, 9, 16), 29, "silu")).within(1e-3, 1e-5),
    OpCase(packed_mm_gated.default, (_m(13, 9), _m(4, 10, 16), 32, "gelu_tanh")).within(1e-3, 1e-5),
    OpCase(packed_mm_group.default, (_m(13, 9), _m(4, 9, 16), [32, 29])),
    OpCase(packed_mm_group.default, (_m(13, 9), _m(6, 10, 16), [29, 32, 3])),
    *[
        OpCase(
            matvec.default,
            (_m(1, 41), _m(70, 41)),
            {"bias": _m(70), "activation": activation, "other": _m(1, 70), "multiply": product},
        ).within(1e-3, 1e-5)
        for activation, product in (("none", False), ("gelu_tanh", True), ("silu", False))
    ],
    OpCase(matvec.default, (_m(1, 5), t(3, 5, special=True)), {"activation": "relu"}),
    OpCase(matvec_gated.default, (_m(1, 300), _m(70, 300), _m(70, 300), "silu")).within(1e-2, 1e-5),
    OpCase(matvec_group.default, (_m(1, 300), [_m(70, 300), _m(33, 300), _m(2, 300)], [])).within(
        1e-3, 1e-5
    ),
    OpCase(matvec_group.default, (_m(1, 5), [_m(3, 5), _m(9, 5)], [_m(3), _m(9)])),
    OpCase(
        matvec_group.default, (_m(1, 5), [_m(3, 5), _m(9, 5)], []), dtypes=[torch.float32, *HALF]
    ),
    OpCase(torch.nn.functional.bilinear, (_m(3, 4), _m(3, 5), _m(2, 4, 5), _m(2))),
]
