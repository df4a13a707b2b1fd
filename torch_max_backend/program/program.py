"""A graph of ATen calls, free of its front end: what importers make and the builder lowers.

A `Program` can be built into any number of MAX Modules, and names its own content (`key`), so that
equal graphs are compiled once, ever.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Union

import sympy
import torch

from torch_max_backend.compat.torch import OpOverload, schema_of
from torch_max_backend.program.image_weights import ImageWeights
from torch_max_backend.program.own_ops import update
from torch_max_backend.program.packed_layout import JoinedLayout, Layout

BoxedCall = Callable[[list[Any]], list[Any]]
"""How a graph is called: with one list of arguments, which the callee may empty."""

SymSize = Union[int, sympy.Expr]  # noqa: UP007 - mypy sees no alias in `|` with an untyped class
"""A size before lowering: an int, or an expression over the graph's symbols."""


class Kind(Enum):
    """Which of AOTAutograd's graphs it is."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"


@dataclass(frozen=True)
class Ref:
    """The value of an input or of a call; `index` picks one of several outputs."""

    name: str
    index: int | None = None


@dataclass(frozen=True)
class Sym:
    """A symbolic int argument."""

    expr: sympy.Expr


@dataclass(frozen=True)
class TensorSpec:
    """Shape, dtype and device of a tensor, as PyTorch's fake tensors tell them."""

    shape: tuple[SymSize, ...]
    dtype: torch.dtype
    device: torch.device

    @property
    def is_static(self) -> bool:
        """No size is symbolic."""
        return all(isinstance(size, int) for size in self.shape)

    @property
    def is_empty(self) -> bool:
        """It has no elements, whatever is computed."""
        return 0 in self.shape and self.is_static

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{dtype}[{', '.join(map(str, self.shape))}] {self.device}"


@dataclass(frozen=True)
class TensorInput:
    """A tensor argument of the compiled function."""

    name: str
    spec: TensorSpec
    order: tuple[int, ...] | None = None
    """Dims from the outermost in memory to the innermost; None if that is their own order."""
    static: bool = False
    """A parameter or buffer: the same memory at every call until somebody replaces it."""
    is_complex: bool = False
    """The argument is complex; `spec` is that of its `torch.view_as_real`."""


@dataclass(frozen=True)
class SymbolInput:
    """An int argument of the compiled function: a symbolic size, or any Python int."""

    name: str
    expr: SymSize
    offset: int = 0
    """Added to the int when it enters the graph, as a size: for an int that may be negative."""


@dataclass(frozen=True)
class OpaqueInput:
    """An argument that no call reads (None, an unused number, a generator)."""

    name: str


@dataclass(frozen=True)
class AddressInput:
    """The addresses of the tensors that a call reads and writes where they are."""

    name: str
    """The call, whose op is `torch_max_backend.update`."""
    sources: tuple[str, ...]
    """The `TensorInput`s."""

    @property
    def spec(self) -> TensorSpec:
        """Of the tensor of addresses."""
        return TensorSpec((len(self.sources),), torch.int64, torch.device("cpu"))


Input = TensorInput | SymbolInput | OpaqueInput


@dataclass(frozen=True)
class Call:
    """One ATen call."""

    name: str
    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[TensorSpec | None, ...]
    single: bool
    """The op returns one tensor, not a tuple or list."""
    used_outputs: frozenset[int]
    source: str | None = None
    """The user's line: `file:line  code`."""

    def reads(self) -> list[Ref]:
        """The values that the call takes."""
        found: list[Ref] = []
        map_refs((self.args, self.kwargs), found.append)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        # PyTorch's ops cannot be pickled; their names can.
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return _unpickled_call, ({**values, "op": str(self.op)},)


def _unpickled_call(values: dict[str, Any]) -> Call:
    namespace, packet, overload = values["op"].split(".")
    op = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    return Call(**{**values, "op": op})


