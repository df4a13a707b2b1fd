"""Constant folding: what depends on no argument is computed once, by PyTorch, while compiling.

Position ids, causal masks, rotary frequencies: models compute them from `arange` at every call. MAX
folds such expressions too, but it compiles and runs a program for each, 10 s apiece. Here they
become tensors that the program holds (`Program.captured`), so the artifact stays free of values.

1. A call is constant if it reads constants alone, its sizes and arguments are not symbolic, and its
   result is defined: no random numbers, no uninitialised memory.
2. A constant is kept as a tensor if a call that is not constant reads it, or a result is it. What
   computes it is dropped.
3. A broadcast of one number stays a call: it costs MAX nothing, and a kernel that knows the number
   is faster. The exception is a broadcast that `slice_scatter` or `select_scatter` cuts, for which
   MAX would compile a program.
4. A tensor without elements stays a call as well.
5. The smallest constants are kept first, up to a limit in bytes; the rest stays calls.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import torch

from torch_max_backend.compat.torch import disable_current_modes
from torch_max_backend.program.filled_ops import BROADCASTS
from torch_max_backend.program.program import (
    Call,
    Program,
    Ref,
    Sym,
    TensorInput,
    live_calls,
    values_of_calls,
    with_calls,
)

aten = torch.ops.aten

_CUTTING = {aten.slice_scatter.default, aten.select_scatter.default}
FOLDED = "_folded_"
"""In the name of an input that is a folded constant."""
LIMIT = 64 * 1024 * 1024
"""Bytes that folded tensors may take in one program."""


def fold_constants(program: Program) -> Program:
    """`program` without the calls that depend on nothing but constants."""
    constant = constant_calls(program)
    wanted = _worth_keeping(program, constant)
    if not wanted:
        return program
    values = _evaluate(constant, wanted)
    inputs: list[TensorInput] = []
    replaced: dict[Ref, Ref] = {}
    for ref in values:
        spec = constant[ref.name].outputs[ref.index or 0]
        assert spec is not None
        name = f"{ref.name}{FOLDED}{ref.index or 0}"
        inputs.append(TensorInput(name, spec, static=True))
        replaced[ref] = Ref(name)
    folded = with_calls(program, program.calls, replaced)
    return dataclasses.replace(
        folded,
        inputs=[*program.inputs, *inputs],
        captured=[*program.captured, *values.values()],
    )


def constant_calls(
    program: Program,
    given: Collection[str] = (),
    allowed: Callable[[Call], bool] = lambda call: True,
) -> dict[str, Call]:
    """The calls that depend on nothing but constants and the inputs that are `given`."""
    constant: dict[str, Call] = {}
    for call in program.calls:
        foreign = any(ref.name not in constant and ref.name not in given for ref in call.reads())
        symbolic = _has_symbol((call.args, call.kwargs)) or any(
            spec is not None and not spec.is_static for spec in call.outputs
        )
        random = torch.Tag.nondeterministic_seeded in call.op.tags
        undefined = "empty" in call.op.__name__
        if not (foreign or symbolic or random or undefined) and allowed(call):
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
    for ref, reader in reads_of_others(program, constant):
        if ref.name in constant:
            broadcast = constant[ref.name].op in BROADCASTS
            cut = reader is not None and reader.op in _CUTTING and ref == reader.args[0]
            spec = constant[ref.name].outputs[ref.index or 0]
            if spec is not None and not spec.is_empty and (cut or not broadcast):
                wanted[ref] = None
    return list(wanted)


def reads_of_others(
    program: Program, constant: Mapping[str, Call]
) -> Iterator[tuple[Ref, Call | None]]:
    """What is read by calls that are not constant, and what leaves the graph."""
    for call in program.calls:
        if call.name not in constant:
            yield from ((ref, call) for ref in call.reads())
    yield from ((ref, None) for ref in program.results())


def _evaluate(constant: Mapping[str, Call], wanted: Sequence[Ref]) -> dict[Ref, torch.Tensor]:
    """The values of `wanted`, the small ones first, as far as the limit allows."""
    # AOTAutograd calls us under its fake-tensor mode; these are real.
    with disable_current_modes(), torch.no_grad():
        value = values_of_calls(live_calls(list(constant.values()), wanted))
        kept: dict[Ref, torch.Tensor] = {}
        size = 0
        for ref in sorted(wanted, key=lambda ref: value(ref).numel()):
            size += value(ref).nbytes
            if size > LIMIT:
                break
            kept[ref] = value(ref).contiguous()
        return kept
