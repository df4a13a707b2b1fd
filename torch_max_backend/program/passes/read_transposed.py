"""Products read their operands as they are stored, transposed or not.

In training most products have a transposed operand: the gradient of a weight is `x.T @ grad`, that
of its input `grad @ weight.T`. A transpose of its own would be a copy.

1. `mm`, and `addmm` with one number of the bias per column, of float32 matrices on the CPU become
   `torch_max_backend.product`. An `addmm` with `beta` or `alpha` is left alone.
2. An operand that is a transpose is replaced by what it is the transpose of, and the call says so.
3. The transpose of a transpose is the value itself. If that is an argument, this holds for operands
   only: a result must not share its memory.
4. A product of at most `FEW` rows is left alone: for so few, panels would not repay the copy.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from torch_max_backend.program.own_ops import product
from torch_max_backend.program.passes.pack_weights import is_transpose
from torch_max_backend.program.program import Call, Program, Ref, TensorSpec, with_calls

aten = torch.ops.aten

FEW = 4
"""As in `matmul.mojo`."""


def read_transposed(program: Program) -> Program:
    """`program` with products that read transposes where they are stored."""
    values = _Values(program)
    calls = [values.read(call) for call in program.calls]
    if calls == program.calls and not values.replaced:
        return program
    return with_calls(program, calls, values.replaced)


class _Values:
    """What is known of the values so far."""

    def __init__(self, program: Program) -> None:
        self.specs = program.specs()
        self.made = {call.name for call in program.calls}
        self.roots: dict[Ref, tuple[Ref, bool]] = {}
        """What a value is made of by transposes alone, and whether it is the transpose of that."""
        self.replaced: dict[Ref, Ref] = {}

    def read(self, call: Call) -> Call:
        if is_transpose(call) and len(self._spec(call.args[0]).shape) == 2:
            self._transpose(Ref(call.name), call.args[0])
            return call
        if call.op is aten.mm.default:
            left, right = call.args
            return self._product(call, left, right, None)
        if call.op is aten.addmm.default and not call.kwargs and len(call.args) == 3:
            bias, left, right = call.args
            spec = call.outputs[0]
            columns = spec.shape[1:] if spec is not None else None
            if self._spec(bias).shape == columns:
                return self._product(call, left, right, bias)
        return call

    def _transpose(self, result: Ref, value: Ref) -> None:
        root, turned = self.roots.get(value, (value, False))
        self.roots[result] = root, not turned
        if turned and root.name in self.made:
            self.replaced[result] = root

    def _product(self, call: Call, left: Ref, right: Ref, bias: Ref | None) -> Call:
        specs = [self._spec(value) for value in (left, right, bias) if value is not None]
        rows = specs[0].shape[0]
        if not all(_is_float(spec) for spec in specs) or (isinstance(rows, int) and rows <= FEW):
            return call
        kwargs: dict[str, Any] = {} if bias is None else {"bias": bias}
        operands = []
        for value, name in ((left, "left_transposed"), (right, "right_transposed")):
            root, turned = self.roots.get(value, (value, False))
            if turned:
                kwargs[name] = True
            operands.append(root)
        return dataclasses.replace(call, op=product.default, args=tuple(operands), kwargs=kwargs)

    def _spec(self, value: Ref) -> TensorSpec:
        spec = self.specs[value.name][value.index or 0]
        assert spec is not None
        return spec


def _is_float(spec: TensorSpec) -> bool:
    return spec.dtype is torch.float32 and spec.device.type == "cpu"
