"""Rows: convolution and its gradient."""

from __future__ import annotations

import torch

from tests.lowering.cases import FLOATS, OpCase, t
from tests.testing.image_networks import one_convolution
from torch_max_backend.program.own_ops import image_program

aten = torch.ops.aten


def conv(x, w, bias=None, s=(1,), p=(0,), d=(1,), transposed=False, op=(0,), groups=1, **kwargs):
    n = len(x.shape) - 2
    full = [list(v) * n if len(v) == 1 else list(v) for v in (s, p, d, op)]
    args = (x, w, bias, full[0], full[1], full[2], transposed, full[3], groups)
    return OpCase(aten.convolution.default, args, **kwargs)


def back(out, x, w, s=(1,), p=(0,), d=(1,), transposed=False, op=(0,), groups=1, **kwargs):
    n = len(x) - 2
    full = [list(v) * n if len(v) == 1 else list(v) for v in (s, p, d, op)]
    bias = w[1] * groups if transposed else w[0]
    mask = kwargs.pop("mask", [True, True, True])
    args = (
        t(*out),
        t(*x),
        t(*w),
        [bias],
        full[0],
        full[1],
        full[2],
        transposed,
        full[3],
        groups,
        mask,
    )
    return OpCase(aten.convolution_backward.default, args, **kwargs).within(2e-3, 1e-3)


def _rows_scaled(x, weight, scale):
    """A factor for each row of a picture, whose width is no multiple of a vector."""
    return torch.nn.functional.conv2d(x, weight, padding=(1, 0)) * scale


HALF_TOLERANCE = (0.5, 0.02)

ROWS = [
    OpCase(
        image_program.default, one_convolution(torch.randn(2, 5, 4, 7), torch.randn(21, 5, 1, 1))
    ),
    conv(t(2, 3, 8), t(4, 3, 3), t(4)),
    conv(t(2, 4, 9), t(6, 2, 3), t(6), s=(2,), p=(1,), d=(2,), groups=2),
    conv(t(2, 3, 7, 6), t(4, 3, 3, 2), t(4), dtypes=[torch.float32, torch.float64]),
    conv(t(2, 3, 7, 6, high=1, low=-1), t(4, 3, 3, 2, high=1, low=-1), t(4), dtypes=FLOATS),
    conv(t(1, 3, 7, 6), t(4, 3, 1, 1)),
    OpCase(_rows_scaled, (t(1, 3, 6, 7), t(4, 3, 3, 3), t(6, 1))),
    OpCase(_rows_scaled, (t(1, 3, 6, 7), t(4, 3, 3, 3), t(5))),
    conv(t(2, 3, 9, 8), t(4, 3, 3, 3), None, s=(2, 1), p=(1, 2), d=(1, 2)),
    conv(t(1, 6, 5, 5), t(6, 1, 3, 3), t(6), p=(1,), groups=6),
    conv(t(1, 6, 5, 5), t(12, 1, 3, 3), t(12), s=(2,), p=(1,), groups=6),
    conv(t(1, 6, 5, 5), t(9, 2, 3, 3), t(9), groups=3),
    conv(t(1, 3, 16, 16), t(8, 3, 8, 8), t(8), s=(8,)),
    conv(t(0, 3, 5, 5), t(4, 3, 3, 3), t(4)),
    conv(t(2, 3, 4, 5, prepare=lambda x: x.to(memory_format=torch.channels_last)), t(4, 3, 3, 3)),
    conv(t(1, 2, 4, 5, 6), t(3, 2, 2, 3, 2), t(3)),
    conv(t(1, 2, 5, 5, 6), t(3, 2, 2, 3, 2), t(3), s=(2, 1, 2), p=(1, 0, 1)),
    conv(t(1, 2, 5, 5, 6), t(3, 2, 2, 3, 2), None, d=(2, 1, 2)),
    conv(t(1, 4, 4, 5, 6), t(6, 2, 2, 2, 2), t(6), groups=2),
    conv(t(2, 3, 8), t(3, 4, 3), t(4), transposed=True, s=(2,), p=(1,), op=(1,)),
    conv(t(2, 3, 5, 4), t(3, 4, 3, 2), t(4), transposed=True),
    conv(t(2, 3, 5, 4), t(3, 4, 3, 2), t(4), transposed=True, s=(2, 3), p=(1, 0), op=(1, 2)),
    conv(t(2, 3, 5, 4), t(3, 4, 3, 2), None, transposed=True, s=(2,), p=(3, 2), d=(2, 1)),
    conv(t(2, 4, 5, 4), t(4, 3, 3, 3), t(6), transposed=True, s=(2,), p=(1,), groups=2),
    conv(t(1, 4, 5, 4), t(4, 1, 3, 3), t(4), transposed=True, p=(1,), groups=4),
    conv(
        t(1, 2, 3, 4, 3), t(2, 3, 2, 2, 3), t(3), transposed=True, s=(2,), p=(1, 0, 1), op=(0, 1, 0)
    ),
    back((2, 4, 6), (2, 3, 8), (4, 3, 3)),
    back((2, 4, 5, 5), (2, 3, 7, 6), (4, 3, 3, 2)),
    back((2, 4, 5, 5), (2, 3, 7, 6), (4, 3, 3, 2), mask=[False, True, False]),
    back((2, 4, 5, 5), (2, 3, 7, 6), (4, 3, 3, 2), mask=[True, True, False]),
    back((2, 4, 4, 4), (2, 3, 8, 8), (4, 3, 3, 3), s=(2,), p=(1,)),
    back((2, 4, 3, 3), (2, 3, 8, 8), (4, 3, 3, 3), s=(3,), p=(1,)),
    back((1, 4, 4, 4), (1, 3, 8, 8), (4, 3, 3, 3), d=(2,)),
    back((1, 6, 3, 3), (1, 6, 5, 5), (6, 1, 3, 3), groups=6),
    back((1, 6, 3, 3), (1, 4, 5, 5), (6, 2, 3, 3), groups=2),
    back((1, 4, 2, 2), (1, 3, 18, 18), (4, 3, 9, 9), s=(9,)),
    back((1, 3, 2, 3, 3), (1, 2, 3, 4, 5), (3, 2, 2, 2, 3)),
    back((2, 4, 7, 5), (2, 3, 5, 4), (3, 4, 3, 2), transposed=True),
    back((2, 6, 9, 7), (2, 4, 5, 4), (4, 3, 3, 3), transposed=True, s=(2,), p=(1,), groups=2),
    back((2, 4, 10, 8), (2, 3, 5, 4), (3, 4, 3, 3), transposed=True, s=(2,), p=(1,), op=(1,)),
    # Through PyTorch's own functions.
    OpCase(torch.nn.functional.conv2d, (t(3, 6, 6), t(4, 3, 3, 3), t(4)), {"padding": "same"}),
    OpCase(torch.nn.functional.conv1d, (t(2, 3, 6), t(4, 3, 3), t(4)), {"padding": 2}),
]
