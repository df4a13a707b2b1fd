"""Constant folding: what depends on no argument is computed once, by PyTorch, while compiling.

Position ids, causal masks, rotary frequencies: models compute them from `arange` at every call. MAX
folds such expressions too, but it compiles and runs a program for each, 10 s apiece. Here they
become tensors that the program holds (`Program.captured`), so the artifact stays free of values.

A tensor without elements depends on nothing either, whatever it is computed from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torch_max_backend.program.program import (
    Call,
    Program,
    Ref,
    Sym,
    TensorInput,
    TensorOutput,
    TensorSpec,
    live_calls,
    map_refs,
)

aten = torch.ops.aten

# A broadcast of one number costs MAX nothing, and a kernel that knows the number is the faster one.
_CHEAP = {
    aten.full.default,
    aten.scalar_tensor.default,
    aten.zeros.default,
    aten.ones.default,
    aten.lift_fresh_copy.default,
}
# They cut their first argument to pieces, and MAX would compile a program to cut a broadcast.
_CUTTING = {aten.slice_scatter.default, aten.select_scatter.default}
_UNIFORM = {
    **dict.fromkeys(("empty", "empty_like", "empty_permuted", "empty_strided"), 0),
    **dict.fromkeys(("new_empty", "new_empty_strided", "new_zeros", "zeros_like"), 0),
    "_efficientzerotensor": 0,
    **dict.fromkeys(("new_ones", "ones_like"), 1),
}
"""Ops whose result is one number everywhere. What PyTorch leaves uninitialised is 0 here."""
_LIMIT = 64 * 1024 * 1024
"""Bytes that folded tensors may take in one program."""


def fold_constants(program: Program) -> Program:
    """`program` without the calls that depend on nothing but constants."""
    program = _with_numbers(program)
    constant = _constant_calls(program)
    wanted = _worth_keeping(program, constant)
    if not wanted:
        return program
    values = _evaluate(constant, wanted)
    inputs: list[TensorInput] = []
    replaced: dict[Ref, Ref] = {}
    for ref in values:
        spec = constant[ref.name].outputs[ref.index or 0]
        assert spec is not None
        name = f"{ref.name}_folded_{ref.index or 0}"
        inputs.append(TensorInput(name, spec, static=True))
        replaced[ref] = Ref(name)
    folded = _with_refs(program, program.calls, replaced)
    return dataclasses.replace(
        folded,
        inputs=[*program.inputs, *inputs],
        captured=[*program.captured, *values.values()],
    )


def _with_numbers(program: Program) -> Program:
    """`program` with `full` for each tensor that is one number everywhere or has no elements."""
    made: list[Call] = []
    replaced: dict[Ref, Ref] = {}

    def make(ref: Ref, spec: TensorSpec, number: Any, source: str | None) -> None:
        name = f"{ref.name}_number_{ref.index or 0}"
        kwargs = {"dtype": spec.dtype, "device": spec.device}
        args = ([*spec.shape], number)
        op, used = aten.full.default, frozenset({0})
        made.append(Call(name, op, args, kwargs, (spec,), True, used, source))
        replaced[ref] = Ref(name)

    for item in program.inputs:
        if isinstance(item, TensorInput) and _is_empty(item.spec):
            make(Ref(item.name), item.spec, 0, None)
    for call in program.calls:
        for index, spec in enumerate(call.outputs):
            if spec is None or call.op in _CHEAP or not _is_static(spec):
                continue
            number = 0 if _is_empty(spec) else _number_of(call)
            if number is not None:
                make(Ref(call.name, None if call.single else index), spec, number, call.source)
    return _with_refs(program, [*made, *program.calls], replaced) if made else program


def _number_of(call: Call) -> Any:
    """The number that a call fills its result with; None if it does not."""
    name = call.op._schema.name.removeprefix("aten::")
    value = _UNIFORM.get(name)
    if name in ("fill", "full_like") and len(call.args) > 1:
        value = call.args[1]
    elif name == "new_full" and len(call.args) > 2:
        value = call.args[2]
    return value if isinstance(value, (bool, int, float)) else None


def _is_static(spec: TensorSpec) -> bool:
    return all(isinstance(size, int) for size in spec.shape)


def _is_empty(spec: TensorSpec) -> bool:
    return 0 in spec.shape and _is_static(spec)


def _with_refs(program: Program, calls: Sequence[Call], replaced: Mapping[Ref, Ref]) -> Program:
    """`program` with other calls, reading other values; what nobody reads is gone."""

    def look(ref: Ref) -> Ref:
        return replaced.get(ref, ref)

    changed = dataclasses.replace(
        program,
        outputs=[
            dataclasses.replace(output, ref=look(output.ref))
            if isinstance(output, TensorOutput)
            else output
            for output in program.outputs
        ],
        mutations=[dataclasses.replace(m, ref=look(m.ref)) for m in program.mutations],
    )
    read = [
        dataclasses.replace(
            call, args=map_refs(call.args, look), kwargs=map_refs(call.kwargs, look)
        )
        for call in calls
    ]
    return dataclasses.replace(changed, calls=live_calls(read, changed.results()))


def _refs(value: object) -> list[Ref]:
    found: list[Ref] = []
    map_refs(value, found.append)
    return found


def _constant_calls(program: Program) -> dict[str, Call]:
    constant: dict[str, Call] = {}
    for call in program.calls:
        foreign = any(ref.name not in constant for ref in _refs((call.args, call.kwargs)))
        symbolic = _has_symbol((call.args, call.kwargs)) or any(
            spec is not None and not _is_static(spec) for spec in call.outputs
        )
        random = torch.Tag.nondeterministic_seeded in call.op.tags
        undefined = "empty" in call.op.__name__
        if not (foreign or symbolic or random or undefined):
            constant[call.name] = call
    return constant


def _has_symbol(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_symbol, value))
    if isinstance(value, dict):
        return any(map(_has_symbol, value.values()))
    return isinstance(value, Sym)


def _worth_keeping(program: Program, constant: Mapping[str, Call]) -> list[Ref]:
    """Constants that some other call or an output reads."""
    wanted: dict[Ref, None] = {}
    for ref, reader in _reads(program, constant):
        if ref.name in constant:
            cheap = constant[ref.name].op in _CHEAP
            cut = reader is not None and reader.op in _CUTTING and ref == reader.args[0]
            spec = constant[ref.name].outputs[ref.index or 0]
            if spec is not None and not _is_empty(spec) and (cut or not cheap):
                wanted[ref] = None
    return list(wanted)


def _reads(program: Program, constant: Mapping[str, Call]) -> Iterator[tuple[Ref, Call | None]]:
    """What is read by calls that are not constant, and what leaves the graph."""
    for call in program.calls:
        if call.name not in constant:
            yield from ((ref, call) for ref in _refs((call.args, call.kwargs)))
    yield from ((ref, None) for ref in program.results())


def _evaluate(constant: Mapping[str, Call], wanted: Sequence[Ref]) -> dict[Ref, torch.Tensor]:
    """The values of `wanted`, the small ones first, as far as the limit allows."""
    values: dict[str, Any] = {}

    def value(ref: Ref) -> torch.Tensor:
        result = values[ref.name]
        return result if ref.index is None else result[ref.index]

    # AOTAutograd calls us under its fake-tensor mode; these are real.
    with _disable_current_modes(), torch.no_grad():
        for call in live_calls(list(constant.values()), wanted):
            args, kwargs = map_refs(call.args, value), map_refs(call.kwargs, value)
            values[call.name] = call.op(*args, **kwargs)
        kept: dict[Ref, torch.Tensor] = {}
        size = 0
        for ref in sorted(wanted, key=lambda ref: value(ref).numel()):
            size += value(ref).nbytes
            if size > _LIMIT:
                break
            kept[ref] = value(ref).contiguous()
        return kept
