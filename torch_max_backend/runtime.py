"""The call: torch tensors to MAX buffers, run, and back. Nothing here that compiling could do.

AOTAutograd calls a compiled graph with one list of arguments (the "boxed" convention). Tensors pass
without copies in both directions; a parameter's buffer is kept and only its address is compared.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from max.driver import Buffer
from max.engine import Model
from torch._C import _from_dlpack, _to_dlpack
from torch.utils._sympy.printers import PythonPrinter

from torch_max_backend.graph_builder import graph_inputs, inverse
from torch_max_backend.max_threads import patient_threads
from torch_max_backend.program import (
    PackedInput,
    Program,
    SymbolInput,
    SymbolOutput,
    SymSize,
    TensorInput,
    TensorOutput,
)
from torch_max_backend.weights import Layout, PackedWeight, packed_weight

BoxedCall = Callable[[list[Any]], list[Any]]

_data_ptr = torch.Tensor.data_ptr
_view_as_real = torch.view_as_real


class _Capsule:
    """Hands a tensor to MAX by DLPack, without the checks of `Tensor.__dlpack__`.

    Those refuse tensors that require grad, and cost more than the rest of a small call.
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        return _to_dlpack(self.tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


class _CpuCapsule(_Capsule):
    __slots__ = ()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU


def to_buffer(tensor: torch.Tensor) -> Buffer:
    """A MAX buffer over the memory of a contiguous tensor."""
    capsule = _CpuCapsule if tensor.device.type == "cpu" else _Capsule
    return Buffer._from_dlpack(capsule(tensor))


def to_tensor(buffer: Buffer) -> torch.Tensor:
    """A tensor over a MAX buffer's memory, which it owns from now on."""
    return _from_dlpack(buffer.__dlpack__())


def boxed_call(program: Program, model: Model) -> BoxedCall:
    """The function that runs `program`, compiled as `model`, on a list of torch arguments."""
    taken = graph_inputs(program)
    positions = {item.name: i for i, item in enumerate(program.inputs)}
    slots = [
        (slot, positions[item.name], item)
        for slot, item in enumerate(taken)
        if not isinstance(item, PackedInput)
    ]
    static = [
        (slot, position, item.order)
        for slot, position, item in slots
        if isinstance(item, TensorInput) and item.static
    ]
    plain = [
        (slot, position)
        for slot, position, item in slots
        if isinstance(item, TensorInput) and not item.static and item.order is None
    ]
    permuted = [
        (slot, position, item.order)
        for slot, position, item in slots
        if isinstance(item, TensorInput) and not item.static and item.order is not None
    ]
    symbols = [(slot, position) for slot, position, item in slots if isinstance(item, SymbolInput)]
    captured = list(program.captured)
    complexes = [
        position for _, position, item in slots if isinstance(item, TensorInput) and item.is_complex
    ]
    parameters = _Parameters(static, len(taken))
    packed = _PackedParameters(
        [
            (slot, positions[item.source], item.layout)
            for slot, item in enumerate(taken)
            if isinstance(item, PackedInput)
        ]
    )
    mutated = {mutation.name for mutation in program.mutations}
    writes = _Writes(
        [
            (slot, position, item.order)
            for slot, position, item in slots
            if isinstance(item, TensorInput) and item.name in mutated
        ]
    )
    finish = _finisher(program)
    copies = _AliasProbe()
    execute: Callable[[list[Any]], list[Buffer]]

    def first_execute(buffers: list[Any]) -> list[Buffer]:
        nonlocal execute
        execute = model._execute_device_tensors
        with patient_threads():
            return execute(buffers)

    execute = first_execute
    template: list[Any] = [None] * len(taken)
    fill = parameters.fill if static else None
    read_sizes = _size_reader(program)

    def call(args: list[Any]) -> list[Any]:
        if complexes:
            for position in complexes:
                args[position] = _view_as_real(args[position].resolve_conj().resolve_neg())
        if captured:
            args.extend(captured)
        buffers = template.copy() if fill is None else fill(args)
        if packed.slots:
            packed.fill(args, buffers)
        for slot, position in plain:
            tensor = args[position]
            if not tensor.is_contiguous():
                tensor = tensor.contiguous()
            buffers[slot] = to_buffer(tensor)
        for slot, position, order in permuted:
            tensor = args[position].permute(order)
            if not tensor.is_contiguous():
                tensor = tensor.contiguous()
            buffers[slot] = to_buffer(tensor)
        for slot, position in symbols:
            buffers[slot] = to_buffer(torch.empty((args[position], 0), dtype=torch.uint8))
        numbers = read_sizes(args) if read_sizes is not None else None
        written = writes.begin(args, buffers) if mutated else None
        args.clear()  # the caller gave them up: free what nobody else holds
        tensors = [to_tensor(buffer) for buffer in execute(buffers)]
        if copies.pending:
            copies.probe(tensors, buffers)
        for index in copies.indices:
            tensors[index] = tensors[index].clone()
        if written is not None:
            writes.end(written)
        return finish(tensors, numbers) if finish is not None else tensors

    return call


class _Parameters:
    """Buffers of parameters, kept while the parameter's memory stays where it is.

    A kept buffer owns a reference to the memory, so an equal address is the same memory and an
    in-place update is seen. A parameter that is not dense is copied, so its version counts too.
    """

    def __init__(
        self, static: Sequence[tuple[int, int, tuple[int, ...] | None]], count: int
    ) -> None:
        self.slots = [slot for slot, _, _ in static]
        self.orders = [order for _, _, order in static]
        positions = [position for _, position, _ in static]
        many = len(positions) > 1
        self.pick: Callable[[list[Any]], Sequence[torch.Tensor]] = (
            operator.itemgetter(*positions) if many else lambda args: [args[p] for p in positions]
        )
        # One object holds both lists, so that a reader in another thread sees a matching pair.
        self.known: tuple[list[int], list[Buffer | None]] = ([-1] * len(positions), [None] * count)
        """The parameters' addresses, and all `count` buffers of a call with theirs in place."""
        self.copied: dict[int, int] = {}
        """Index of each parameter that had to be copied, and its version then."""

    def fill(self, args: list[Any]) -> list[Any]:
        """The list of a call's buffers, with those of the parameters in place."""
        tensors = self.pick(args)
        addresses = list(map(_data_ptr, tensors))
        known, buffers = self.known
        if addresses != known or (self.copied and self._copies_are_stale(tensors)):
            buffers = self._refresh(tensors, addresses)
        return buffers.copy()

    def _copies_are_stale(self, tensors: Sequence[torch.Tensor]) -> bool:
        return any(tensors[index]._version != seen for index, seen in self.copied.items())

    def _refresh(
        self, tensors: Sequence[torch.Tensor], addresses: list[int]
    ) -> list[Buffer | None]:
        known, buffers = self.known
        buffers = buffers.copy()
        for index, tensor in enumerate(tensors):
            if addresses[index] == known[index] and index not in self.copied:
                continue
            order = self.orders[index]
            dense = tensor if order is None else tensor.permute(order)
            if dense.is_contiguous():
                self.copied.pop(index, None)
            else:
                self.copied[index] = tensor._version
                dense = dense.contiguous()
            buffers[self.slots[index]] = to_buffer(dense)
        self.known = (addresses, buffers)
        return buffers


class _Writes:
    """Arguments that MAX writes to: in place, or where they have gaps, to a copy first."""

    def __init__(self, arguments: Sequence[tuple[int, int, tuple[int, ...] | None]]) -> None:
        self.arguments = arguments

    def begin(
        self, args: list[Any], buffers: list[Any]
    ) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
        """Each argument in the order of its memory, and the copy that MAX writes to, if any."""
        written: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        for slot, position, order in self.arguments:
            tensor = args[position]
            dense = tensor if order is None else tensor.permute(order)
            if dense.is_contiguous():
                written.append((tensor, None))
                continue
            copy = dense.contiguous()
            buffers[slot] = to_buffer(copy)
            written.append((dense, copy))
        return written

    def end(self, written: list[tuple[torch.Tensor, torch.Tensor | None]]) -> None:
        """Bring copies back, and say to PyTorch that the tensors changed.

        Autograd looks at a tensor's version, and so do packed weights.
        """
        with torch.no_grad():
            for tensor, copy in written:
                if copy is not None:
                    tensor.copy_(copy)
        torch.autograd.graph.increment_version([t for t, copy in written if copy is None])


class _PackedParameters:
    """Buffers of packed weights, made again when a parameter's address or version changes."""

    def __init__(self, packed: Sequence[tuple[int, int, Layout]]) -> None:
        self.slots = [slot for slot, _, _ in packed]
        self.layouts = [layout for _, _, layout in packed]
        self.positions = [position for _, position, _ in packed]
        # One object holds all, so that a reader in another thread sees what belongs together.
        self.known: tuple[list[Any], list[Any], list[PackedWeight]] = ([], [], [])

    def fill(self, args: list[Any], buffers: list[Any]) -> None:
        tensors = [args[position] for position in self.positions]
        state = [(tensor.data_ptr(), _version(tensor)) for tensor in tensors]
        known, kept, _ = self.known
        if state != known:
            weights = [
                packed_weight(tensor, version, layout)
                for tensor, (_, version), layout in zip(tensors, state, self.layouts, strict=True)
            ]
            kept = [to_buffer(weight.packed) for weight in weights]
            self.known = (state, kept, weights)
        for slot, buffer in zip(self.slots, kept, strict=True):
            buffers[slot] = buffer


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # inference tensors count none


class _AliasProbe:
    """Finds, on the first run, which outputs share memory that PyTorch expects to be their own.

    MAX folds `x + 0` or a reshape to the input itself, and two results to one buffer. Which ones is
    decided when compiling and cannot be asked for, so the first run tells.
    """

    def __init__(self) -> None:
        self.pending = True
        self.indices: tuple[int, ...] = ()

    def probe(self, tensors: Sequence[torch.Tensor], buffers: Sequence[Buffer]) -> None:
        taken = [_extent(to_tensor(buffer)) for buffer in buffers]
        shared = []
        for index, tensor in enumerate(tensors):
            start, end = _extent(tensor)
            if any(start < other_end and other < end for other, other_end in taken):
                shared.append(index)
            else:
                taken.append((start, end))
        self.indices = tuple(shared)
        # An empty tensor has no memory to share: it tells nothing about the next call.
        self.pending = any(start == end for start, end in taken)


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    return start, start + tensor.numel() * tensor.element_size()


def _finisher(program: Program) -> Callable[[list[Any], Any], list[Any]] | None:
    """What turns MAX's outputs into the program's; None if they are the same."""
    if all(
        isinstance(o, TensorOutput) and o.order is None and not o.is_complex
        for o in program.outputs
    ):
        return None
    steps: list[tuple[str, Any]] = []
    tensor_index = number_index = 0
    for output in program.outputs:
        if isinstance(output, TensorOutput):
            restore = None if output.order is None else inverse(output.order)
            steps.append(
                ("complex", tensor_index)
                if output.is_complex
                else ("tensor", (tensor_index, restore))
            )
            tensor_index += 1
        elif isinstance(output, SymbolOutput):
            steps.append(("number", number_index))
            number_index += 1
        else:
            steps.append(("value", output.value))

    def finish(tensors: list[Any], numbers: Any) -> list[Any]:
        results = []
        for kind, what in steps:
            if kind == "tensor":
                index, restore = what
                tensor = tensors[index]
                results.append(tensor if restore is None else tensor.permute(restore))
            elif kind == "complex":
                results.append(torch.view_as_complex(tensors[what]))
            else:
                results.append(numbers[what] if kind == "number" else what)
        return results

    return finish


def _size_reader(program: Program) -> Callable[[list[Any]], tuple[int, ...]] | None:
    """A function from the arguments to the program's int results; None if it has none."""
    wanted = [output.expr for output in program.outputs if isinstance(output, SymbolOutput)]
    if not wanted:
        return None
    places: dict[str, str] = {}
    for position, item in enumerate(program.inputs):
        if isinstance(item, SymbolInput) and isinstance(item.expr, sympy.Symbol):
            places[item.expr.name] = f"args[{position}]"
        elif isinstance(item, TensorInput):
            for i, size in enumerate(item.spec.shape):
                if isinstance(size, sympy.Symbol):
                    places.setdefault(size.name, f"args[{position}].shape[{i}]")
    names = sorted({str(s) for expr in wanted for s in _symbols(expr)})
    printer = PythonPrinter()
    results = "".join(f"{printer.doprint(sympy.sympify(expr))}, " for expr in wanted)
    bindings = ", ".join(f"{name}={places[name]}" for name in names)
    # Built once from sympy's own printer; evaluating the expression tree at each call is slow.
    source = f"lambda args: (lambda {', '.join(names)}: ({results}))({bindings})"
    return eval(source, {"math": __import__("math")})


def _symbols(expr: SymSize) -> set[sympy.Symbol]:
    return expr.free_symbols if isinstance(expr, sympy.Expr) else set()
