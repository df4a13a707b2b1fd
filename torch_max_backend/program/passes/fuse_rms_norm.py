"""RMS norm: what a model spells out in small ops becomes `torch_max_backend.rms_norm`.

1. `x * rsqrt(mean(x ** 2, -1, True) + eps)`, the square as a power or as a product, is one call.
2. Its product with a weight of the last dim's size and of the same dtype is one call too.
3. `x` is float32 or float64: in 16 bits PyTorch would round after each op of the composition.
"""

from __future__ import annotations

import dataclasses

import torch

from torch_max_backend.program.own_ops import rms_norm
from torch_max_backend.program.passes import matching
from torch_max_backend.program.program import Call, Program

aten = torch.ops.aten


def fuse_rms_norm(program: Program) -> Program:
    """`program` with each RMS norm as one call."""
    return matching.fuse(program, _norm, _weighted_norm)


def _norm(call: Call, values: matching.Values) -> Call | None:
    for x, factor in matching.products(call):
        root = values.made_by(factor, aten.rsqrt.default)
        shifted = values.made_by(root.args[0], aten.add.Tensor) if root else None
        mean = values.made_by(shifted.args[0], aten.mean.dim) if shifted else None
        if not (root and shifted and mean and isinstance(shifted.args[1], float)):
            continue
        spec = values.spec(x)
        dims = mean.args[1:]
        if (
            values.power_of(mean.args[0], 2) == x
            and spec is not None
            and values.is_wide(x)
            and dims in (([-1], True), ([len(spec.shape) - 1], True))
        ):
            return dataclasses.replace(call, op=rms_norm.default, args=(x, None, shifted.args[1]))
    return None


def _weighted_norm(call: Call, values: matching.Values) -> Call | None:
    for weight, normal in matching.products(call):
        norm = values.made_by(normal, rms_norm.default)
        spec, shape = values.spec(weight), values.spec(normal)
        if (
            norm is not None
            and norm.args[1] is None
            and spec is not None
            and shape is not None
            and spec.dtype == shape.dtype
            and spec.shape == shape.shape[-1:]
        ):
            args = (norm.args[0], weight, norm.args[2])
            return dataclasses.replace(call, op=rms_norm.default, args=args)
    return None
