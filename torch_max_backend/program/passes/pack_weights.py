"""Packed weights: a matmul's constant operand in the layout that its kernel reads, made once.

A matmul copies its right operand into panels, a few columns side by side, before it multiplies. In
an inference graph that operand is a parameter, so the kernel is handed the panels instead.

1. `mm` and `addmm` whose right operand is a float32 parameter on the CPU, or its transpose as in
   `linear`, become `torch_max_backend.packed_mm` on an extra input (`Program.packed`).
2. One row (a decoded token) times a weight that is stored transposed needs no panels: memory
   bandwidth decides, and `torch_max_backend.matvec` streams the weight as it is. That holds for
   bfloat16 and float16 too.
3. The bias of a float32 `addmm` is part of the product, if it has one number per column: packed
   with the weight, where it must be a parameter, or an argument of `matvec`. Another one is added
   after the product; an `addmm` with `beta` or `alpha` is left alone.
4. A product without rows is left alone.
5. Two products that need the same parameters in the same layout share the extra input.

The runtime fills that input from the parameter, and again whenever the parameter's address or
version has changed (`runtime/packed_weights.py`). The compiled code holds no values: one artifact
serves every checkpoint. A write that bypasses PyTorch's version counter (`p.data.mul_(2)`, or
parameters made under `inference_mode`) is not noticed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from contextvars import ContextVar
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


_FEATURES: ContextVar[frozenset[str] | None] = ContextVar("features", default=None)


@contextlib.contextmanager
def packing_for(features: frozenset[str] | None) -> Iterator[None]:
    """Inside, weights are packed for a CPU with these features; None is the CPU of this machine."""
    token = _FEATURES.set(features)
    try:
        yield
    finally:
        _FEATURES.reset(token)


def panel_columns() -> int:
    """Two vectors of the CPU, for which the kernel's sums fill the registers; others are slower."""
    features = _FEATURES.get()
    return 32 if "avx512f" in (_cpu_flags() if features is None else features) else 16


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
        self.vectors = {
            item.name
            for item in program.inputs
            if isinstance(item, TensorInput) and item.static and _is_bias(item.spec)
        }
        self.packed: dict[tuple[tuple[str, ...], Layout], PackedInput] = {}

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
        n = self.parameters[name].spec.shape[0 if transposed else 1]
        kwargs: dict[str, Any] = {}
        if rows == 1 and transposed:
            args: tuple[Any, ...] = (left, Ref(name))
            op = matvec.default
            if bias is not None and self._is_row(bias, n):
                kwargs, bias = {"bias": bias}, None
        elif rows in (None, 0) or self.parameters[name].spec.dtype is not torch.float32:
            return [call]
        else:
            inside = bias if bias is not None and bias.name in self.vectors else None
            if inside is not None and self._is_row(inside, n):
                bias = None
            else:
                inside = None
            panels = self._panels(name, transposed, inside)
            args, op = (left, Ref(panels.name), n), packed_mm.default
        product = dataclasses.replace(call, op=op, args=args, kwargs=kwargs)
        if bias is None:
            return [product]
        product = dataclasses.replace(product, name=f"{call.name}_product")
        total = (Ref(product.name), bias)
        return [product, dataclasses.replace(call, op=aten.add.Tensor, args=total, kwargs={})]

    def _is_row(self, bias: Ref, n: object) -> bool:
        """Whether a bias has one float32 number for each of n columns."""
        spec = self.specs[bias.name][bias.index or 0]
        return spec is not None and spec.shape == (n,) and spec.dtype is torch.float32

    def _panels(self, name: str, transposed: bool, bias: Ref | None) -> PackedInput:
        rows, columns = self.parameters[name].spec.shape
        k, n = (columns, rows) if transposed else (rows, columns)
        assert isinstance(k, int) and isinstance(n, int)
        layout = Layout(k, n, transposed, panel_columns(), bias is not None)
        sources = (name,) if bias is None else (name, bias.name)
        item = PackedInput(f"{name}_packed{len(self.packed)}", sources, layout)
        return self.packed.setdefault((sources, layout), item)


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


def _is_bias(spec: TensorSpec) -> bool:
    return spec.dtype is torch.float32 and spec.device.type == "cpu" and len(spec.shape) == 1
