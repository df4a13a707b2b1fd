"""Packed weights: a matmul's constant operand in the layout that its kernel reads, made once.

A matmul copies its right operand into panels, a few columns side by side, before it multiplies. In
an inference graph that operand is a parameter, so the kernel is handed the panels instead.

1. `mm` and `addmm` whose right operand is a float32 parameter on the CPU, or its transpose as in
   `linear`, become `torch_max_backend.packed_mm` on an extra input (`Program.packed`).
2. One row (a decoded token) times a weight that is stored transposed needs no panels: memory
   bandwidth decides, and `torch_max_backend.matvec` streams the weight as it is. That holds for
   bfloat16 and float16 too.
3. The bias of an `addmm` is added after the product; one with `beta` or `alpha` is left alone.
4. A product without rows is left alone.
5. Two products that need one parameter in the same layout share the extra input.

The runtime fills that input from the parameter, and again whenever the parameter's address or
version has changed (`runtime/packed_weights.py`). The compiled code holds no values: one artifact
serves every checkpoint. A write that bypasses PyTorch's version counter (`p.data.mul_(2)`, or
parameters made under `inference_mode`) is not noticed.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import torch

from torch_max_backend.program.own_ops import matvec, packed_mm
from torch_max_backend.program.packed_layout import Layout
from torch_max_backend.program.program import (
    Call,
    PackedInput,
    Program,
    Ref,
    TensorInput,
    TensorSpec,
    with_calls,
)

aten = torch.ops.aten


@functools.cache
def panel_columns() -> int:
    """Two vectors of the CPU, for which the kernel's sums fill the registers; others are slower."""
    return 32 if "avx512f" in _cpu_flags() else 16


@functools.cache
def _cpu_flags() -> frozenset[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()  # not Linux: unknown
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return frozenset(line.split())


def pack_weights(program: Program) -> Program:
    """`program` with packed operands where that is possible."""
    weights = _Weights(program)
    calls = [changed for call in program.calls for changed in weights.multiply(call)]
    if calls == program.calls:
        return program
    changed = dataclasses.replace(program, packed=[*program.packed, *weights.packed.values()])
    return with_calls(changed, calls)


class _Weights:
    """The parameters that may be packed, and those that are."""

    def __init__(self, program: Program) -> None:
        self.specs = program.specs()
        self.parameters = {
            item.name: item
            for item in program.inputs
            if isinstance(item, TensorInput) and item.static and _is_weight(item.spec)
        }
        self.transposes = {
            call.name: call.args[0].name
            for call in program.calls
            if is_transpose(call) and call.args[0].name in self.parameters
        }
        self.packed: dict[tuple[str, Layout], PackedInput] = {}

    def multiply(self, call: Call) -> list[Call]:
        """A product by a kernel that takes the weight as it is kept; other calls as they are."""
        if call.op is aten.mm.default:
            left, right, bias = call.args[0], call.args[1], None
        elif call.op is aten.addmm.default and not call.kwargs:
            bias, left, right = call.args[:3]
        else:
            return [call]
        name = self.transposes.get(right.name, right.name)
        if name not in self.parameters or len(call.args) > 3:
            return [call]
        spec = self.specs[left.name][left.index or 0]
        rows = spec.shape[0] if spec is not None else None
        transposed = right.name in self.transposes
        if rows == 1 and transposed:
            args: tuple[Any, ...] = (left, Ref(name))
            product = dataclasses.replace(call, op=matvec.default, args=args, kwargs={})
        elif rows in (None, 0) or self.parameters[name].spec.dtype is not torch.float32:
            return [call]
        else:
            panels, n = self._panels(name, transposed)
            args = (left, Ref(panels.name), n)
            product = dataclasses.replace(call, op=packed_mm.default, args=args, kwargs={})
        if bias is None:
            return [product]
        product = dataclasses.replace(product, name=f"{call.name}_product")
        total = (Ref(product.name), bias)
        return [product, dataclasses.replace(call, op=aten.add.Tensor, args=total, kwargs={})]

    def _panels(self, name: str, transposed: bool) -> tuple[PackedInput, int]:
        rows, columns = self.parameters[name].spec.shape
        k, n = (columns, rows) if transposed else (rows, columns)
        assert isinstance(k, int) and isinstance(n, int)
        layout = Layout(k, n, transposed, panel_columns())
        item = PackedInput(f"{name}_packed{len(self.packed)}", (name,), layout)
        return self.packed.setdefault((name, layout), item), n


def is_transpose(call: Call) -> bool:
    """Whether a call swaps the two dims of a matrix, in any of ATen's spellings."""
    if call.op is aten.t.default:
        return True
    if call.op is aten.permute.default:
        return call.args[1] == [1, 0]
    return call.op is aten.transpose.int and {d % 2 for d in call.args[1:3]} == {0, 1}


def _is_weight(spec: TensorSpec) -> bool:
    return (
        spec.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and spec.device.type == "cpu"
        and len(spec.shape) == 2
        and all(isinstance(size, int) and size > 0 for size in spec.shape)
    )
