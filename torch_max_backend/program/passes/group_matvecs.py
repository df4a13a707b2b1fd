"""Products of one row with several weights: one `torch_max_backend.matvec_group`.

Query, key and value, or gate and up, read the same row: together they cost one kernel.

1. Calls of `matvec` on the same row are grouped, up to `GROUP` of them, in the order of the graph.
   Views of one tensor with equal sizes are the same row.
2. The weights of a group have one dtype.
3. The group stands where its first call stood; each call becomes a slice of its result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch

from torch_max_backend.program.own_ops import matvec, matvec_group
from torch_max_backend.program.program import Call, Program, Ref, with_calls

aten = torch.ops.aten

GROUP = 3
"""Weights of a `matvec_group` at most: what its kernel takes."""


def group_matvecs(program: Program) -> Program:
    """`program` with products of the same row as one call."""
    group_of = {call.name: group for group in _groups(program) for call in group}
    if not group_of:
        return program
    calls: list[Call] = []
    for call in program.calls:
        group = group_of.get(call.name)
        if group is None:
            calls.append(call)
        elif call is group[0]:
            calls.extend(_together(group))
    return with_calls(program, calls)


def _groups(program: Program) -> Iterable[list[Call]]:
    """Two products or more of the same row."""
    specs = program.specs()
    views = {
        call.name: (call.args[0], str(call.args[1]))
        for call in program.calls
        if call.op in (aten.view.default, aten._unsafe_view.default) and not call.kwargs
    }
    found: dict[object, list[list[Call]]] = {}
    for call in program.calls:
        if call.op is matvec.default:
            row, weight = call.args
            (spec,) = specs[weight.name]
            assert spec is not None
            groups = found.setdefault((views.get(row.name, row), spec.dtype), [])
            if not groups or len(groups[-1]) == GROUP:
                groups.append([])
            groups[-1].append(call)
    return [group for groups in found.values() for group in groups if len(group) > 1]


def _together(group: list[Call]) -> list[Call]:
    """The common product, and a slice of it for each of the calls."""
    first = group[0]
    specs = [call.outputs[0] for call in group]
    widths = [spec.shape[1] for spec in specs if spec is not None]
    whole = dataclasses.replace(specs[0], shape=(1, sum(widths)))  # type: ignore[type-var]
    args = (first.args[0], [call.args[1] for call in group])
    name = f"{first.name}_group"
    product = dataclasses.replace(
        first, name=name, op=matvec_group.default, args=args, outputs=(whole,)
    )
    slices, start = [], 0
    for call, width in zip(group, widths, strict=True):
        place = (Ref(name), 1, start, start + width)
        slices.append(dataclasses.replace(call, op=aten.slice.Tensor, args=place))
        start += width
    return [product, *slices]
