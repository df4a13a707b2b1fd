"""Updates of many tensors, such as an optimizer's step, as numbers that one kernel reads.

An *instance* is what happens to the tensors of one parameter: the parameter itself, its gradient
and its states, all of one size. Lines compute one value each:

1. *Scalar lines* come first, and are computed once, in float64. Their operands are constants,
   numbers that the graph computes, tensors of one number, and earlier results.
2. *Vector lines* are computed for each element, in float32. Their operands are whole tensors,
   results of scalar lines, and registers.
3. A result goes to a register, or to a tensor of the instance, in place of its old value.

Instances that do the same share their lines: a line names a tensor by its place in the instance.
The numbers are: how many instances there are; for each the numbers of `Instance`; the lines.
`mojo_kernels/update.mojo` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import torch


class Operation(IntEnum):
    """What a line computes of one or two operands."""

    COPY = 0
    ADD = 1
    SUB = 2
    MUL = 3
    DIV = 4
    MAXIMUM = 5
    MINIMUM = 6
    SQRT = 7
    NEG = 8
    ABS = 9
    RECIPROCAL = 10
    POW = 11


_IN_TORCH: dict[Operation, Callable[..., torch.Tensor]] = {
    Operation.ADD: torch.add,
    Operation.SUB: torch.sub,
    Operation.MUL: torch.mul,
    Operation.DIV: torch.div,
    Operation.MAXIMUM: torch.maximum,
    Operation.MINIMUM: torch.minimum,
    Operation.POW: torch.pow,
}
_UNARY_IN_TORCH: dict[Operation, Callable[..., torch.Tensor]] = {
    Operation.COPY: torch.clone,
    Operation.SQRT: torch.sqrt,
    Operation.NEG: torch.neg,
    Operation.ABS: torch.abs,
    Operation.RECIPROCAL: torch.reciprocal,
}
UNARY = frozenset(_UNARY_IN_TORCH)


class Kind(IntEnum):
    """Where an operand is."""

    REGISTER = 0
    TENSOR = 1
    SCALAR = 2
    CONSTANT = 3
    NUMBER = 4


_KINDS = 8


@dataclass(frozen=True)
class Operand:
    """The value with the given number among those of its kind."""

    kind: Kind
    index: int

    @property
    def number(self) -> int:
        return self.index * _KINDS + self.kind

    @staticmethod
    def of(number: int) -> Operand:
        return Operand(Kind(number % _KINDS), number // _KINDS)


@dataclass(frozen=True)
class Line:
    """One instruction; an operation of one operand has it twice."""

    operation: Operation
    to: Operand
    x: Operand
    y: Operand


@dataclass(frozen=True)
class Instance:
    """What happens to some tensors of one size."""

    numel: int
    first: int
    """The place of its first tensor among all of them."""
    scalars: tuple[Line, ...]
    vectors: tuple[Line, ...]

    @property
    def registers(self) -> int:
        used = [line.to.index for line in self.vectors if line.to.kind is Kind.REGISTER]
        return max(used, default=-1) + 1

    def written(self) -> list[int]:
        """The places of the tensors that are written, among all tensors."""
        lines = (*self.scalars, *self.vectors)
        places = {line.to.index for line in lines if line.to.kind is Kind.TENSOR}
        return [self.first + place for place in sorted(places)]


_LINE, _HEAD = 4, 6


def encode(instances: Sequence[Instance]) -> list[int]:
    """The numbers that the kernel reads."""
    places: dict[tuple[tuple[Line, ...], tuple[Line, ...]], int] = {}
    heads = [len(instances)]
    lines: list[int] = []
    begin = 1 + _HEAD * len(instances)
    for item in instances:
        body = (item.scalars, item.vectors)
        if body not in places:
            places[body] = begin + len(lines)
            for line in (*item.scalars, *item.vectors):
                lines += [line.operation, line.to.number, line.x.number, line.y.number]
        counts = (len(item.scalars), len(item.vectors), item.registers)
        heads += [item.numel, item.first, places[body], *counts]
    return [int(number) for number in (*heads, *lines)]


def decode(code: Sequence[int]) -> list[Instance]:
    """The instances that `encode` was given."""
    found = []
    for i in range(code[0]):
        numel, first, at, scalars, vectors, _ = code[1 + i * _HEAD : 1 + (i + 1) * _HEAD]
        lines = []
        for j in range(scalars + vectors):
            operation, to, x, y = code[at + j * _LINE : at + (j + 1) * _LINE]
            operands = (Operand.of(number) for number in (to, x, y))
            lines.append(Line(Operation(operation), *operands))
        found.append(Instance(numel, first, tuple(lines[:scalars]), tuple(lines[scalars:])))
    return found


def written(code: Sequence[int]) -> list[int]:
    """The places of the tensors that are written, in the order of `run`'s results."""
    return [place for item in decode(code) for place in item.written()]


def run(
    tensors: Sequence[torch.Tensor],
    numbers: Sequence[torch.Tensor],
    code: Sequence[int],
    constants: Sequence[float],
) -> list[torch.Tensor]:
    """PyTorch's way to compute the new values of the tensors that are written."""
    results = []
    for item in decode(code):
        new = _run(item, tensors[item.first :], numbers, constants)
        results += [new[place - item.first] for place in item.written()]
    return results


def _run(
    item: Instance,
    tensors: Sequence[torch.Tensor],
    numbers: Sequence[torch.Tensor],
    constants: Sequence[float],
) -> dict[int, torch.Tensor]:
    new: dict[int, torch.Tensor] = {}
    registers: dict[tuple[Kind, int], torch.Tensor] = {}

    def read(operand: Operand) -> torch.Tensor:
        if operand.kind is Kind.TENSOR:
            return new.get(operand.index, tensors[operand.index])
        if operand.kind is Kind.CONSTANT:
            return torch.tensor(constants[operand.index], dtype=torch.float64)
        if operand.kind is Kind.NUMBER:
            return numbers[operand.index]
        return registers[operand.kind, operand.index]

    for position, line in enumerate((*item.scalars, *item.vectors)):
        dtype = torch.float64 if position < len(item.scalars) else torch.float32
        x, y = read(line.x).to(dtype), read(line.y).to(dtype)
        if line.operation in UNARY:
            value = _UNARY_IN_TORCH[line.operation](x)
        else:
            value = _IN_TORCH[line.operation](x, y)
        if line.to.kind is Kind.TENSOR:
            new[line.to.index] = value.to(torch.float32)
        else:
            registers[line.to.kind, line.to.index] = value
    return new
