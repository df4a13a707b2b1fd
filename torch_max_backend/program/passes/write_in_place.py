"""Caches: lines that are written to an argument are written where it is.

A static cache of keys and values is an argument that the graph changes: one token adds one line.
As a functional graph that is a copy of the whole cache, twice: the new value, and its way back.

1. `index_copy` or `index_put` that replaces whole lines of an argument along one dim, by a list of
   positions, becomes `torch_max_backend.write_lines` if its result is what the graph leaves in that
   argument. The builder then writes into the argument's memory.
2. Nothing else reads the argument, whose old lines are gone afterwards. The new value is no result
   of the graph, which would share the argument's memory.
3. The argument is dense and on the CPU, and its dims lie in memory in their own order.
"""

from __future__ import annotations

import dataclasses

import torch

from torch_max_backend.program.own_ops import write_lines
from torch_max_backend.program.passes.chains import Chains
from torch_max_backend.program.program import Call, Program, Ref, TensorInput, with_calls

aten = torch.ops.aten


def write_in_place(program: Program) -> Program:
    """`program` with lines that are written where they belong."""
    chains = Chains(program)
    inputs = {item.name: item for item in program.inputs if isinstance(item, TensorInput)}
    targets = {mutation.ref: inputs[mutation.name] for mutation in program.mutations}
    results = [output.ref for output in program.outputs if hasattr(output, "ref")]
    calls = []
    for call in program.calls:
        item = targets.get(Ref(call.name))
        changed = None
        if item is not None and Ref(call.name) not in results:
            changed = _written(call, item, chains)
        calls.append(changed or call)
    return program if calls == program.calls else with_calls(program, calls)


def _written(call: Call, item: TensorInput, chains: Chains) -> Call | None:
    place = _place(call)
    if place is None or call.args[0] != Ref(item.name) or chains.reads[Ref(item.name)] != 1:
        return None
    dim, index, source = place
    spec, lines, values = item.spec, chains.spec(index), chains.spec(source)
    if lines is None or values is None or item.order is not None or spec.device.type != "cpu":
        return None
    if len(lines.shape) != 1 or lines.dtype is not torch.int64 or values.dtype is not spec.dtype:
        return None
    expected = (*spec.shape[:dim], *lines.shape, *spec.shape[dim + 1 :])
    if values.shape != expected:
        return None  # broadcast
    args = (call.args[0], dim, index, source)
    return dataclasses.replace(call, op=write_lines.default, args=args, kwargs={})


def _place(call: Call) -> tuple[int, Ref, Ref] | None:
    """The dim, the positions and the values that a call writes; None if it is no such call."""
    spec = call.outputs[0]
    if spec is None or call.kwargs:
        return None
    if call.op is aten.index_copy.default:
        _, dim, index, source = call.args
        return dim % max(len(spec.shape), 1), index, source
    if call.op is aten.index_put.default and call.args[3:] in ((), (False,)):
        _, indices, source = call.args[:3]
        *before, index = indices
        if isinstance(index, Ref) and not any(before):
            return len(before), index, source
    return None
