"""Compositions that a model spells out in small ops and that are one kernel here.

1. RMS norm: `x * rsqrt(mean(x ** 2, -1) + eps)`, and the weight that it is then multiplied by.
2. GELU by tanh: `0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))`.

MAX fuses pointwise ops too, but it computes what several ops read once for each of them. The sum
that runs through a transformer is read by each norm twice, so the norms of the last layer would add
up all layers before them, in kernels that no two layers share.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch

from torch_max_backend.program.own_ops import rms_norm
from torch_max_backend.program.program import (
    Call,
    Program,
    Ref,
    TensorInput,
    TensorSpec,
    live_calls,
)

aten = torch.ops.aten


class _Values:
    """The calls so far, by name, and what is known of every value."""

    def __init__(self, program: Program) -> None:
        self.calls: dict[str, Call] = {}
        self.specs: dict[str, TensorSpec | None] = {
            item.name: item.spec for item in program.inputs if isinstance(item, TensorInput)
        }

    def add(self, call: Call) -> None:
        self.calls[call.name] = call
        self.specs[call.name] = call.outputs[0] if call.single else None

    def made_by(self, value: object, op: object) -> Call | None:
        """The call that made `value`, if it is one of `op` without keywords."""
        call = self.calls.get(value.name) if isinstance(value, Ref) else None
        return call if call is not None and call.op is op and not call.kwargs else None

    def spec(self, value: object) -> TensorSpec | None:
        return self.specs.get(value.name) if isinstance(value, Ref) else None

    def is_wide(self, value: object) -> bool:
        """Not 16 bits: there PyTorch would round after each op of the composition."""
        spec = self.spec(value)
        return spec is not None and spec.dtype in (torch.float32, torch.float64)

    def beside(self, value: object, op: object, number: float) -> Ref | None:
        """The other operand of a commutative `op` that made `value` from it and `number`."""
        call = self.made_by(value, op)
        if call is None or len(call.args) != 2:
            return None
        for one, other in (call.args, call.args[::-1]):
            if isinstance(one, (int, float)) and math.isclose(one, number, rel_tol=1e-9):
                return other if isinstance(other, Ref) else None
        return None

    def power_of(self, value: object, exponent: int) -> Ref | None:
        """The base of a power."""
        call = self.made_by(value, aten.pow.Tensor_Scalar)
        if call is not None and call.args[1] == exponent:
            return call.args[0]
        call = self.made_by(value, aten.mul.Tensor) if exponent == 2 else None
        return call.args[0] if call is not None and call.args[0] == call.args[1] else None


def fuse(program: Program) -> Program:
    """`program` with the known compositions as one call each."""
    values = _Values(program)
    calls = []
    for call in program.calls:
        for pattern in PATTERNS:
            call = pattern(call, values) or call
        values.add(call)
        calls.append(call)
    if calls == list(program.calls):
        return program
    return dataclasses.replace(program, calls=live_calls(calls, program.results()))


def _products(call: Call) -> list[tuple[Ref, Ref]]:
    """Both ways to read a product of two tensors."""
    if call.op is not aten.mul.Tensor or call.kwargs or len(call.args) != 2:
        return []
    one, other = call.args
    if not (isinstance(one, Ref) and isinstance(other, Ref)):
        return []
    return [(one, other), (other, one)]


def _is_rms_norm(call: Call, values: _Values) -> Call | None:
    for x, factor in _products(call):
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


def _is_weighted(call: Call, values: _Values) -> Call | None:
    for weight, normal in _products(call):
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


def _is_gelu(call: Call, values: _Values) -> Call | None:
    for half, rest in _products(call):
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


PATTERNS: list[Callable[[Call, _Values], Call | None]] = [_is_rms_norm, _is_weighted, _is_gelu]
