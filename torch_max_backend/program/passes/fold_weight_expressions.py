"""What depends on parameters alone is computed by PyTorch when they change, not at every call.

The relative position bias of an image transformer, a weight that is normalized or cast, rotary
frequencies in a buffer, embeddings of fixed positions: a model computes them at every call, in
small kernels.

1. A call is one of weights if it reads parameters and buffers on the CPU, constants, and other
   calls of weights alone, and its op is in `foldable_ops.py`. Buffers that the graph changes do
   not count.
2. A value of weights that another call or a result reads becomes an input of the graph
   (`WeightExpression`), filled like packed weights. What computes it is dropped.
3. A value that is only a view or a broadcast of parameters stays: it costs nothing. So do the
   reshapes and broadcasts at the end of an expression, in front of which readers may share it.
4. The smallest values are kept first, up to the larger of 64 MiB and half the size of the
   parameters: enough for weights that autocast computes with in 16 bits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from torch_max_backend.program.foldable_ops import MOVING, RESHAPING, is_foldable
from torch_max_backend.program.passes.fold_constants import LIMIT, constant_calls, reads_of_others
from torch_max_backend.program.program import (
    Call,
    PackedInput,
    Program,
    Ref,
    TensorInput,
    TensorSpec,
    WeightExpression,
    live_calls,
    with_calls,
)


def fold_weight_expressions(program: Program) -> Program:
    """`program` with inputs instead of what calls compute from parameters alone."""
    weights = _weights(program)
    made = constant_calls(program, weights.keys(), lambda call: is_foldable(call.op))
    packed: list[PackedInput] = []
    replaced: dict[Ref, Ref] = {}
    total = sum(map(_bytes, weights.values()))
    left = max(LIMIT, total // 2)
    for ref, spec in _wanted(program, made):
        expression = _expression(ref, made, weights)
        if expression is None:
            continue
        left -= _bytes(spec)
        if left < 0:
            break
        name = f"{ref.name}_of_weights{ref.index or 0}"
        packed.append(PackedInput(name, expression.sources, expression))
        replaced[ref] = Ref(name)
    if not packed:
        return program
    folded = with_calls(program, program.calls, replaced)
    return dataclasses.replace(folded, packed=[*program.packed, *packed])


def _weights(program: Program) -> dict[str, TensorSpec]:
    changed = {mutation.name for mutation in program.mutations}
    return {
        item.name: item.spec
        for item in program.inputs
        if isinstance(item, TensorInput)
        and item.static
        and not item.is_complex
        and item.name not in changed
        and item.spec.is_static
        and item.spec.device.type == "cpu"
    }


def _wanted(program: Program, made: Mapping[str, Call]) -> list[tuple[Ref, TensorSpec]]:
    """The values of weights that others read, without what is free at the end; small ones first."""
    wanted: dict[Ref, TensorSpec] = {}
    for ref, _ in reads_of_others(program, made):
        while (call := made.get(ref.name)) is not None and call.op.overloadpacket in RESHAPING:
            ref = call.args[0]
        spec = None if call is None else call.outputs[ref.index or 0]
        if spec is not None and not spec.is_empty and spec.device.type == "cpu":
            wanted[ref] = spec
    return sorted(wanted.items(), key=lambda item: _bytes(item[1]))


def _expression(
    ref: Ref, made: Mapping[str, Call], weights: Mapping[str, TensorSpec]
) -> WeightExpression | None:
    """What computes a value; None if nothing does, or if it reads no parameter."""
    steps = live_calls(list(made.values()), [ref])
    read = {each.name: None for step in steps for each in step.reads() if each.name in weights}
    if not read or all(step.op.overloadpacket in MOVING for step in steps):
        return None
    specs = tuple(weights[name] for name in read)
    return WeightExpression(tuple(read), specs, tuple(steps), ref)


def _bytes(spec: TensorSpec) -> int:
    return math.prod(int(size) for size in spec.shape) * spec.dtype.itemsize
