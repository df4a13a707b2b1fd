"""GELU by tanh: what a model spells out in small ops becomes `aten.gelu(x, approximate="tanh")`.

1. `0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))` is one call, in any order of the
   operands of a product or a sum.
2. `x` is float32 or float64: in 16 bits PyTorch would round after each op of the composition.
"""

from __future__ import annotations

import dataclasses
import math

import torch

from torch_max_backend.program.passes import matching
from torch_max_backend.program.program import Call, Program

aten = torch.ops.aten


def fuse_gelu(program: Program) -> Program:
    """`program` with each GELU by tanh as one call."""
    return matching.fuse(program, _gelu)


def _gelu(call: Call, values: matching.Values) -> Call | None:
    for half, rest in matching.products(call):
        x = values.beside(half, aten.mul.Tensor, 0.5)
        curve = values.made_by(values.beside(rest, aten.add.Tensor, 1), aten.tanh.default)
        if x is None or curve is None or not values.is_wide(x):
            continue
        slope = math.sqrt(2 / math.pi)
        inner = values.made_by(
            values.beside(curve.args[0], aten.mul.Tensor, slope), aten.add.Tensor
        )
        if inner is None or len(inner.args) != 2:
            continue
        for one, cubic in (inner.args, inner.args[::-1]):
            cube = values.beside(cubic, aten.mul.Tensor, 0.044715)
            if one == x and cube is not None and values.power_of(cube, 3) == x:
                keywords = {"approximate": "tanh"}
                return dataclasses.replace(call, op=aten.gelu.default, args=(x,), kwargs=keywords)
    return None
