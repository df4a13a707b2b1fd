"""Constant folding: what depends on no argument is computed once, by PyTorch, while compiling.

Position ids, causal masks, rotary frequencies: models compute them from `arange` at every call. MAX
folds such expressions too, but it compiles and runs a program for each, 10 s apiece. Here they
become tensors that the program holds (`Program.captured`), so the artifact stays free of values.

A tensor without elements depends on nothing either, whatever it is computed from.
"""

from __future__ import annotations

import dataclasses

import torch
from torch.utils._python_dispatch import _disable_current_modes

from torch_max_backend.program import (
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
    aten.full_like.default,
    aten.fill.Scalar,
    aten.scalar_tensor.default,
    aten.zeros.default,
    aten.ones.default,
    aten.lift_fresh_copy.default,
}
_LIMIT = 64 * 1024 * 1024
"""Bytes that folded tensors may take in one program."""


def fold_constants(program: Program) -> Program:
    """`program` without the calls that depend on nothing but constants."""
    program = _without_empty(program)
    constant = _constant_calls(program)
    wanted = [name for name in _read_by_others(program, constant) if _worth(constant, name)]
    if not wanted:
        return program
    values = _evaluate(program, constant, wanted)
    if sum(value.nbytes for value in values.values()) > _LIMIT:
        return program
    inputs = [TensorInput(name, _spec(constant[name]), static=True) for name in values]
    calls = [call for call in program.calls if call.name not in values]
    return dataclasses.replace(
        program,
        inputs=[*program.inputs, *inputs],
        calls=live_calls(calls, program.results()),
        captured=[*program.captured, *values.values()],
    )


def _without_empty(program: Program) -> Program:
    """`program` with each result that has no elements made of nothing."""
    made: dict[Ref, Call] = {}
    calls: list[Call] = []
    for call in program.calls:
        calls.append(call)
        for index, spec in enumerate(call.outputs):
            if spec is None or call.op in _CHEAP or not _is_empty(spec):
                continue
            ref = Ref(call.name, None if call.single else index)
            name = f"{call.name}_empty_{index}"
            keywords = {"dtype": spec.dtype, "device": spec.device}
            made[ref] = Call(
                name,
                aten.full.default,
                (list(spec.shape), 0),
                keywords,
                (spec,),
                single=True,
                used_outputs=frozenset({0}),
                source=call.source,
            )
            calls.append(made[ref])
    if not made:
        return program

    def replaced(ref: Ref) -> Ref:
        return Ref(made[ref].name) if ref in made else ref

    calls = [
        dataclasses.replace(
            call, args=map_refs(call.args, replaced), kwargs=map_refs(call.kwargs, replaced)
        )
        for call in calls
    ]
    outputs = [
        dataclasses.replace(output, ref=replaced(output.ref))
        if isinstance(output, TensorOutput)
        else output
        for output in program.outputs
    ]
    mutations = [dataclasses.replace(m, ref=replaced(m.ref)) for m in program.mutations]
    changed = dataclasses.replace(program, outputs=outputs, mutations=mutations)
    return dataclasses.replace(changed, calls=live_calls(calls, changed.results()))


def _is_empty(spec: TensorSpec) -> bool:
    return 0 in spec.shape and all(isinstance(size, int) for size in spec.shape)


def _constant_calls(program: Program) -> dict[str, Call]:
    constant: dict[str, Call] = {}
    for call in program.calls:
        read: list[Ref] = []
        map_refs((call.args, call.kwargs), read.append)
        foreign = any(ref.name not in constant or ref.index is not None for ref in read)
        symbolic = _has_symbol((call.args, call.kwargs)) or any(
            spec is None or not all(isinstance(size, int) for size in spec.shape)
            for spec in call.outputs
        )
        random = torch.Tag.nondeterministic_seeded in call.op.tags
        if call.single and not (foreign or symbolic or random):
            constant[call.name] = call
    return constant


def _has_symbol(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_symbol, value))
    if isinstance(value, dict):
        return any(map(_has_symbol, value.values()))
    return isinstance(value, Sym)


def _read_by_others(program: Program, constant: dict[str, Call]) -> list[str]:
    """Constant calls whose result some other call or an output reads."""
    read: dict[str, None] = {}

    def look(ref: Ref) -> None:
        if ref.name in constant:
            read[ref.name] = None

    for call in program.calls:
        if call.name not in constant:
            map_refs((call.args, call.kwargs), look)
    for ref in program.results():
        look(ref)
    return list(read)


def _worth(constant: dict[str, Call], name: str) -> bool:
    call = constant[name]
    return call.op not in _CHEAP and not _undefined(call) and 0 not in _spec(call).shape


def _undefined(call: Call) -> bool:
    """Whether the result is whatever the memory held; zeros then, as in the lowerings."""
    return "empty" in call.op.__name__


def _spec(call: Call) -> TensorSpec:
    spec = call.outputs[0]
    assert spec is not None
    return spec


def _evaluate(
    program: Program, constant: dict[str, Call], wanted: list[str]
) -> dict[str, torch.Tensor]:
    values: dict[str, torch.Tensor] = {}
    # AOTAutograd calls us under its fake-tensor mode; these are real.
    with _disable_current_modes(), torch.no_grad():
        for call in program.calls:
            if call.name in constant:
                args = map_refs(call.args, lambda ref: values[ref.name])
                kwargs = map_refs(call.kwargs, lambda ref: values[ref.name])
                value = call.op(*args, **kwargs)
                values[call.name] = value.zero_() if _undefined(call) else value
        return {name: values[name].contiguous() for name in wanted}
