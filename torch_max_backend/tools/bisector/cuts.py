"""Where a program is cut, so that what MAX computed up to there can be compared.

A cut stands between two calls. Its frontier are the values that were computed before it and that
a later call reads, or that leave the graph. The calls between two cuts are computed on PyTorch from
MAX's own values at the first one. If the values at the second differ from MAX's, one of the calls
between them is wrong.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import sympy

from torch_max_backend.program import Program, Ref, TensorOutput, TensorSpec
from torch_max_backend.program.own_ops import write_lines


def frontiers(program: Program) -> list[list[Ref]]:
    """The frontier of each cut: one before the first call, one after each."""
    last: dict[Ref, int] = {}
    end = len(program.calls)
    for index, call in enumerate(program.calls):
        for ref in call.reads():
            last[ref] = index
    for ref in program.results():
        last[ref] = end
    made = {
        Ref(call.name, None if call.single else i): index
        for index, call in enumerate(program.calls)
        for i in range(len(call.outputs))
        if call.op is not write_lines.default  # it is the memory of an argument
    }
    return [
        [ref for ref, index in made.items() if index < cut <= last.get(ref, -1)]
        for cut in range(end + 1)
    ]


def choose(
    program: Program, begin: int, end: int, budget: int, sizes: Mapping[str, int]
) -> list[int]:
    """Cuts from `begin` to `end`, both included: all, or as many as fit into `budget` bytes."""
    found = frontiers(program)
    specs = program.specs()
    step = 1
    while True:
        cuts = sorted({*range(begin, end, step), end})
        refs = {ref for cut in cuts for ref in found[cut]}
        if (
            len(cuts) <= 3
            or sum(bytes_of(specs[ref.name][ref.index or 0], sizes) for ref in refs) <= budget
        ):
            return cuts
        step *= 2


def exposed(program: Program, cuts: Sequence[int]) -> tuple[Program, list[Ref]]:
    """`program` with the values at the cuts as its results, and which they are."""
    found = frontiers(program)
    refs = list(dict.fromkeys(ref for cut in cuts for ref in found[cut]))
    return dataclasses.replace(program, outputs=[TensorOutput(ref) for ref in refs]), refs


def bytes_of(spec: TensorSpec | None, sizes: Mapping[str, int]) -> int:
    """The size of a tensor, with example values for symbolic sizes."""
    if spec is None:
        return 0
    numbers = [
        size.subs(dict(sizes.items())) if isinstance(size, sympy.Expr) else size
        for size in spec.shape
    ]
    return math.prod(int(number) for number in numbers) * spec.dtype.itemsize
