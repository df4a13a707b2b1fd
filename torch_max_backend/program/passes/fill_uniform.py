"""Uniform tensors: a tensor that is one number everywhere becomes a call of `full`.

1. A call that fills its result with a number (`zeros_like`, `new_full`, uninitialised memory)
   becomes `full`, which reads no argument: what gave only its shape is no longer read, and what is
   computed from the number can be folded.
2. A tensor without elements, argument or result, becomes `full` of 0, whatever computes it.
3. Tensors with symbolic sizes, and calls that MAX already runs as a broadcast, stay as they are.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_max_backend.program.filled_ops import BROADCASTS, number_of
from torch_max_backend.program.program import (
    Call,
    Program,
    Ref,
    TensorInput,
    TensorSpec,
    with_calls,
)

aten = torch.ops.aten


def fill_uniform(program: Program) -> Program:
    """`program` with `full` for each tensor that is one number everywhere or has no elements."""
    made: list[Call] = []
    replaced: dict[Ref, Ref] = {}

    def fill(ref: Ref, spec: TensorSpec, number: Any, source: str | None) -> None:
        name = f"{ref.name}_number_{ref.index or 0}"
        kwargs = {"dtype": spec.dtype, "device": spec.device}
        args = ([*spec.shape], number)
        op, used = aten.full.default, frozenset({0})
        made.append(Call(name, op, args, kwargs, (spec,), True, used, source))
        replaced[ref] = Ref(name)

    for item in program.inputs:
        if isinstance(item, TensorInput) and item.spec.is_empty:
            fill(Ref(item.name), item.spec, 0, None)
    for call in program.calls:
        for index, spec in enumerate(call.outputs):
            if spec is None or not spec.is_static or call.op in BROADCASTS:
                continue
            number = 0 if spec.is_empty else number_of(call)
            if number is not None:
                fill(Ref(call.name, None if call.single else index), spec, number, call.source)
    return with_calls(program, [*made, *program.calls], replaced) if made else program