@dataclass(frozen=True, eq=False, repr=False)
class WeightExpression:
    """What calls compute from parameters alone, as a layout: PyTorch computes it beforehand."""

    sources: tuple[str, ...]
    """What the calls name the parameters."""
    source_specs: tuple[TensorSpec, ...]
    steps: tuple[Call, ...]
    result: Ref

    @functools.cached_property
    def spec(self) -> TensorSpec:
        made = {step.name: step.outputs for step in self.steps}
        spec = made[self.result.name][self.result.index or 0]
        assert spec is not None
        return spec

    @property
    def shape(self) -> tuple[SymSize, ...]:
        return self.spec.shape

    def source_shapes(self) -> list[tuple[SymSize, ...]]:
        """The shapes of the parameters."""
        return [spec.shape for spec in self.source_specs]

    def pack(self, *tensors: torch.Tensor) -> torch.Tensor:
        """The result, in memory of its own."""
        with torch.no_grad():
            given = {
                name: tensor.detach() for name, tensor in zip(self.sources, tensors, strict=True)
            }
            result = values_of_calls(self.steps, given)(self.result).contiguous()
        if (tuple(result.shape), result.dtype) != (self.spec.shape, self.spec.dtype):
            raise ValueError(
                f"PyTorch computes {result.dtype}{list(result.shape)}, not {self.spec}"
            )
        return result

    @functools.cached_property
    def text(self) -> str:
        """The expression in names of its own: equal for equal expressions."""
        names: dict[str, str] = {}
        specs = [
            f"{_numbered(name, names)} = {spec}"
            for name, spec in zip(self.sources, self.source_specs, strict=True)
        ]
        lines = [_line(step, names) for step in self.steps]
        return "; ".join(
            [*specs, *lines, f"{_numbered(self.result.name, names)}.{self.result.index}"]
        )

    def __repr__(self) -> str:
        return f"WeightExpression({self.text})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeightExpression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


AnyLayout = Layout | JoinedLayout | ImageWeights | WeightExpression


@dataclass(frozen=True)
class PackedInput:
    """A tensor made from parameters before the call: its `layout` says how."""

    name: str
    sources: tuple[str, ...]
    """The `TensorInput`s that it is made from."""
    layout: AnyLayout

    @property
    def spec(self) -> TensorSpec:
        """Of the packed tensor; kernels that take panels take float32 on the CPU."""
        if isinstance(self.layout, WeightExpression):
            return self.layout.spec
        return TensorSpec(self.layout.shape, torch.float32, torch.device("cpu"))


@dataclass(frozen=True)
class ReturnedView:
    """Which part of the memory of an argument, or of another result, a result covers."""

    base: str | int
    """The `TensorInput`, or the position of the other result."""
    shape: tuple[SymSize, ...]
    strides: tuple[SymSize, ...]
    offset: SymSize
    """From the beginning of the base."""
    as_real: bool = False
    """The view is of the base's `torch.view_as_real`."""
    conj: bool = False
    """It is conjugated where the base is not, or the other way around."""


@dataclass(frozen=True)
class TensorOutput:
    """A tensor result; `order` as in `TensorInput`."""

    ref: Ref
    order: tuple[int, ...] | None = None
    is_complex: bool = False
    """The result is `torch.view_as_complex` of the value."""
    view: ReturnedView | None = None
    """The result is returned as a view; None if it has memory of its own."""


@dataclass(frozen=True)
class SymbolOutput:
    """An int result, computed from the arguments' sizes."""

    expr: SymSize


@dataclass(frozen=True)
class ValueOutput:
    """A result known at compile time: None, or a number."""

    value: Any


Output = TensorOutput | SymbolOutput | ValueOutput


@dataclass(frozen=True)
class Mutation:
    """A tensor argument that the graph overwrites when everything is computed."""

    name: str
    """The `TensorInput`."""
    ref: Ref
    """Its new values."""


