"""Rows of batch, group, instance, layer and RMS norm."""

import torch

from tests.lowering.cases import FLOATS, HALF, OpCase, t
from torch_max_backend.program.own_ops import rms_norm

aten = torch.ops.aten
F32 = torch.float32


def _image(c, *spatial):
    return t(3, c, *spatial, low=-2, high=4)


def _channel(c, dtype=None):
    return t(c, low=0.5, high=2, dtype=dtype)


ALL_GRADS = [True, True, True]
C = 4


def _layer_norm_gradient(grad, x, dims, weight, bias):
    """The backward op takes the forward's own statistics."""
    _, mean, rstd = aten.native_layer_norm(x, dims, weight, bias, 1e-5)
    wanted = [True, weight is not None, bias is not None]
    grads = aten.native_layer_norm_backward(grad, x, dims, mean, rstd, weight, bias, wanted)
    return [grad for grad, kept in zip(grads, wanted, strict=True) if kept]


ROWS = [
    OpCase(aten._batch_norm_no_update.default, (_image(C, 5), *[_channel(C)] * 4, 0.1, 1e-5)),
    OpCase(
        aten._batch_norm_with_update_functional.default,
        (_image(C, 5), *[_channel(C)] * 4, 0.1, 1e-5),
    ),
    OpCase(
        aten._native_batch_norm_legit.no_stats,
        (_image(C, 5, 6), _channel(C), _channel(C), True, 0.1, 1e-5),
    ),
    OpCase(aten._native_batch_norm_legit.no_stats, (_image(C, 5, 6), None, None, True, 0.1, 1e-5)),
    OpCase(
        aten._native_batch_norm_legit_functional.default,
        (_image(C, 5, 6), *[_channel(C)] * 4, True, 0.1, 1e-5),
    ),
    OpCase(
        aten._native_batch_norm_legit_functional.default,
        (_image(C), *[_channel(C)] * 4, True, 0.1, 1e-5),
    ),
    OpCase(
        aten._native_batch_norm_legit_no_training.default,
        (_image(C, 5, 6), *[_channel(C)] * 4, 0.1, 1e-5),
        dtypes=FLOATS,
    ),
    OpCase(
        aten._native_batch_norm_legit_no_training.default,
        (_image(C), *[_channel(C)] * 4, 0.1, 1e-5),
    ),
    OpCase(
        aten._native_batch_norm_legit_no_training.default,
        (_image(C, 2, 3, 4), None, None, *[_channel(C)] * 2, 0.1, 1e-3),
    ),
    OpCase(
        aten._native_batch_norm_legit_no_training.default,
        (_image(C, 5), *[_channel(C, F32)] * 4, 0.1, 1e-5),
        dtypes=HALF,
    ),
    OpCase(
        aten._native_batch_norm_legit_no_training.default,
        (t(2, C, 3, special=True), *[_channel(C)] * 4, 0.1, 1e-5),
    ),
    OpCase(
        aten.native_batch_norm_backward.default,
        (_image(C, 5), _image(C, 5), *[_channel(C)] * 5, True, 1e-5, ALL_GRADS),
    ),
    OpCase(
        aten.native_batch_norm_backward.default,
        (_image(C, 5), _image(C, 5), *[_channel(C)] * 5, False, 1e-5, ALL_GRADS),
    ),
    OpCase(
        aten.native_group_norm.default,
        (_image(6, 5, 4), _channel(6), _channel(6), 3, 6, 20, 3, 1e-5),
        dtypes=FLOATS,
    ),
    OpCase(aten.native_group_norm.default, (_image(6), None, None, 3, 6, 1, 2, 1e-5)),
    OpCase(
        aten.native_group_norm.default, (_image(6, 2, 3, 4), _channel(6), None, 3, 6, 24, 1, 1e-3)
    ),
    OpCase(
        torch.nn.functional.group_norm,
        (_image(6, 5, 4), 3, _channel(6), _channel(6)),
        dtypes=FLOATS,
    ),
    OpCase(torch.nn.functional.group_norm, (_image(6, 7), 6, None, _channel(6))),
    OpCase(torch.nn.functional.group_norm, (t(2, 4, 5, special=True), 2)),
    OpCase(
        aten.native_group_norm_backward.default,
        (
            _image(6, 5),
            _image(6, 5),
            t(3, 2),
            t(3, 2, low=0.5, high=1),
            _channel(6),
            3,
            6,
            5,
            2,
            ALL_GRADS,
        ),
    ).within(1e-4, 1e-4),
    OpCase(
        torch.nn.functional.instance_norm, (_image(C, 5, 6), None, None, _channel(C), _channel(C))
    ),
    OpCase(
        aten.native_layer_norm.default,
        (t(3, 4, 6), [6], _channel(6), _channel(6), 1e-5),
        dtypes=FLOATS,
    ),
    OpCase(
        aten.native_layer_norm.default, (t(3, 4, 6), [4, 6], t(4, 6), None, 1e-5), dtypes=FLOATS
    ),
    OpCase(aten.native_layer_norm.default, (t(3, 4, 6), [6], None, None, 1e-5)),
    *(
        OpCase(_layer_norm_gradient, (t(*size), t(*size), dims, *scale), dtypes=FLOATS)
        for size, dims, scale in (
            ((3, 4, 37), [37], (_channel(37), _channel(37))),
            ((150, 2, 5), [2, 5], (t(2, 5), t(2, 5))),
            ((7, 16), [16], (None, None)),
            ((0, 6), [6], (_channel(6), _channel(6))),
        )
    ),
    OpCase(
        aten.native_layer_norm_backward.default,
        (t(3, 6), t(3, 6), [6], t(3, 1), t(3, 1), _channel(6), None, [True, True, False]),
        outputs=(0, 1),
    ),
    OpCase(
        torch.nn.functional.layer_norm, (t(3, 4, 6), [6], _channel(6), _channel(6)), dtypes=FLOATS
    ),
    OpCase(torch.nn.functional.layer_norm, (t(3, 4, 6), [4, 6], t(4, 6), t(4, 6)), dtypes=FLOATS),
    OpCase(torch.nn.functional.layer_norm, (t(3, 4, 6), [3, 4, 6])),
    OpCase(torch.nn.functional.layer_norm, (t(3, 6), [6], None, _channel(6), 0.0)),
    OpCase(torch.nn.functional.layer_norm, (t(3, 6), [6], _channel(6), None, 1e-12)),
    OpCase(torch.nn.functional.layer_norm, (t(3, 6, special=True), [6])),
    OpCase(
        torch.nn.functional.layer_norm,
        (t(2, 3, 301, low=-2, high=4), [301], _channel(301), _channel(301)),
        dtypes=FLOATS,
    ),
    OpCase(torch.nn.functional.layer_norm, (t(2, 4100, low=9, high=11), [4100])),
    OpCase(torch.nn.functional.layer_norm, (t(0, 6), [6])),
    OpCase(torch.nn.functional.layer_norm, (t(6), [6])),
    OpCase(torch.nn.functional.layer_norm, (t(3, 6, low=999, high=1001), [6])).within(1e-3, 1e-3),
    OpCase(
        torch.nn.functional.layer_norm,
        (t(3, 6), [6], _channel(6, F32), _channel(6, F32)),
        dtypes=[torch.bfloat16],
    ),
    OpCase(
        aten.native_layer_norm_backward.default,
        (
            t(3, 4, 6),
            t(3, 4, 6),
            [6],
            t(3, 4, 1),
            t(3, 4, 1, low=0.5, high=1),
            _channel(6),
            _channel(6),
            ALL_GRADS,
        ),
    ).within(1e-4, 1e-4),
    OpCase(
        rms_norm.default,
        (t(2, 3, 301, low=-2, high=4), _channel(301), 1e-5),
        dtypes=[torch.float32, torch.float64],
    ),
    OpCase(rms_norm.default, (t(3, 6, special=True), None, 1e-6)),
]
