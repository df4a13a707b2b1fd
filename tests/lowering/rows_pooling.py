"""Rows: pooling and its gradient."""

from __future__ import annotations

import torch

from tests.lowering.cases import FLOATS, OpCase, t

aten = torch.ops.aten
I64 = torch.int64
NAN = t(1, 2, 5, 6, special=True)


def max_back(dims, grad, x, kernel, stride, padding=0, dilation=1, **kwargs):
    """The indices that PyTorch's forward pass gives for some input of shape `x`."""
    pool = getattr(aten, f"max_pool{dims}d_with_indices").default
    op = getattr(aten, f"max_pool{dims}d_with_indices_backward").default
    values = torch.rand(x, generator=torch.Generator().manual_seed(7))
    params = [[v] * dims for v in (kernel, stride, padding, dilation)]
    indices = pool(values, *params)[1]
    where = t(values=indices.tolist(), dtype=I64)
    return OpCase(op, (t(*grad), t(*x), *params, False, where), **kwargs)


def fractional(x, kernel, size, samples):
    """Both directions: the indices are only known to the forward."""
    dims = len(size)
    largest, indices = getattr(aten, f"fractional_max_pool{dims}d")(x, kernel, size, samples)
    backward = getattr(aten, f"fractional_max_pool{dims}d_backward")
    return largest, indices, backward(largest * 2, x, kernel, size, indices)


INDICES = t(
    values=torch.nn.functional.adaptive_max_pool2d(
        torch.arange(60.0).reshape(1, 2, 5, 6), (3, 4), True
    )[1].tolist(),
    dtype=I64,
)