@dataclass
class Program:
    """A graph: inputs, calls in order, outputs."""

    inputs: list[Input]
    calls: list[Call]
    outputs: list[Output]
    captured: list[torch.Tensor] = field(default_factory=list)
    """Tensors that the graph holds itself; appended to the arguments at every call."""
    packed: list[PackedInput] = field(default_factory=list)
    """Inputs beside the arguments, filled from parameters."""
    mutations: list[Mutation] = field(default_factory=list)
    merged: int = 0
    """Calls that became part of another call in a pass."""
    saved: int = 0
    """How many of the last outputs nobody but the backward reads."""

    @property
    def nodes(self) -> int:
        """How many of the traced graph's calls it computes."""
        return len(self.calls) + self.merged

    def results(self) -> list[Ref]:
        """The values that leave the graph: its tensor outputs and what it writes to arguments."""
        outputs = [o.ref for o in self.outputs if isinstance(o, TensorOutput)]
        return [*outputs, *(mutation.ref for mutation in self.mutations)]

    def specs(self) -> dict[str, tuple[TensorSpec | None, ...]]:
        """What is known of each value that a `Ref` may name: one entry per output."""
        found: dict[str, tuple[TensorSpec | None, ...]] = {
            item.name: (item.spec,) for item in self.inputs if isinstance(item, TensorInput)
        }
        found.update((item.name, (item.spec,)) for item in self.packed)
        found.update((call.name, call.outputs) for call in self.calls)
        return found

    def signatures(self) -> set[tuple[str, str]]:
        """The distinct calls, by op, sizes and numbers: about the kernels that MAX compiles."""
        specs = self.specs()

        def seen(ref: Ref) -> str:
            return str(specs[ref.name][ref.index or 0])

        return {
            (str(call.op), repr(map_refs((call.args, call.kwargs), seen))) for call in self.calls
        }

    def used_names(self) -> set[str]:
        """Names that some call or output reads."""
        used = {ref.name for call in self.calls for ref in call.reads()}
        used.update(ref.name for ref in self.results())
        used.update(mutation.name for mutation in self.mutations)
        return used

    def key(self, context: str) -> str:
        """A hash of everything that decides the compiled code; `context` adds versions."""
        digest = hashlib.sha256(context.encode())
        for line in self._lines():
            digest.update(line.encode())
            digest.update(b"\n")
        return digest.hexdigest()[:32]

    def _lines(self) -> Iterator[str]:
        names: dict[str, str] = {}

        def name(value: str) -> str:
            return _numbered(value, names)

        for item in self.inputs:
            if isinstance(item, TensorInput):
                yield f"{name(item.name)} = tensor {item.spec} {item.order} {item.static}"
            elif isinstance(item, SymbolInput):
                yield f"{name(item.name)} = symbol {item.expr} {item.offset}"
            else:
                yield f"{name(item.name)} = opaque"
        for packed in self.packed:
            sources = [name(source) for source in packed.sources]
            yield f"{name(packed.name)} = packed {sources} {packed.layout}"
        for call in self.calls:
            yield _line(call, names)
        for output in self.outputs:
            if isinstance(output, TensorOutput):
                yield f"return {name(output.ref.name)}.{output.ref.index} {output.order}"
            elif isinstance(output, ValueOutput):
                yield "return value"  # the runtime's business, not the compiled code's
            else:
                yield f"return {output.expr}"
        for mutation in self.mutations:
            yield f"{name(mutation.name)} <- {name(mutation.ref.name)}.{mutation.ref.index}"


def _numbered(name: str, names: dict[str, str]) -> str:
    """A name by its position, which does not depend on the tracer's own counters."""
    return names.setdefault(name, f"%{len(names)}")


def _line(call: Call, names: dict[str, str]) -> str:
    """All that decides what a call computes."""

    def numbered(ref: Ref) -> str:
        return f"{_numbered(ref.name, names)}.{ref.index}"

    arguments, keywords = map_refs(call.args, numbered), map_refs(call.kwargs, numbered)
    outputs = ", ".join(map(str, call.outputs))
    used = sorted(call.used_outputs)
    name = _numbered(call.name, names)
    return f"{name} = {call.op} {arguments!r} {keywords!r} -> {outputs} {used}"


def values_of_calls(
    calls: Sequence[Call], given: Mapping[str, Any] = {}
) -> Callable[[Ref], torch.Tensor]:
    """Run calls without symbolic arguments on PyTorch; what is returned looks up a value."""
    values = dict(given)

    def value(ref: Ref) -> torch.Tensor:
        result = values[ref.name]
        return result if ref.index is None else result[ref.index]

    for call in calls:
        # A `view` was traced with the strides of a fake, which PyTorch's kernels need not give.
        op = torch.ops.aten.reshape.default if call.op is torch.ops.aten.view.default else call.op
        values[call.name] = op(*map_refs(call.args, value), **map_refs(call.kwargs, value))
    return value


