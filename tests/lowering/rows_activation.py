"""Rows of activations and their gradients, lowered or decomposed by PyTorch."""

import torch

from tests.lowering.cases import INTS, SOME_FLOATS, SOME_INTS, OpCase, t

aten = torch.ops.aten
functional = torch.nn.functional

x = t(5, 7, special=True)
grad = t(5, 7)
SIGNED = [dtype for dtype in INTS if dtype is not torch.uint8]

ROWS = [
    OpCase(aten.celu.default, (x, 0.7), dtypes=SOME_FLOATS),
    OpCase(aten.elu.default, (x,), dtypes=SOME_FLOATS),
    OpCase(aten.elu.default, (x, 0.5, 1.3, 2.0), dtypes=SOME_FLOATS),
    OpCase(aten.elu_backward.default, (grad, 1.0, 1.0, 1.0, False, t(5, 7)), dtypes=SOME_FLOATS),
    OpCase(aten.gelu.default, (t(5, 7, low=-8, high=8),), dtypes=SOME_FLOATS),
    OpCase(
        aten.gelu.default, (t(values=[float("nan"), 0.0, -0.0, 30.0, -30.0]),), dtypes=SOME_FLOATS
    ),
    OpCase(
        aten.gelu.default, (t(5, 7, low=-8, high=8),), {"approximate": "tanh"}, dtypes=SOME_FLOATS
    ),
    OpCase(aten.gelu_backward.default, (grad, t(5, 7, low=-8, high=8)), dtypes=SOME_FLOATS),
    OpCase(
        aten.gelu_backward.default,
        (grad, t(5, 7, low=-8, high=8)),
        {"approximate": "tanh"},
        dtypes=SOME_FLOATS,
    ),
    OpCase(aten.glu.default, (t(4, 6), -1), dtypes=SOME_FLOATS),
    OpCase(aten.hardshrink.default, (x,), dtypes=SOME_FLOATS),
    OpCase(aten.hardsigmoid.default, (x,), dtypes=SOME_FLOATS),
    # PyTorch's own 1/6 is a float32.
    OpCase(aten.hardsigmoid_backward.default, (grad, t(5, 7)), dtypes=[torch.float32]),
    OpCase(aten.hardswish.default, (t(5, 7),), dtypes=SOME_FLOATS),
    OpCase(aten.hardswish_backward.default, (grad, t(5, 7)), dtypes=SOME_FLOATS),
    OpCase(aten.hardtanh.default, (x,), dtypes=SOME_FLOATS + SIGNED),
    OpCase(aten.hardtanh.default, (x, 0.0, 6.0), dtypes=SOME_FLOATS),
    OpCase(aten.hardtanh_backward.default, (grad, t(5, 7), -1, 1), dtypes=SOME_FLOATS),
    OpCase(aten.leaky_relu.default, (x,), dtypes=SOME_FLOATS),
    OpCase(aten.leaky_relu.default, (x, 0.3), dtypes=SOME_FLOATS),
    OpCase(aten.leaky_relu_backward.default, (grad, t(5, 7), 0.1, False), dtypes=SOME_FLOATS),
    OpCase(functional.logsigmoid, (t(5, 7, low=-30, high=30),), dtypes=SOME_FLOATS),
    OpCase(aten.mish.default, (t(5, 7, low=-25, high=25),), dtypes=SOME_FLOATS),
    OpCase(aten.mish_backward.default, (grad, t(5, 7)), dtypes=SOME_FLOATS),
    OpCase(functional.prelu, (x, t(1)), dtypes=SOME_FLOATS),
    OpCase(functional.prelu, (t(2, 3, 4), t(3)), dtypes=SOME_FLOATS),
    OpCase(aten.relu.default, (x,), dtypes=SOME_FLOATS + SOME_INTS),
    OpCase(aten.relu.default, (t(),)),
    OpCase(aten.relu6.default, (x,), dtypes=SOME_FLOATS),
    OpCase(aten.selu.default, (x,), dtypes=SOME_FLOATS),
    OpCase(aten.sigmoid_backward.default, (grad, t(5, 7, low=0, high=1)), dtypes=SOME_FLOATS),
    OpCase(aten.silu.default, (x,), dtypes=SOME_FLOATS),
    OpCase(aten.silu.default, (t(5, 7, low=-90, high=90),), dtypes=SOME_FLOATS),
    OpCase(aten.silu_backward.default, (grad, t(5, 7)), dtypes=SOME_FLOATS),
    OpCase(aten.softplus.default, (t(5, 7, low=-30, high=30),), dtypes=SOME_FLOATS),
    OpCase(aten.softplus.default, (x, 2, 3), dtypes=SOME_FLOATS),
    OpCase(aten.softplus_backward.default, (grad, t(5, 7), 1, 20), dtypes=SOME_FLOATS),
    OpCase(aten.softshrink.default, (t(5, 7),), dtypes=SOME_FLOATS),
    OpCase(functional.softsign, (t(5, 7),), dtypes=SOME_FLOATS),
    OpCase(aten.tanh_backward.default, (grad, t(5, 7, low=-1, high=1)), dtypes=SOME_FLOATS),
    OpCase(functional.tanhshrink, (t(5, 7),), dtypes=SOME_FLOATS),
    OpCase(aten.threshold.default, (x, 0.5, -2.0), dtypes=SOME_FLOATS),
    OpCase(aten.threshold_backward.default, (grad, x, 0), dtypes=SOME_FLOATS),
]