ROWS = [
    OpCase(aten._adaptive_avg_pool2d.default, (t(2, 3, 7, 5), [3, 2]), dtypes=FLOATS),
    OpCase(aten._adaptive_avg_pool2d.default, (t(3, 7, 5), [1, 1])),
    OpCase(aten._adaptive_avg_pool2d.default, (t(1, 2, 3, 4), [7, 9])),
    OpCase(aten._adaptive_avg_pool2d.default, (NAN, [2, 3])),
    OpCase(aten._adaptive_avg_pool2d.default, (t(0, 3, 7, 5), [3, 2])),
    OpCase(
        aten._adaptive_avg_pool2d_backward.default, (t(2, 3, 3, 2), t(2, 3, 7, 5)), dtypes=FLOATS
    ),
    OpCase(aten._adaptive_avg_pool3d.default, (t(1, 2, 3, 7, 5), [2, 3, 2])),
    OpCase(aten._adaptive_avg_pool3d_backward.default, (t(1, 2, 2, 3, 2), t(1, 2, 3, 7, 5))),
    OpCase(aten.adaptive_avg_pool1d.default, (t(2, 3, 7), [3])),
    OpCase(aten.adaptive_max_pool2d.default, (t(2, 3, 7, 5), [3, 2]), dtypes=FLOATS),
    OpCase(aten.adaptive_max_pool2d.default, (NAN, [2, 3])),
    OpCase(aten.adaptive_max_pool2d.default, (t(3, 7, 5), [7, 5])),
    OpCase(aten.adaptive_max_pool2d_backward.default, (t(1, 2, 3, 4), t(1, 2, 5, 6), INDICES)),
    OpCase(aten.adaptive_max_pool3d.default, (t(1, 2, 3, 7, 5), [2, 3, 2])),
    OpCase(aten.avg_pool1d.default, (t(2, 3, 9), [3], [2], [1])),
    OpCase(aten.avg_pool1d.default, (t(3, 9), [2])),
    OpCase(aten.avg_pool2d.default, (t(2, 3, 7, 8), [3, 2]), dtypes=FLOATS),
    OpCase(aten.avg_pool2d.default, (t(2, 3, 7, 8), [3, 3], [2, 2], [1, 1])),
    OpCase(aten.avg_pool2d.default, (t(2, 3, 7, 8), [3, 3], [2, 2], [1, 1], True)),
    OpCase(aten.avg_pool2d.default, (t(2, 3, 7, 8), [3, 3], [2, 2], [1, 1], True, False)),
    OpCase(aten.avg_pool2d.default, (t(2, 3, 6, 6), [2, 2], [2, 2], [1, 1], True, False)),
    OpCase(aten.avg_pool2d.default, (t(2, 3, 7, 8), [3, 3], [2, 2], [1, 0], False, True, 5)),
    OpCase(aten.avg_pool2d.default, (t(2, 3, 7, 8), [3], [2], [1], True)),
    OpCase(aten.avg_pool2d.default, (NAN, [2, 2], [1, 1])),
    OpCase(aten.avg_pool2d.default, (t(3, 7, 8), [7, 8])),
    OpCase(
        aten.avg_pool2d_backward.default,
        (t(2, 3, 4, 4), t(2, 3, 7, 8), [3, 3], [2, 2], [1, 1], False, True, None),
        dtypes=FLOATS,
    ),
    OpCase(
        aten.avg_pool2d_backward.default,
        (t(2, 3, 4, 5), t(2, 3, 7, 8), [3, 3], [2, 2], [1, 1], True, False, None),
    ),
    OpCase(
        aten.avg_pool2d_backward.default,
        (t(2, 3, 2, 4), t(2, 3, 7, 8), [3, 2], [], [0, 0], False, True, 4),
    ),
    OpCase(aten.avg_pool3d.default, (t(1, 2, 5, 6, 7), [2, 3, 2], [2, 1, 2], [1, 1, 0])),
    OpCase(aten.avg_pool3d.default, (t(1, 2, 5, 6, 7), [2, 2, 2], [], [0, 0, 0], True)),
    OpCase(
        aten.avg_pool3d_backward.default,
        (t(1, 2, 2, 3, 3), t(1, 2, 5, 6, 7), [2, 2, 2], [2, 2, 2], [0, 0, 0], False, True, None),
    ),
    OpCase(aten.max_pool2d_with_indices.default, (t(2, 3, 7, 8), [3, 2]), dtypes=FLOATS),
    OpCase(aten.max_pool2d_with_indices.default, (t(2, 3, 7, 8), [3, 3], [2, 2], [1, 1])),
    OpCase(
        aten.max_pool2d_with_indices.default, (t(2, 3, 7, 8), [3, 3], [2, 2], [1, 1], [1, 1], True)
    ),
    OpCase(aten.max_pool2d_with_indices.default, (t(2, 3, 9, 8), [3, 2], [1, 2], [1, 0], [2, 3])),
    OpCase(
        aten.max_pool2d_with_indices.default, (t(2, 3, 6, 6), [2, 2], [2, 2], [1, 1], [1, 1], True)
    ),
    OpCase(aten.max_pool2d_with_indices.default, (NAN, [2, 2], [1, 1])),
    OpCase(aten.max_pool2d_with_indices.default, (NAN, [3, 3], [2, 2], [1, 1])),
    OpCase(aten.max_pool2d_with_indices.default, (t(1, 1, 4, 4, low=-9, high=-1), [3], [2], [1])),
    OpCase(aten.max_pool2d_with_indices.default, (t(1, 1, 4, 4, low=1, high=1), [2, 2])),
    OpCase(aten.max_pool2d_with_indices.default, (t(3, 4, 4), [2, 2])),
    OpCase(aten.max_pool2d_with_indices.default, (t(0, 3, 4, 4), [2, 2])),
    OpCase(
        aten.max_pool3d_with_indices.default, (t(1, 2, 5, 6, 7), [2, 3, 2], [2, 1, 2], [1, 1, 0])
    ),
    OpCase(
        aten.max_pool3d_with_indices.default,
        (t(1, 2, 5, 6, 7), [2, 2, 2], [], [0, 0, 0], [2, 1, 2], True),
    ),
    max_back(2, (2, 3, 3, 4), (2, 3, 7, 8), 2, 2, dtypes=FLOATS),
    max_back(2, (2, 3, 5, 6), (2, 3, 7, 8), 3, 1),
    max_back(3, (1, 2, 2, 3, 3), (1, 2, 5, 6, 7), 2, 2),
    OpCase(
        fractional,
        (t(2, 3, 7, 9), [2, 3], [3, 4], t(2, 3, 2, low=0, high=1)),
        dtypes=[torch.float32, torch.float64],
    ),
    OpCase(fractional, (t(3, 7, 9, 6), [2, 3, 2], [4, 1, 3], t(1, 3, 3, low=0, high=1))),
    OpCase(torch.nn.functional.max_pool1d, (t(2, 3, 9), 3)),
    OpCase(torch.nn.functional.adaptive_avg_pool2d, (t(2, 3, 4, 6), (2, 3))),
]