def map_refs(value: Any, function: Callable[[Ref], Any]) -> Any:
    """`value` with every `Ref` inside lists, tuples and dicts replaced."""
    if isinstance(value, Ref):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map_refs(item, function) for item in value)
    if isinstance(value, dict):
        return {key: map_refs(item, function) for key, item in value.items()}
    return value


def live_calls(calls: Sequence[Call], results: Sequence[Ref]) -> list[Call]:
    """`calls` without those whose results nobody reads (a pass took their readers away).

    A call of an op that returns nothing is there for its effect, and stays.
    """
    read = {ref.name for ref in results}
    alive = []
    for call in reversed(calls):
        if call.name in read or not schema_of(call.op).returns:
            read.update(ref.name for ref in call.reads())
            alive.append(call)
    return alive[::-1]


def with_calls(
    program: Program, calls: Sequence[Call], replaced: Mapping[Ref, Ref] | None = None
) -> Program:
    """`program` with other calls, whose readers and results read `replaced` instead.

    Calls that are no longer read are dropped.
    """
    if replaced:

        def look(ref: Ref) -> Ref:
            return replaced.get(ref, ref)

        program = dataclasses.replace(
            program,
            outputs=[
                dataclasses.replace(output, ref=look(output.ref))
                if isinstance(output, TensorOutput)
                else output
                for output in program.outputs
            ],
            mutations=[dataclasses.replace(m, ref=look(m.ref)) for m in program.mutations],
        )
        calls = [
            dataclasses.replace(
                call, args=map_refs(call.args, look), kwargs=map_refs(call.kwargs, look)
            )
            for call in calls
        ]
    return dataclasses.replace(program, calls=live_calls(calls, program.results()))


GraphInput = TensorInput | SymbolInput | PackedInput | AddressInput


def address_inputs(program: Program) -> list[AddressInput]:
    """What the calls take that read and write tensors by their addresses."""
    return [
        AddressInput(call.name, tuple(ref.name for ref in call.args[0]))
        for call in program.calls
        if call.op is update.default
    ]


def stored_mutations(program: Program) -> list[Mutation]:
    """The mutations that the graph ends with; others are part of a call that writes in place."""
    in_place = {item.name for item in address_inputs(program)}
    return [mutation for mutation in program.mutations if mutation.ref.name not in in_place]


def graph_inputs(program: Program) -> list[GraphInput]:
    """The inputs that the MAX graph really takes, in order.

    A symbol that some tensor's shape already tells needs no input of its own. Nor does a parameter
    that is only read packed, or a tensor that is only reached by its address.
    """
    told = told_symbols(program)
    addresses = address_inputs(program)
    reached = {source for item in addresses for source in item.sources}
    used = _used_names(program)
    taken: list[GraphInput] = []
    for item in program.inputs:
        if isinstance(item, TensorInput):
            if item.name in used or not (item.static or item.name in reached):
                taken.append(item)
        elif isinstance(item, SymbolInput) and _is_free_symbol(item.expr, told):
            taken.append(item)
    return [*taken, *program.packed, *addresses]


def _used_names(program: Program) -> set[str]:
    """Names that some call or output reads otherwise than by an address."""
    used: set[str] = set()
    for call in program.calls:
        values = call.args[1:] if call.op is update.default else (call.args, call.kwargs)
        map_refs(values, lambda ref: used.add(ref.name))
    used.update(output.ref.name for output in program.outputs if isinstance(output, TensorOutput))
    for mutation in stored_mutations(program):
        used.update((mutation.name, mutation.ref.name))
    return used


def _is_free_symbol(expr: SymSize, told: set[str]) -> bool:
    return isinstance(expr, sympy.Symbol) and expr.name not in told


def told_symbols(program: Program) -> set[str]:
    """Names of the symbols that the shape of some tensor argument tells."""
    return {
        size.name
        for item in program.inputs
        if isinstance(item, TensorInput)
        for size in item.spec.shape
        if isinstance(size, sympy.Symbol)
    }


def inverse(order: Sequence[int]) -> list[int]:
    """The permutation that undoes `order`."""
    return sorted(range(len(order)), key=order.__getitem__)
