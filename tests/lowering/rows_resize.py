"""Rows: resizing, and padding by a tensor's own values."""

from __future__ import annotations

import torch

from tests.lowering.cases import FLOATS, HALF, INTS, OpCase, t

aten = torch.ops.aten
F = torch.nn.functional

SINGLE = [torch.float32, torch.float64]

ROWS = [
    OpCase(aten.reflection_pad1d.default, (t(2, 3, 5), [2, 1]), dtypes=[*FLOATS, *INTS]),
    OpCase(aten.reflection_pad1d.default, (t(3, 5), [4, 4])),
    OpCase(aten.reflection_pad2d.default, (t(2, 3, 5, 4), [1, 2, 3, 0])),
    OpCase(aten.reflection_pad2d.default, (t(3, 5, 4), [-1, 2, 0, -2])),
    OpCase(aten.reflection_pad3d.default, (t(1, 2, 3, 5, 4), [1, 2, 3, 0, 1, 1])),
    OpCase(aten.replication_pad1d.default, (t(2, 3, 5), [2, 7])),
    OpCase(aten.replication_pad2d.default, (t(2, 3, 5, 4), [1, 2, 3, 0]), dtypes=[*FLOATS, *INTS]),
    OpCase(aten.replication_pad2d.default, (t(3, 5, 4), [-1, 2, 0, -2])),
    OpCase(aten.replication_pad3d.default, (t(1, 2, 3, 5, 4), [1, 2, 3, 0, 1, 1])),
    OpCase(aten.reflection_pad1d_backward.default, (t(2, 3, 8), t(2, 3, 5), [2, 1]), dtypes=FLOATS),
    OpCase(aten.reflection_pad2d_backward.default, (t(2, 3, 8, 7), t(2, 3, 5, 4), [1, 2, 3, 0])),
    OpCase(
        aten.replication_pad2d_backward.default,
        (t(2, 3, 8, 7), t(2, 3, 5, 4), [1, 2, 3, 0]),
        dtypes=FLOATS,
    ),
    OpCase(aten.replication_pad1d_backward.default, (t(2, 3, 8), t(2, 3, 5), [4, -1])),
    OpCase(aten.upsample_nearest1d.default, (t(2, 3, 5), [12])),
    OpCase(aten.upsample_nearest2d.default, (t(2, 3, 4, 5), [8, 10]), dtypes=FLOATS),
    OpCase(aten.upsample_nearest2d.default, (t(2, 3, 4, 5), [7, 3])),
    OpCase(aten.upsample_nearest2d.default, (t(2, 3, 4, 5), [9, 11], 2.3, 2.3)),
    OpCase(aten.upsample_nearest3d.default, (t(1, 2, 2, 3, 4), [4, 3, 7])),
    OpCase(aten._upsample_nearest_exact2d.default, (t(2, 3, 4, 5), [7, 3])),
    OpCase(aten._upsample_nearest_exact1d.default, (t(2, 3, 5), [12], 2.5)),
    OpCase(aten.upsample_nearest2d.vec, (t(2, 3, 4, 5), None, [2.0, 2.0])),
    OpCase(aten.upsample_linear1d.default, (t(2, 3, 5), [12], False)),
    OpCase(aten.upsample_bilinear2d.default, (t(2, 3, 4, 5), [8, 10], False), dtypes=FLOATS),
    OpCase(aten.upsample_bilinear2d.default, (t(2, 3, 4, 5), [7, 3], True)),
    OpCase(aten.upsample_bilinear2d.default, (t(2, 3, 4, 5), [9, 11], False, 2.3, 2.3)),
    OpCase(aten.upsample_bilinear2d.default, (t(2, 3, 4, 5), [1, 1], True)),
    OpCase(aten.upsample_bilinear2d.vec, (t(2, 3, 4, 5), [6, 7], False, None)),
    OpCase(aten.upsample_trilinear3d.default, (t(1, 2, 2, 3, 4), [4, 3, 7], False)),
    OpCase(
        aten.upsample_bicubic2d.default,
        (t(2, 3, 4, 5), [8, 10], False),
        dtypes=[torch.float32, torch.float64],
    ),
    OpCase(aten.upsample_bicubic2d.default, (t(2, 3, 4, 5), [7, 3], True)),
    OpCase(aten.upsample_nearest1d_backward.default, (t(2, 3, 12), [12], [2, 3, 5])),
    OpCase(
        aten.upsample_nearest2d_backward.default,
        (t(2, 3, 8, 10), [8, 10], [2, 3, 4, 5]),
        dtypes=FLOATS,
    ),
    OpCase(aten._upsample_nearest_exact2d_backward.default, (t(2, 3, 7, 3), [7, 3], [2, 3, 4, 5])),
    OpCase(
        aten.upsample_bilinear2d_backward.default,
        (t(2, 3, 8, 10), [8, 10], [2, 3, 4, 5], False),
        dtypes=FLOATS,
    ),
    OpCase(aten.upsample_bilinear2d_backward.default, (t(2, 3, 7, 3), [7, 3], [2, 3, 4, 5], True)),
    OpCase(aten.upsample_bicubic2d_backward.default, (t(2, 3, 7, 9), [7, 9], [2, 3, 4, 5], False)),
    OpCase(
        aten.col2im.default,
        (t(2, 12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1]),
        dtypes=[torch.float32, torch.float64],
    ),
    # PyTorch adds in 16 bits.
    OpCase(
        aten.col2im.default, (t(2, 12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1]), dtypes=HALF
    ).within(4e-2, 4e-2),
    OpCase(aten.col2im.default, (t(2, 12, 30), [4, 5], [2, 2], [1, 1], [1, 1], [1, 1])),
    OpCase(aten.col2im.default, (t(12, 4), [5, 5], [2, 2], [2, 1], [1, 0], [3, 3])),
    OpCase(aten.im2col.default, (t(2, 3, 4, 5), [2, 2], [1, 1], [0, 0], [1, 1]), dtypes=FLOATS),
    OpCase(aten.im2col.default, (t(2, 3, 6, 5), [2, 3], [2, 1], [1, 1], [2, 1])),
    *(
        OpCase(
            aten.grid_sampler_2d.default,
            (t(2, 3, 4, 5), t(2, 3, 6, 2, low=-1.6, high=1.6), mode, padding, align),
        ).within(2e-4, 1e-4)
        for mode in (0, 1, 2)
        for padding in (0, 1, 2)
        for align in (False, True)
    ),
    OpCase(F.interpolate, (t(1, 2, 4, 5),), {"scale_factor": 2, "mode": "bilinear"}),
    OpCase(aten.upsample_bilinear2d.vec, (t(2, 3, 4, 5), None, False, [2.0, 1.5])),
    OpCase(aten.upsample_bilinear2d.vec, (t(2, 3, 4, 5), [7, 3], True, None)),
    OpCase(aten.upsample_nearest2d.vec, (t(2, 3, 4, 5), None, [2.0, 1.5])),
    OpCase(aten.upsample_nearest2d.vec, (t(2, 3, 4, 5), [7, 3], None)),
    *(
        OpCase(op, (t(2, 3, 9, 5), size, align), dtypes=SINGLE)
        for op in (aten._upsample_bilinear2d_aa.default, aten._upsample_bicubic2d_aa.default)
        for size in ([4, 7], [9, 2])
        for align in (False, True)
    ),
    OpCase(
        aten._upsample_bilinear2d_aa_backward.default, (t(1, 2, 4, 3), [4, 3], [1, 2, 9, 5], False)
    ),
    *(
        OpCase(
            aten.grid_sampler_3d.default,
            (t(2, 3, 4, 5, 3), t(2, 3, 2, 6, 3, low=-1.6, high=1.6), mode, padding, align),
        ).within(2e-4, 1e-4)
        for mode, padding, align in ((0, 0, False), (0, 1, True), (1, 2, False), (0, 2, True))
    ),
]
