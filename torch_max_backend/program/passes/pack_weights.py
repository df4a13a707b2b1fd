"""Packed weights: a matmul's constant operand in the layout that its kernel reads, made once.

A matmul copies its right operand into panels, a few columns side by side, before it multiplies. In
an inference graph that operand is a parameter, so we hand in the panels instead:

1. `pack_weights` finds `mm` and `addmm` whose right operand is a float32 parameter (or its
   transpose, as in `linear`) and rewrites them to `torch_max_backend.packed_mm` on an extra input.
2. The runtime fills that input from the parameter, and again whenever the parameter's address or
   version has changed (`PackedWeight`).

One row (a decoded token) times a weight that is stored transposed needs no panels: memory decides,
and `torch_max_backend.matvec` streams the weight as it is. The products of one row with two or
three weights (query, key and value; gate and up) are one `torch_max_backend.matvec_group`.

The compiled code holds no values: one artifact serves every checkpoint. A parameter that two
graphs pack alike is packed once. What cannot be seen is a write that bypasses PyTorch's version
counter (`p.data.mul_(2)`, or parameters made under `inference_mode`).
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import torch

from torch_max_backend.program.own_ops import matvec, matvec_group, packed_mm
from torch_max_backend.program.packed_layout import Layout
from torch_max_backend.program.program import (
    Call,
    PackedInput,
    Program,
    Ref,
    TensorInput,
    TensorSpec,
    live_calls,
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
    parameters = {
        item.name: item
        for item in program.inputs
        if isinstance(item, TensorInput) and item.static and _is_weight(item.spec)
    }
    transposes = {
        call.name: call.args[0].name
        for call in program.calls
        if _is_transpose(call) and call.args[0].name in parameters
    }
    specs: dict[str, TensorSpec | None] = {
        item.name: item.spec for item in program.inputs if isinstance(item, TensorInput)
    }
    specs.update((call.name, call.outputs[0]) for call in program.calls if call.single)

    packed: dict[tuple[str, Layout], PackedInput] = {}
    calls: list[Call] = []
    for call in program.calls:
        calls.extend(_packed_calls(call, parameters, transposes, specs, packed))
    calls = _grouped(calls, parameters)
    ours = (matvec.default, matvec_group.default, packed_mm.default)
    if not any(call.op in ours for call in calls):
        return program
    return dataclasses.replace(
        program, calls=live_calls(calls, program.results()), packed=list(packed.values())
    )


def _is_transpose(call: Call) -> bool:
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


def _packed_calls(
    call: Call,
    parameters: dict[str, TensorInput],
    transposes: dict[str, str],
    specs: dict[str, TensorSpec | None],
    packed: dict[tuple[str, Layout], PackedInput],
) -> list[Call]:
    if call.op is aten.mm.default:
        left, right, bias = call.args[0], call.args[1], None
    elif call.op is aten.addmm.default and not call.kwargs:
        bias, left, right = call.args[:3]
    else:
        return [call]
    name = transposes.get(right.name, right.name) if right.index is None else right.name
    if name not in parameters or len(call.args) > 3:
        return [call]
    spec = specs.get(left.name) if left.index is None else None
    size = spec.shape[0] if spec is not None else None
    transposed = right.name in transposes
    if size == 1 and transposed:
        product = dataclasses.replace(call, op=matvec.default, args=(left, Ref(name)), kwargs={})
    else:
        if size in (None, 0) or parameters[name].spec.dtype is not torch.float32:
            return [call]
        shape = parameters[name].spec.shape
        k, n = (shape[1], shape[0]) if transposed else (shape[0], shape[1])
        assert isinstance(k, int) and isinstance(n, int)
        layout = Layout(k, n, transposed, panel_columns())
        item = packed.setdefault(
            (name, layout), PackedInput(f"{name}_packed{len(packed)}", name, layout)
        )
        args = (left, Ref(item.name), n)
        product = dataclasses.replace(call, op=packed_mm.default, args=args, kwargs={})
    if bias is None:
        return [product]
    product = dataclasses.replace(product, name=f"{call.name}_product")
    return [
        product,
        dataclasses.replace(call, op=aten.add.Tensor, args=(Ref(product.name), bias), kwargs={}),
    ]


GROUP = 3
"""Weights of a `matvec_group` at most: what its kernel takes."""


def _grouped(calls: list[Call], parameters: dict[str, TensorInput]) -> list[Call]:
    """`calls` with products of the same row as one call, where the first of them stood."""
    views = {
        call.name: (call.args[0], str(call.args[1]))
        for call in calls
        if call.op in (aten.view.default, aten._unsafe_view.default) and not call.kwargs
    }
    groups: dict[object, list[list[Call]]] = {}
    for call in calls:
        if call.op is matvec.default:
            row, weight = call.args
            dtype = parameters[weight.name].spec.dtype
            found = groups.setdefault((views.get(row.name, row), dtype), [])
            if not found or len(found[-1]) == GROUP:
                found.append([])
            found[-1].append(call)
    group_of = {
        call.name: group
        for found in groups.values()
        for group in found
        if len(group) > 1
        for call in group
    }
    result = []
    for call in calls:
        group = group_of.get(call.name)
        if group is None:
            result.append(call)
        elif call is group[0]:
            result.extend(_group_calls(group))
    return result


def _group_calls(group: list[Call]) -> list[Call]:
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
