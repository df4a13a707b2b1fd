"""Gradients of losses, those that we decompose (`gradients.py`), `_foreach_*`, fma."""

from __future__ import annotations

import math

import torch
from torch._inductor.inductor_prims import fma

from tests.lowering.cases import OpCase, t
from torch_max_backend.program.own_ops import cross_entropy_backward

aten = torch.ops.aten
BOTH = [torch.float32, torch.float64]

INDICES = t(values=[3, 1, 1, 0, 2, 3, 3], dtype=torch.int64)
GRID = t(2, 3, 6, 2, low=-1.6, high=1.6)
SOLID = t(1, 2, 1, 4, 3, low=-1.6, high=1.6)
OFFSETS = t(values=[0, 2, 2, 5], dtype=torch.int64)


def bag(mode, indices, offsets, weight, factors, padding):
    """The gradients of embedding_bag, by PyTorch's kernels in eager."""
    weight = weight.detach().requires_grad_()
    factors = None if factors is None else factors.detach().requires_grad_()
    inputs = [weight] if factors is None else [weight, factors]
    result = torch.nn.functional.embedding_bag(
        indices, weight, offsets, mode=mode, per_sample_weights=factors, padding_idx=padding
    )
    return torch.autograd.grad((result * result).sum(), inputs)


def cdist(x, y, p):
    distance = torch.cdist(x, y, p)
    return aten._cdist_backward(distance * 2, x, y, p, distance)


def cdist_of_itself(x, p):
    """Distances of 0."""
    return cdist(x, x, p)


def pdist(x, p):
    distance = aten._pdist_forward(x, p)
    return aten._pdist_backward(distance * 2, x, p, distance)


def weight_norm(grad, v, g, dim):
    _, norms = aten._weight_norm_interface(v, g, dim)
    return aten._weight_norm_interface_backward(grad, v, g, norms, dim)


def repeated(x):
    """A point that occurs twice: a distance of 0."""
    return torch.cat([x, x[:1]])


CLASSES = t(values=[3, 0, -100, 20, 5, 5], dtype=torch.int64)


def entropy(op, logits, classes, grad, weight, reduction, ignored):
    """The gradient of the logarithms, or of the logits, with the forward's own total."""
    logarithms = logits.log_softmax(1)
    _, total = aten.nll_loss_forward(logarithms, classes, weight, reduction, ignored)
    return op(grad, logarithms, classes, weight, reduction, ignored, total)


LISTS = [t(3, 4, low=0.5), t(5, low=0.5), t(low=0.5)]
OTHERS = [t(3, 4, low=0.5), t(5, low=0.5), t(low=0.5)]


def foreach(lists, others, number, numbers):
    """The words of optimizers, all in one graph."""
    unary = ["abs", "neg", "sqrt", "reciprocal", "sign", "max", "clone", "zero", "norm"]
    binary = ["add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max"]
    found = [getattr(aten, f"_foreach_{name}")(lists) for name in unary]
    for right in (others, 2.0, [1.5, 2.0, 3.0]):
        found += [getattr(aten, f"_foreach_{name}")(lists, right) for name in binary]
    found += [getattr(aten, f"_foreach_{name}")(lists, number) for name in ("add", "mul", "div")]
    for value in (0.5, [0.5, 2.0, -1.0], numbers):
        found.append(aten._foreach_addcmul(lists, others, lists, value))
        found.append(aten._foreach_addcdiv(lists, others, lists, value))
    return [
        *found,
        aten._foreach_add(lists, others, alpha=0.5),
        aten._foreach_pow(0.9, lists),
        aten._foreach_lerp(lists, others, lists),
        aten._foreach_lerp(lists, others, 0.7),
        aten._foreach_norm(lists, math.inf),
        aten._foreach_norm([lists[0], lists[0][:0]], 1),
        aten._foreach_copy(lists, others),
        fma(lists[0], others[0], lists[0]),
    ]


ROWS = [
    *(
        OpCase(entropy, (op, t(6, 21), CLASSES, grad, weight, reduction, ignored), dtypes=BOTH)
        for op in (aten.nll_loss_backward.default, cross_entropy_backward.default)
        for grad, weight, reduction, ignored in (
            (t(), None, 1, -100),
            (t(6), t(21, low=0.1), 0, -100),
            (t(), t(21, low=0.1), 1, 5),
        )
    ),
    OpCase(aten.masked_scatter_backward.default, (t(3, 4), t(3, 4, dtype=torch.bool), [4, 5])),
    *(OpCase(cdist, (t(3, 4), t(5, 4), p), dtypes=BOTH) for p in (2.0, 0.0, 1.0, 1.5, math.inf)),
    OpCase(cdist_of_itself, (t(3, 4), 2.0)),
    *(
        OpCase(bag, (mode, INDICES, OFFSETS, t(4, 3), factors, padding))
        for mode, factors, padding in (
            ("sum", None, None),
            ("sum", t(7), 3),
            ("mean", None, 1),
        )
    ),
    *(
        OpCase(
            aten.grid_sampler_2d_backward.default,
            (t(2, 3, 3, 6), t(2, 3, 4, 5), GRID, mode, padding, align, [True, True]),
            dtypes=BOTH,
        )
        for mode, padding, align in ((0, 0, False), (0, 2, True), (1, 1, False), (2, 0, True))
    ),
    OpCase(
        aten.grid_sampler_2d_backward.default,
        (t(2, 3, 3, 6), t(2, 3, 4, 5), GRID, 0, 0, False, [False, True]),
        outputs=(1,),
    ),
    OpCase(
        aten.grid_sampler_3d_backward.default,
        (t(1, 2, 2, 1, 4), t(1, 2, 4, 5, 3), SOLID, 0, 1, False, [True, True]),
    ),
    *(OpCase(pdist, (t(5, 4), p), dtypes=BOTH) for p in (2.0, 1.0, 3.0, math.inf)),
    OpCase(pdist, (t(4, 3, prepare=repeated), 2.0)),
    OpCase(
        aten._trilinear.default,
        (t(3, 4), t(5, 4, 6), t(3, 6), [1, 3], [0], [1, 2], [2, 3]),
        dtypes=BOTH,
    ),
    OpCase(weight_norm, (t(4, 3), t(4, 3), t(4, 1), 0), dtypes=BOTH),
    OpCase(weight_norm, (t(4, 3), t(4, 3), t(1, 3), 1)),
    OpCase(foreach, (LISTS, OTHERS, t(), t(3)), dtypes=BOTH),
]
