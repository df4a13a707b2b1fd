"""What a kernel has to compute and to move: floating point operations, and bytes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import sympy
import torch
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from torch_max_backend.compat.torch import OpOverloadPacket
from torch_max_backend.program import (
    Call,
    Program,
    Ref,
    Sym,
    SymSize,
    TensorSpec,
    map_refs,
    own_ops,
)
from torch_max_backend.program.image_program import LENGTH, Instruction, What, decode

Sizes = Mapping[str, int]
"""The values of a program's symbolic sizes in one call."""

aten = torch.ops.aten

_LIKE: dict[OpOverloadPacket, OpOverloadPacket] = {
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        aten._scaled_dot_product_flash_attention_backward
    ),
    aten.scaled_dot_product_attention: aten._scaled_dot_product_flash_attention,
}
"""Ops without a formula in PyTorch, and one that takes the same tensors first."""

_PICKING = (aten.embedding, aten.index_select, aten.gather, aten.index, aten.take)
"""Ops that read as much of their first operand as they return."""


class Costs:
    """Of the calls of one program, in a call of it with given sizes."""

    def __init__(self, program: Program, sizes: Sizes) -> None:
        self._calls = program.calls
        self._sizes = sizes
        self._specs = program.specs()
        self._made_by = {call.name: index for index, call in enumerate(program.calls)}
        self._readers: dict[str, set[int]] = {}
        for index, call in enumerate(program.calls):
            for ref in call.reads():
                self._readers.setdefault(ref.name, set()).add(index)
        self._results = {ref.name for ref in program.results()}
        self._flops: dict[int, int] = {}

    def flops(self, call: int) -> int:
        """Floating point operations of a product, a convolution or an attention; 0 of others."""
        if call not in self._flops:
            self._flops[call] = self._counted(self._calls[call])
        return self._flops[call]

    def times(self, call: Call) -> int:
        """On how many inputs an image program is run."""
        spec = self._specs[call.args[0].name][call.args[0].index or 0]
        return self._size(spec.shape[0]) if spec is not None else 0

    def moved(self, calls: Collection[int], *, whole: bool) -> int:
        """Bytes that a kernel for these calls reads and writes, each value once.

        `whole` is False for what is done to the result of a product in another kernel, such as
        adding its bias: there the operands of the product are not read again.
        """
        total = 0
        read: set[Ref] = set()
        for index in calls:
            call = self._calls[index]
            if not whole and self.flops(index):
                total += self._written(call)
            else:
                read.update(ref for ref in call.reads() if self._made_by.get(ref.name) not in calls)
            if call.name in self._results or self._readers.get(call.name, set()) - set(calls):
                total += self._written(call)
        return total + sum(self._read(ref, calls) for ref in read)

    def _written(self, call: Call) -> int:
        outputs = [call.outputs[index] for index in call.used_outputs]
        return sum(self._bytes(spec) for spec in outputs if spec is not None)

    def _read(self, ref: Ref, calls: Collection[int]) -> int:
        spec = self._specs[ref.name][ref.index or 0]
        size = self._bytes(spec) if spec is not None else 0
        maker = self._made_by.get(ref.name)
        if maker is not None and self._calls[maker].op.overloadpacket == aten.expand:
            return min(size, *(self._read(of, calls) for of in self._calls[maker].reads()))
        for index in calls:
            call = self._calls[index]
            if call.op.overloadpacket in _PICKING and call.args and call.args[0] == ref:
                return min(size, self._written(call))
        return size

    def _bytes(self, spec: TensorSpec) -> int:
        return math.prod(self._size(size) for size in spec.shape) * spec.dtype.itemsize

    def _size(self, size: SymSize) -> int:
        if not isinstance(size, sympy.Expr):
            return size
        return int(size.subs({symbol: self._sizes[symbol.name] for symbol in size.free_symbols}))

    def _counted(self, call: Call) -> int:
        packet = call.op.overloadpacket
        if packet == own_ops.image_program:
            return self.times(call) * sum(instruction_flops(line) for line in instructions(call))
        formula = flop_registry.get(_LIKE.get(packet, packet))
        implementation = own_ops.IMPLEMENTATIONS.get(packet)
        if formula is None and implementation is None:
            return 0
        args, kwargs = self._meta((call.args, call.kwargs))
        if packet == own_ops.grouped_mm:  # each row meets one of the matrices
            rows, matrices = args[0], args[1]
            return 2 * rows.shape[0] * math.prod(matrices.shape[1:])
        if formula is not None:
            # A gradient that is not wanted keeps its place, by which the formula finds the others.
            outputs = [None if spec is None else self._empty(spec) for spec in call.outputs]
            return int(formula(*args, **kwargs, out_val=outputs[0] if call.single else outputs))
        assert implementation is not None
        with FlopCounterMode(display=False) as counter:
            implementation(*args, **kwargs)
        return counter.get_total_flops()

    def _meta(self, value: Any) -> Any:
        """Arguments with tensors that have sizes and no values."""

        def tensor(ref: Ref) -> torch.Tensor | None:
            spec = self._specs[ref.name][ref.index or 0]
            return self._empty(spec) if spec is not None else None

        return _map_syms(map_refs(value, tensor), self._size)

    def _empty(self, spec: TensorSpec) -> torch.Tensor:
        return torch.empty([self._size(s) for s in spec.shape], dtype=spec.dtype, device="meta")


def _map_syms(value: Any, size: Any) -> Any:
    if isinstance(value, Sym):
        return size(value.expr)
    if isinstance(value, (list, tuple)):
        return type(value)(_map_syms(item, size) for item in value)
    if isinstance(value, dict):
        return {key: _map_syms(item, size) for key, item in value.items()}
    return value


def instructions(call: Call) -> list[Instruction]:
    """Of an image program."""
    numbers = call.args[2]
    return [decode(numbers[i : i + LENGTH]) for i in range(0, len(numbers), LENGTH)]


def instruction_flops(line: Instruction) -> int:
    """Floating point operations of a convolution, by any way; 0 of others."""
    if line.what not in (What.CONVOLUTION, What.WINOGRAD, What.DEPTHWISE):
        return 0
    channels = 1 if line.what is What.DEPTHWISE else line.input[2]
    return 2 * math.prod(line.size) * math.prod(line.window) * channels
