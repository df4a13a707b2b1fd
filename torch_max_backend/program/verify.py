"""Checks a `Program`: what a pass may rely on, and what it must leave true.

1. Each input, packed input and call has a name of its own.
2. A call reads tensor inputs, packed inputs and calls before it. It picks one output of a call that
   has several, and none of a call that has one. What it reads is a tensor that the call lists in
   `used_outputs`.
3. A call fits the schema of its op: the number and the names of its arguments, tensors only where
   the schema takes tensors, symbolic ints as `Sym`, and as many outputs as the op returns.
4. A pass adds no symbol to a shape, an argument or a result that is neither a size of a tensor
   input nor an input itself. The importer may, for a size that depends on data: the lowering
   rejects it, and PyTorch runs the call.
5. The last inputs are the captured tensors: static, with their shapes and dtypes.
6. A packed input is made from static inputs on the CPU with static sizes, of float32 unless it is a
   `WeightExpression`. If its layout tells sizes, these are the sizes of the inputs.
7. A result is defined, and it is a tensor. The order of an input's or a result's dims in memory
   names each of them once. The last size of a complex one is 2.
8. A mutation writes to an argument, once, and its value has the argument's dtype and sizes.
9. After a pass, some result depends on each call (or the call returns nothing).
10. After a pass, PyTorch computes the shapes and dtypes of each call that the pass has made or
    changed, where they are static.

`passes.run` verifies after each pass with TORCH_MAX_BACKEND_VERBOSE=1, and in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import sympy
import torch

from torch_max_backend import flags
from torch_max_backend.compat.torch import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
    disable_current_modes,
    schema_of,
)
from torch_max_backend.errors import ProgramError
from torch_max_backend.program.image_weights import ImageWeights
from torch_max_backend.program.program import (
    Call,
    Program,
    Ref,
    Sym,
    SymbolInput,
    SymbolOutput,
    TensorInput,
    TensorOutput,
    TensorSpec,
    WeightExpression,
    live_calls,
    map_refs,
    told_symbols,
)

aten = torch.ops.aten

_always = False


def verify_always(on: bool = True) -> None:
    """Verify every program of this process after each pass, as the tests do."""
    global _always
    _always = on


def is_wanted() -> bool:
    """Whether programs are verified after each pass."""
    return _always or flags.verbose()


def verify(program: Program, stage: str, before: Program | None = None) -> None:
    """Raise `ProgramError` if a rule is broken.

    `stage` is what made the program: the importer, or the pass that changed `before` into it.
    """
    verifier = _Verifier(program, stage)
    verifier.check()
    if before is not None:
        verifier.check_pass(before)


class _Verifier:
    def __init__(self, program: Program, stage: str) -> None:
        self.program = program
        self.stage = stage
        self.values: dict[str, Call | TensorSpec] = {}
        """What is defined so far and may be read."""

    def fail(self, rule: int, what: str, call: Call | None = None) -> NoReturn:
        lines = [f"after {self.stage}, the program breaks rule {rule} of program/verify.py: {what}"]
        if call is not None:
            lines.append(f"  in {call.name} = {call.op}{call.args} {call.kwargs or ''}".rstrip())
            lines.append(f"  from {call.source or 'an unknown line'}")
        raise ProgramError("\n".join(lines), rule, call.name if call is not None else "")

    def check(self) -> None:
        self._check_names()
        self._check_inputs()
        for call in self.program.calls:
            for ref in call.reads():
                self._read(ref, call, 2)
            self._check_schema(call)
            self.values[call.name] = call
        self._check_results()

    def check_pass(self, before: Program) -> None:
        self._check_symbols(before)
        calls = self.program.calls
        alive = {call.name for call in live_calls(calls, self.program.results())}
        for call in calls:
            if call.name not in alive:
                self.fail(9, "nothing reads this call", call)
        known = {call.name: call for call in before.calls}
        specs = self.program.specs()
        for call in calls:
            if known.get(call.name) != call:
                self._check_against_pytorch(call, specs)

    def _check_names(self) -> None:
        program = self.program
        seen: set[str] = set()
        for item in (*program.inputs, *program.packed, *program.calls):
            if item.name in seen:
                call = item if isinstance(item, Call) else None
                self.fail(1, f"the name {item.name!r} is defined twice", call)
            seen.add(item.name)

    def _check_inputs(self) -> None:
        program = self.program
        inputs = {item.name: item for item in program.inputs if isinstance(item, TensorInput)}
        for item in inputs.values():
            self.values[item.name] = item.spec
            self._check_memory(f"input {item.name!r}", item.spec, item.order, item.is_complex)
        count = len(program.captured)
        last = program.inputs[len(program.inputs) - count :] if count else []
        if len(last) != count:
            self.fail(5, f"{count} tensors are captured, and there are {len(last)} inputs")
        for captured, tensor in zip(last, program.captured, strict=True):
            if not isinstance(captured, TensorInput) or not captured.static:
                self.fail(5, f"the captured {captured.name!r} is not a static tensor input")
            spec = captured.spec
            if (tuple(tensor.shape), tensor.dtype) != (spec.shape, spec.dtype):
                given = f"{tensor.dtype}{list(tensor.shape)}"
                self.fail(5, f"input {captured.name!r} is {spec}, the captured tensor is {given}")
        for packed in program.packed:
            layout = packed.layout
            wanted: list[Any] = [None] * len(packed.sources)
            if not isinstance(layout, ImageWeights):
                wanted = layout.source_shapes()
            if len(wanted) != len(packed.sources):
                self.fail(6, f"{packed.name!r} has {layout}, and {len(packed.sources)} sources")
            for name, shape in zip(packed.sources, wanted, strict=True):
                source = inputs.get(name)
                if source is None or not source.static:
                    self.fail(6, f"{packed.name!r} is made from {name!r}, no static input")
                spec = source.spec
                any_dtype = isinstance(layout, WeightExpression)
                fits = spec.is_static and (any_dtype or spec.dtype is torch.float32)
                if shape not in (None, spec.shape) or not fits or spec.device.type != "cpu":
                    self.fail(6, f"{packed.name!r} has {layout}, and {name!r} is {spec}")
            self.values[packed.name] = packed.spec

    def _check_memory(
        self, what: str, spec: TensorSpec, order: Sequence[int] | None, is_complex: bool
    ) -> None:
        if order is not None and sorted(order) != list(range(len(spec.shape))):
            self.fail(7, f"{what} is {spec}, its dims in memory are {order}")
        if is_complex and not (spec.dtype.is_floating_point and spec.shape[-1:] == (2,)):
            self.fail(7, f"{what} is complex, and its real view is {spec}")

    def _read(self, ref: Ref, reader: Call | None, rule: int) -> TensorSpec:
        """What is known of a value that `reader`, or a result, reads."""
        value = self.values.get(ref.name)
        if value is None:
            self.fail(rule, f"{ref.name!r} is not defined by an input or an earlier call", reader)
        if isinstance(value, TensorSpec):
            if ref.index is not None:
                self.fail(rule, f"output {ref.index} of the input {ref.name!r} is read", reader)
            return value
        count = len(value.outputs)
        if (ref.index is None) != value.single or not 0 <= (ref.index or 0) < count:
            has = "one output" if value.single else f"a list of {count} outputs"
            self.fail(rule, f"{ref} is read, and {value.op} has {has}", reader)
        index = ref.index or 0
        spec = value.outputs[index]
        if spec is None:
            self.fail(rule, f"{ref} is read, and {value.op} gives no tensor there", reader)
        if index not in value.used_outputs:
            used = sorted(value.used_outputs)
            self.fail(rule, f"{ref} is read, and the used outputs of {value.op} are {used}", reader)
        return spec

    def _check_schema(self, call: Call) -> None:
        arguments = schema_of(call.op).arguments
        positional = [argument for argument in arguments if not argument.kwarg_only]
        if len(call.args) > len(positional):
            self.fail(3, f"{len(call.args)} arguments, the op takes {len(positional)}", call)
        given = dict(zip((a.name for a in positional), call.args, strict=False))
        known = {argument.name: argument for argument in arguments}
        for name in call.kwargs:
            if name not in known or name in given:
                again = "is given twice" if name in given else "is not the op's"
                self.fail(3, f"the argument {name!r} {again}", call)
        given.update(call.kwargs)
        for name, argument in known.items():
            if name not in given and not argument.has_default_value():
                self.fail(3, f"the argument {name!r} is missing", call)
        for name, value in given.items():
            leaves = list(_leaves(value))
            type_ = str(known[name].type)
            if "Tensor" not in type_ and any(isinstance(leaf, Ref) for leaf in leaves):
                self.fail(3, f"the argument {name!r} is {type_}, and a tensor is given", call)
            if any(isinstance(leaf, sympy.Basic) for leaf in leaves):
                self.fail(3, f"the argument {name!r} holds a symbol that is not a Sym", call)
        self._check_outputs(call)

    def _check_outputs(self, call: Call) -> None:
        returns = [str(item.type) for item in schema_of(call.op).returns]
        count = len(call.outputs)
        single = len(returns) < 2 and not any(text.startswith("List") for text in returns)
        if single is not call.single or (single and count != 1):
            self.fail(3, f"{_outputs(call)}, and the op returns ({', '.join(returns)})", call)
        if len(returns) > 1 and count != len(returns):
            self.fail(3, f"{_outputs(call)}, and the op returns {len(returns)}", call)
        if not returns and call.outputs[0] is not None:
            self.fail(3, f"{_outputs(call)}, and the op returns nothing", call)
        if call.single and call.used_outputs != {0}:
            self.fail(3, f"the used outputs of one are {sorted(call.used_outputs)}", call)
        if not call.used_outputs <= set(range(count)):
            self.fail(3, f"the used outputs are {sorted(call.used_outputs)} of {count}", call)

    def _check_symbols(self, before: Program) -> None:
        known = told_symbols(self.program) | {
            item.expr.name
            for item in self.program.inputs
            if isinstance(item, SymbolInput) and isinstance(item.expr, sympy.Symbol)
        }
        known.update(name for name, _, _ in _symbols(before))
        for name, what, call in _symbols(self.program):
            if name not in known:
                self.fail(4, f"no input tells {name}, which is in {what}", call)

    def _check_results(self) -> None:
        program = self.program
        for output in program.outputs:
            if isinstance(output, TensorOutput):
                spec = self._read(output.ref, None, 7)
                what = f"the result {output.ref}"
                self._check_memory(what, spec, output.order, output.is_complex)
        arguments = program.inputs[: len(program.inputs) - len(program.captured)]
        left = {item.name: item.spec for item in arguments if isinstance(item, TensorInput)}
        for mutation in program.mutations:
            if mutation.name not in left:
                self.fail(8, f"{mutation.name!r} is not a tensor argument, or is written twice")
            spec = left.pop(mutation.name)
            value = self._read(mutation.ref, None, 8)
            if value.dtype is not spec.dtype or not _may_be_equal(value.shape, spec.shape):
                self.fail(8, f"{mutation.name!r} is {spec}, and {value} is written to it")

    def _check_against_pytorch(
        self, call: Call, specs: dict[str, tuple[TensorSpec | None, ...]]
    ) -> None:
        read = [specs[ref.name][ref.index or 0] for ref in call.reads()]
        symbolic = any(isinstance(leaf, Sym) for leaf in _leaves((call.args, call.kwargs)))
        if symbolic or any(s is not None and not s.is_static for s in (*read, *call.outputs)):
            return
        if call.op.overloadpacket in (aten.as_strided, aten.as_strided_scatter):
            return  # a spec does not tell the strides that it reads
        with disable_current_modes(), FakeTensorMode(), torch.no_grad():
            fakes = {ref: _fake(specs[ref.name][ref.index or 0]) for ref in call.reads()}
            args, kwargs = map_refs((call.args, call.kwargs), fakes.__getitem__)
            try:
                result = call.op(*args, **kwargs)
            except (
                DataDependentOutputException,
                DynamicOutputShapeException,
                UnsupportedOperatorException,
            ):
                return  # its shape depends on a folded value, or the op has no fake kernel
            except Exception as error:
                lines = str(error).splitlines() or [type(error).__name__]
                self.fail(10, f"PyTorch rejects the call: {lines[0]}", call)
        results = [result] if call.single else list(result)
        for index, (spec, value) in enumerate(zip(call.outputs, results, strict=True)):
            if spec is None or not isinstance(value, torch.Tensor):
                continue
            if (tuple(value.shape), value.dtype) != (spec.shape, spec.dtype):
                answer = f"{value.dtype}{list(value.shape)}"
                self.fail(10, f"output {index} is {spec}, PyTorch's is {answer}", call)


def _symbols(program: Program) -> Iterator[tuple[str, str, Call | None]]:
    """The names of the symbols of a program, each with where it is."""
    places: list[tuple[object, str, Call | None]] = []
    for item in program.inputs:
        if isinstance(item, TensorInput):
            places.append((item.spec.shape, f"the input {item.name!r}: {item.spec}", None))
    for call in program.calls:
        places.append(((call.args, call.kwargs), "an argument", call))
        places += [(spec.shape, f"an output: {spec}", call) for spec in call.outputs if spec]
    for output in program.outputs:
        if isinstance(output, SymbolOutput):
            places.append((output.expr, f"the result {output.expr}", None))
    for value, what, call_ in places:
        for leaf in _leaves(value):
            expr = leaf.expr if isinstance(leaf, Sym) else leaf
            for symbol in expr.free_symbols if isinstance(expr, sympy.Expr) else ():
                yield symbol.name, what, call_


def _fake(spec: TensorSpec | None) -> torch.Tensor:
    assert spec is not None
    return torch.empty(spec.shape, dtype=spec.dtype, device=spec.device)


def _outputs(call: Call) -> str:
    return "one output" if call.single else f"a list of {len(call.outputs)} outputs"


def _may_be_equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two shapes agree where both are ints; symbolic sizes may differ in spelling."""
    return len(one) == len(other) and all(
        a == b for a, b in zip(one, other, strict=True) if isinstance(a, int) and isinstance(b, int)
    )


def _leaves(value: object) -> Iterator[Any]:
    """What lists, tuples and dicts hold."""
    if isinstance(value, (list, tuple, dict)):
        items: Iterable[object] = value.values() if isinstance(value, dict) else value
        for item in items:
            yield from _leaves(item)
    else:
        yield value
