"""How fusions find a composition of small calls: from its last call back to its inputs.

MAX fuses pointwise ops too, but it computes what several ops read once for each of them. The sum
that runs through a transformer is read by each norm twice, so the norms of the last layer would add
up all layers before them, in kernels that no two layers share.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from torch_max_backend.program.program import (
    Call,
    Program,
    Ref,
    TensorInput,
    TensorSpec,
    with_calls,
)

aten = torch.ops.aten


class Values:
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


Pattern = Callable[[Call, Values], Call | None]
"""The one call that a composition ending in the given call is; None if it is another one."""


def fuse(program: Program, *patterns: Pattern) -> Program:
    """`program` with the compositions that `patterns` know as one call each."""
    values = Values(program)
    calls = []
    for call in program.calls:
        for pattern in patterns:
            call = pattern(call, values) or call
        values.add(call)
        calls.append(call)
    return program if calls == program.calls else with_calls(program, calls)


def products(call: Call) -> list[tuple[Ref, Ref]]:
    """Both ways to read a product of two tensors."""
    if call.op is not aten.mul.Tensor or call.kwargs or len(call.args) != 2:
        return []
    one, other = call.args
    if not (isinstance(one, Ref) and isinstance(other, Ref)):
        return []
    return [(one, other), (other, one)]
