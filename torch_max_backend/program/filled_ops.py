"""Ops whose result is one number everywhere."""

from __future__ import annotations

import torch

from torch_max_backend.compat.torch import OpOverload, OpOverloadPacket
from torch_max_backend.program.program import Call

aten = torch.ops.aten

FILLED: dict[OpOverload | OpOverloadPacket, int] = {
    aten._efficientzerotensor: 0,
    aten.empty.memory_format: 0,
    aten.empty_like: 0,
    aten.empty_permuted: 0,
    aten.empty_strided: 0,
    aten.new_empty: 0,
    aten.new_empty_strided: 0,
    aten.new_ones: 1,
    aten.new_zeros: 0,
    aten.ones: 1,
    aten.ones_like: 1,
    aten.zeros: 0,
    aten.zeros_like: 0,
}
"""Ops that always fill with the same number. Memory that PyTorch leaves uninitialised is 0 here:
as cheap, and the same at every run."""

_GIVEN: dict[OpOverload, int] = {
    aten.fill.Scalar: 1,
    aten.full_like.default: 1,
    aten.new_full.default: 2,
}
"""Ops that are given the number, and which argument it is."""

BROADCASTS: frozenset[OpOverload] = frozenset(
    {
        aten.full.default,
        aten.lift_fresh_copy.default,
        aten.ones.default,
        aten.scalar_tensor.default,
        aten.zeros.default,
    }
)
"""Ops that MAX runs as a broadcast of one number, which costs it nothing."""


def number_of(call: Call) -> bool | int | float | None:
    """The number that a call fills its result with; None if it does not, or if it is a tensor."""
    value = FILLED.get(call.op, FILLED.get(call.op.overloadpacket))
    place = _GIVEN.get(call.op)
    if place is not None and len(call.args) > place:
        value = call.args[place]
    return value if isinstance(value, (bool, int, float)) else None
