"""Slices that interleave, concatenated, become one permutation: patches merged, space to depth.

1. A `cat` of `x[:, 0::2, 0::2]`, `x[:, 1::2, 0::2]`, `x[:, 0::2, 1::2]` and `x[:, 1::2, 1::2]`, or
   of the slices of other steps and dims, is `x` with each sliced dim split into places and
   offsets, and the offsets moved in front of the concatenated dim.
2. The operands are slices of one value, each offset comes once, and in the order of a counter.
3. The sliced dims are static multiples of their steps, and none of them is concatenated.

MAX computes for each number of such a `cat` from which operand it comes.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torch_max_backend.program.passes.matching import Values
from torch_max_backend.program.program import Call, Program, Ref, TensorSpec, with_calls

aten = torch.ops.aten

_MOST_DIMS = 8
"""Of MAX's tensors."""

Offsets = dict[int, tuple[int, int]]
"""By sliced dim: the first place, and the step."""


def join_slices(program: Program) -> Program:
    """`program` with a permutation for each `cat` of interleaving slices."""
    values = Values(program)
    calls: list[Call] = []
    for call in program.calls:
        values.add(call)
        calls += _permuted(call, values) or [call]
    return program if calls == program.calls else with_calls(program, calls)


def _permuted(call: Call, values: Values) -> list[Call] | None:
    """The calls that compute a `cat` of interleaving slices; None if it is another call."""
    if call.op is not aten.cat.default or call.kwargs:
        return None
    found = [_offsets(operand, values) for operand in call.args[0]]
    bases = {base for base, _ in found}
    base, first = found[0]
    spec = values.spec(base)
    if len(found) < 2 or len(bases) > 1 or spec is None:
        return None
    dim = (call.args[1] if len(call.args) > 1 else 0) % len(spec.shape)
    order = _order([offsets for _, offsets in found])
    if order is None or dim in first or len(spec.shape) + len(first) > _MOST_DIMS:
        return None

    split: list[Any] = []
    places: list[int] = []
    offsets_at: dict[int, int] = {}
    for index, size in enumerate(spec.shape):
        places.append(len(split))
        if index not in first:
            split.append(size)
            continue
        assert isinstance(size, int)
        step = first[index][1]
        offsets_at[index] = len(split) + 1
        split += [size // step, step]
    to = [*places[:dim], *(offsets_at[index] for index in order), *places[dim:]]

    parts = dataclasses.replace(spec, shape=tuple(split))
    moved = dataclasses.replace(spec, shape=tuple(split[place] for place in to))
    reshape, permute = aten.reshape.default, aten.permute.default

    def made(name: str, op: Any, of: Ref, how: Sequence[Any], result: TensorSpec) -> Call:
        return dataclasses.replace(
            call, name=f"{call.name}_{name}", op=op, args=(of, [*how]), outputs=(result,)
        )

    one = made("parts", reshape, base, split, parts)
    other = made("moved", permute, Ref(one.name), to, moved)
    (joined,) = call.outputs
    assert joined is not None
    last = dataclasses.replace(call, op=reshape, args=(Ref(other.name), [*joined.shape]))
    return [one, other, last]


def _offsets(value: Ref, values: Values) -> tuple[Ref, Offsets]:
    """What a value is a slice of, and where its elements are; the value itself, if it is none."""
    taken: Offsets = {}
    base = value
    while (call := values.made_by(base, aten.slice.Tensor)) is not None:
        source, whole, part = call.args[0], values.spec(call.args[0]), call.outputs[0]
        if whole is None or part is None:
            break
        given: list[Any] = [*call.args[1:], *(0, 0, None, 1)[len(call.args) - 1 :]]
        dim, start, step = given[0] % len(whole.shape), given[1] or 0, given[3]
        size, length = whole.shape[dim], part.shape[dim]
        if not isinstance(size, int) or not isinstance(start, int) or dim in taken:
            break
        if step == 1 and length == size:
            base = source
            continue
        if not 0 <= start < step or size % step or length != size // step:
            break
        taken[dim] = (start, step)
        base = source
    return base, taken


def _order(found: Sequence[Mapping[int, tuple[int, int]]]) -> tuple[int, ...] | None:
    """The sliced dims, the one whose offset changes last first; None if offsets do not count up."""
    steps = {dim: step for dim, (_, step) in found[0].items()}
    if not steps or len(found) != math.prod(steps.values()):
        return None
    for order in itertools.permutations(steps):
        counter = itertools.product(*(range(steps[dim]) for dim in order))
        expected = [
            {dim: (o, steps[dim]) for dim, o in zip(order, at, strict=True)} for at in counter
        ]
        if expected == [*found]:
            return order
    return None
