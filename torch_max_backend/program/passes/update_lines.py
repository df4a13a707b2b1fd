"""From the calls of one update to the lines of `program/update_program.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torch_max_backend.program.program import Call, Mutation, Ref, TensorInput, TensorSpec
from torch_max_backend.program.update_program import UNARY, Kind, Line, Operand, Operation

aten = torch.ops.aten

Value = Ref | float


def constant_of(call: Call | None) -> float | None:
    """The number that a call fills a tensor with; None if it does something else."""
    if call is None:
        return None
    if call.op is aten.full.default:
        value = call.args[1]
    elif call.op is aten.scalar_tensor.default:
        value = call.args[0]
    else:
        return None
    return float(value) if isinstance(value, (int, float)) else None


class Lines:
    """The lines of one instance, as its calls are added in order."""

    def __init__(
        self,
        calls: Mapping[str, Call],
        specs: Mapping[str, tuple[TensorSpec | None, ...]],
        inputs: Mapping[str, TensorInput],
        captured: Mapping[str, torch.Tensor],
        numbers: list[Ref],
        constants: list[float],
    ) -> None:
        self.calls = calls
        self.specs = specs
        self.inputs = inputs
        self.captured = captured
        self.numbers = numbers
        self.constants = constants
        self.scalar_names: set[str] = set()
        self.vector_names: set[str] = set()
        """Lines that are no calls, by whether they are one number."""
        self.lines: list[tuple[Operation, str, Value, Value, bool]] = []
        """Operation, name of the result, operands, and whether it is one number."""

    def add(self, call: Call, operation: Operation) -> None:
        """The lines of one call; a factor `alpha` is a line of its own."""
        spec = call.outputs[0]
        assert spec is not None
        scalar = spec.shape == ()
        x = self._known(call.args[0])
        if operation in UNARY:
            self.lines.append((operation, call.name, x, x, scalar))
            return
        y = self._known(call.args[1])
        alpha = call.kwargs.get("alpha", 1)
        if alpha != 1:
            y = self._before(call, "scaled", Operation.MUL, y, float(alpha))
        if operation is Operation.DIV and not scalar and self._is_scalar(y):
            # One division for all elements: the reciprocal is computed in float64.
            operation, y = Operation.MUL, self._before(call, "inverse", Operation.RECIPROCAL, y, y)
        self.lines.append((operation, call.name, x, y, scalar))

    def _before(self, call: Call, what: str, operation: Operation, x: Value, y: Value) -> Ref:
        """The result of a line that a call needs."""
        name = f"{call.name}_{what}"
        scalar = self._is_scalar(x)
        (self.scalar_names if scalar else self.vector_names).add(name)
        self.lines.append((operation, name, x, y, scalar))
        return Ref(name)

    def _known(self, value: Any) -> Value:
        """An operand as a number, where it is one."""
        if not isinstance(value, Ref):
            return float(value)
        constant = constant_of(self.calls.get(value.name))
        if constant is not None:
            return constant
        tensor = self.captured.get(value.name)
        return float(tensor) if tensor is not None and tensor.dim() == 0 else value

    def _is_scalar(self, value: Value) -> bool:
        if not isinstance(value, Ref) or value.name in self.scalar_names:
            return True
        if value.name in self.vector_names:
            return False
        spec = self.specs[value.name][value.index or 0]
        return spec is not None and spec.shape == ()

    def finished(
        self, mutations: Sequence[Mutation]
    ) -> tuple[tuple[Line, ...], tuple[Line, ...], list[Ref]]:
        """The scalar lines, the vector lines, and the tensors of the instance."""
        return _Placed(self, mutations).result()


class _Placed:
    """The lines of an instance with the places of their values."""

    def __init__(self, lines: Lines, mutations: Sequence[Mutation]) -> None:
        self.source = lines
        self.scalars: list[Line] = []
        self.vectors: list[Line] = []
        self.tensors: list[Ref] = []
        self.places: dict[Value, Operand] = {}
        self.free: list[int] = []
        self.registers = 0
        self.targets: dict[str, list[Ref]] = {}
        for mutation in mutations:
            self.targets.setdefault(mutation.ref.name, []).append(Ref(mutation.name))
            self._tensor(Ref(mutation.name))

    def result(self) -> tuple[tuple[Line, ...], tuple[Line, ...], list[Ref]]:
        lines = self.source.lines
        for operation, name, x, y, scalar in lines:
            if scalar:
                self._line(operation, self._new(name), [self._number(x), self._number(y)], True)
        vectors = [line for line in lines if not line[4]]
        for index, (operation, name, x, y, _) in enumerate(vectors):
            later = [value for line in vectors[index + 1 :] for value in line[2:4]]
            operands = [self._vector(x), self._vector(y)]
            self._release([x, y], later)
            # What a later line reads must not be overwritten.
            target = next((t for t in self.targets.get(name, []) if t not in later), None)
            self._line(operation, self._register(name, target), operands, False)
        for name, targets in self.targets.items():
            place = self.places[Ref(name)]
            for target in targets:
                to = self._tensor(target)
                if to != place:
                    self._line(Operation.COPY, to, [place, place], place.kind is Kind.SCALAR)
        return tuple(self.scalars), tuple(self.vectors), self.tensors

    def _line(
        self, operation: Operation, to: Operand, operands: list[Operand], scalar: bool
    ) -> None:
        (self.scalars if scalar else self.vectors).append(Line(operation, to, *operands))

    def _tensor(self, ref: Ref) -> Operand:
        if ref not in self.tensors:
            self.tensors.append(ref)
        return Operand(Kind.TENSOR, self.tensors.index(ref))

    def _vector(self, value: Value) -> Operand:
        """What a vector line reads: a tensor, a register, or the result of a scalar line."""
        if isinstance(value, Ref) and value.name in self.source.inputs:
            spec = self.source.specs[value.name][0]
            if spec is not None and spec.shape != ():
                return self._tensor(value)
        place = self.places.get(value)
        if place is None:
            operand = self._number(value)
            place = self.places[value] = Operand(Kind.SCALAR, len(self.scalars))
            self._line(Operation.COPY, place, [operand, operand], True)
        return place

    def _number(self, value: Value) -> Operand:
        """A number: a constant, a tensor of one number, a value of the graph, an earlier result."""
        if not isinstance(value, Ref):
            if value not in self.source.constants:
                self.source.constants.append(value)
            return Operand(Kind.CONSTANT, self.source.constants.index(value))
        place = self.places.get(value)
        if place is not None:
            return place
        spec = self.source.specs[value.name][value.index or 0]
        assert spec is not None
        if value.name in self.source.inputs and spec.dtype is torch.float32:
            return self._tensor(value)
        if value not in self.source.numbers:
            self.source.numbers.append(value)
        return Operand(Kind.NUMBER, self.source.numbers.index(value))

    def _new(self, name: str) -> Operand:
        """Each scalar line has a result of its own, which later lines read in float64."""
        place = self.places[Ref(name)] = Operand(Kind.SCALAR, len(self.scalars))
        return place

    def _register(self, name: str, target: Ref | None) -> Operand:
        """The tensor that a vector line's result belongs to, or a register."""
        if target is not None:
            place = self._tensor(target)
        elif self.free:
            place = Operand(Kind.REGISTER, self.free.pop())
        else:
            place = Operand(Kind.REGISTER, self.registers)
            self.registers += 1
        self.places[Ref(name)] = place
        return place

    def _release(self, values: Sequence[Value], later: Sequence[Value]) -> None:
        """Registers whose values no later line reads can be used again."""
        for value in set(values):
            place = self.places.get(value)
            if place is None or place.kind is not Kind.REGISTER or value in later:
                continue
            if isinstance(value, Ref) and value.name in self.targets:
                continue  # it is still to be copied
            self.free.append(place.index)
