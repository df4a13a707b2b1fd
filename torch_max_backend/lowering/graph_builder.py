"""Lowers a `Program` into a MAX graph. The only file that opens a `max.graph.Graph`.

Every lowered call is verified: its shapes and dtypes must be those that PyTorch computed while
tracing. Otherwise a `LoweringError` names the op.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sympy
from max.dtype import DType
from max.graph import (
    BufferType,
    BufferValue,
    DeviceRef,
    Dim,
    Graph,
    Module,
    TensorType,
    TensorValue,
    Value,
    ops,
)

from torch_max_backend.compat.max import BroadcastOnceGraph, join_chains
from torch_max_backend.compat.torch import OpOverload, disable_current_modes
from torch_max_backend.errors import LoweringError, MaxCompilerError, UnsupportedOpError, how_to_add
from torch_max_backend.lowering import aten_functions as _registered  # noqa: F401
from torch_max_backend.lowering import constants, shapes
from torch_max_backend.lowering import gpu_forms as _forms  # noqa: F401
from torch_max_backend.lowering.devices import device_ref, is_gpu, max_dtype, torch_dtype
from torch_max_backend.lowering.registry import MAPPING_TORCH_ATEN_TO_MAX, Entry
from torch_max_backend.lowering.types import CallInfo, OutputMeta
from torch_max_backend.program import (
    AddressInput,
    Call,
    GraphInput,
    PackedInput,
    Program,
    Ref,
    Sym,
    SymbolInput,
    TensorInput,
    TensorOutput,
    graph_inputs,
    inverse,
    stored_mutations,
    told_symbols,
)
from torch_max_backend.program.describe import describe, program_specs
from torch_max_backend.program.own_ops import update, write_lines

Lowerings = dict[OpOverload, Entry]


def lowerings(program: Program) -> Lowerings:
    """The table's current rows for the program's ops: a graph may be built later."""
    found: Lowerings = {}
    for call in program.calls:
        entry = MAPPING_TORCH_ATEN_TO_MAX.lookup(call.op)
        if entry is None:  # front ends check this first: `frontend.support.unsupported`
            where = describe(call, program_specs(program))
            raise UnsupportedOpError(
                f"no MAX lowering for {call.op}\n{where}\n  {how_to_add(call.op)}"
            )
        found[call.op] = entry
    return found


def build(
    program: Program, table: Lowerings, module: Module, name: str, kernels: Sequence[Path]
) -> Graph:
    """Lower `program` with the lowerings in `table`, as the graph `name` of `module`."""
    inputs = graph_inputs(program)
    mutated = {mutation.name for mutation in stored_mutations(program)}
    types = [
        _buffer_type(_input_type(item))
        if item.name in mutated or isinstance(item, AddressInput)
        else _input_type(item)
        for item in inputs
    ]
    # AOTAutograd calls the backend under its fake-tensor mode, but constants need real memory.
    with (
        disable_current_modes(),
        BroadcastOnceGraph(
            name, input_types=types, module=module, custom_extensions=list(kernels)
        ) as graph,
    ):
        tag = trace_tag(program)
        with graph.profile_scope(f"{tag}.in"):
            lowering = _Lowering(program, table, inputs, graph.inputs)
        for index, call in enumerate(program.calls):
            with graph.profile_scope(f"{tag}.{index}"):
                lowering.run(call)
        with graph.profile_scope(f"{tag}.out"):
            lowering.mutate()
            results = lowering.results()
        graph.output(*results)
    return graph


def trace_tag(program: Program) -> str:
    """What the trace names of a program's kernels have before the indices of their calls.

    These labels cost nothing: equal kernels are still compiled once, and name the calls of all who
    share them. MAX finds a Module in its own cache whatever the labels are, and they are then those
    of an earlier compile; so they depend on nothing but the program.
    """
    return program.key("")[:6]


def _carrier(item: SymbolInput) -> str:
    """The name of the dimension that carries an int into the graph."""
    return f"{item.expr}_shifted" if item.offset else str(item.expr)


def _input_type(item: GraphInput) -> TensorType:
    if isinstance(item, SymbolInput):
        # A buffer without elements carries a size in its shape and costs no memory.
        return TensorType(DType.uint8, [_carrier(item), 0], DeviceRef.CPU())
    sizes: list[int | str] = []
    for i, size in enumerate(item.spec.shape):
        if isinstance(size, int):
            sizes.append(size)
        elif isinstance(size, sympy.Symbol):
            sizes.append(size.name)
        else:  # MAX takes names as sizes of inputs, not expressions: `_read` rebinds them
            sizes.append(f"{item.name}_dim{i}")
    if isinstance(item, TensorInput) and item.order is not None:
        sizes = [sizes[i] for i in item.order]
    return TensorType(max_dtype(item.spec.dtype), sizes, device_ref(item.spec.device))


class _Unordered:
    """Buffer loads, or stores, with no order among them; later ops wait for all of them.

    By default each one waits for the one before, and MAX's compiler takes exponential time over
    such a chain: an optimizer of a four-layer GPT was not compiled after 25 minutes
    (docs/max_notes.md).
    """

    def __init__(self) -> None:
        self.chains = Graph.current.device_chains
        self.before: dict[DeviceRef, Any] = {}
        self.after: dict[DeviceRef, list[Any]] = {}

    @contextmanager
    def one(self, device: DeviceRef) -> Iterator[None]:
        self.chains[device] = self.before.setdefault(device, self.chains[device])
        yield
        self.after.setdefault(device, []).append(self.chains[device])

    def join(self) -> None:
        for device, chains in self.after.items():
            if len(chains) > 1:
                self.chains[device] = join_chains(chains)


def _buffer_type(type: TensorType) -> BufferType:
    """The type of an argument that the graph writes to."""
    return BufferType(type.dtype, type.shape, type.device)


def _written_in_place(program: Program) -> dict[str, str]:
    """The calls that write into the memory of an argument, and which argument that is."""
    return {
        call.name: call.args[0].name for call in program.calls if call.op is write_lines.default
    }


class _Lowering:
    """The state of one build: the value of each name."""

    def __init__(
        self,
        program: Program,
        table: Lowerings,
        inputs: Sequence[GraphInput],
        values: Sequence[Value[Any]],
    ) -> None:
        self.program = program
        self.table = table
        self.values: dict[str, Any] = {}
        self.symbols = {name: Dim(name) for name in told_symbols(program)}
        for item in inputs:
            if isinstance(item, SymbolInput):
                self.symbols[str(item.expr)] = Dim(_carrier(item)) - item.offset
        mutated = {mutation.name for mutation in stored_mutations(program)}
        self.addresses: dict[str, BufferValue] = {}
        self.in_place = _written_in_place(program)
        self.buffers: dict[str, tuple[TensorInput, BufferValue]] = {}
        loads = _Unordered()
        for item, value in zip(inputs, values, strict=True):
            if isinstance(item, AddressInput):
                self.addresses[item.name] = value.buffer
            elif isinstance(item, TensorInput) and item.name in self.in_place.values():
                self.buffers[item.name] = (item, value.buffer)
                self.values[item.name] = value.buffer
            elif isinstance(item, TensorInput) and item.name in mutated:
                self.buffers[item.name] = (item, value.buffer)
                with loads.one(value.buffer.device):
                    self.values[item.name] = self._read(item, ops.buffer_load(value.buffer))
            elif isinstance(item, TensorInput):
                self.values[item.name] = self._read(item, value.tensor)
            elif isinstance(item, PackedInput):
                self.values[item.name] = value.tensor
        loads.join()
        self.writes = _Unordered()

    def _read(self, item: TensorInput, value: TensorValue) -> TensorValue:
        if item.order is not None:
            value = ops.permute(value, inverse(item.order))
        if any(isinstance(s, sympy.Expr) and not s.is_Symbol for s in item.spec.shape):
            value = ops.rebind(value, [self.size(s) for s in item.spec.shape])
        return value

    def size(self, size: int | sympy.Expr) -> shapes.Size:
        return shapes.from_sympy(size, self.symbols)

    def resolve(self, value: Any) -> Any:
        """An argument as lowerings take it."""
        if isinstance(value, Ref):
            result = self.values[value.name]
            return result if value.index is None else result[value.index]
        if isinstance(value, Sym):
            return constants.number(value.expr, self.symbols)
        if isinstance(value, (list, tuple)):
            return type(value)(self.resolve(item) for item in value)
        if isinstance(value, dict):
            return {key: self.resolve(item) for key, item in value.items()}
        return value

    def run(self, call: Call) -> None:
        entry = self.table[call.op]
        try:
            info = self._info(call)
            args, kwargs = self.resolve(self._arguments(call)), self.resolve(call.kwargs)
            if is_gpu(info.device):
                args, kwargs = _on(info.device, args), _on(info.device, kwargs)
            if entry.needs_call:
                kwargs["call"] = info
            if call.op is update.default:  # its results are in the memory of the arguments
                with self.writes.one(info.device):
                    entry.checked(*args, **kwargs)
                return
            if call.name in self.in_place:
                with self.writes.one(info.device):
                    result = entry.checked(*args, **kwargs)
            else:
                result = entry.checked(*args, **kwargs)
            self.values[call.name] = self._verified(call, info, result)
        except Exception as error:
            lines = [
                f"the lowering of {call.op} failed: {type(error).__name__}: {_first_line(error)}",
                describe(call, program_specs(self.program)),
                f"  lowered by {entry.name(call.op)}",
            ]
            raise LoweringError("\n".join(lines), call.name, entry.builtin) from error

    def _arguments(self, call: Call) -> tuple[Any, ...]:
        """The arguments of a call; tensors that it reaches by their addresses are one buffer."""
        if call.op is update.default:
            return (self.addresses[call.name], *call.args[1:])
        return call.args

    def _info(self, call: Call) -> CallInfo:
        outputs = tuple(
            None
            if spec is None
            else OutputMeta(tuple(self.size(s) for s in spec.shape), spec.dtype)
            for spec in call.outputs
        )
        spec = next((spec for spec in call.outputs if spec is not None), None)
        device = DeviceRef.CPU() if spec is None else device_ref(spec.device)
        return CallInfo(call.op, call.name, outputs, call.used_outputs, device)

    def _verified(self, call: Call, info: CallInfo, result: Any) -> Any:
        """`result` if it has PyTorch's shapes and dtypes, with PyTorch's spelling of sizes."""
        results = [result] if call.single else result
        if not isinstance(results, (list, tuple)) or len(results) != len(info.outputs):
            raise MaxCompilerError(
                f"it returned {type(result).__name__}, PyTorch returns {len(info.outputs)} outputs"
            )
        verified: list[TensorValue | None] = []
        for index, (value, meta) in enumerate(zip(results, info.outputs, strict=True)):
            if meta is None or (value is None and index not in call.used_outputs):
                verified.append(None)
                continue
            verified.append(_verified_tensor(value, meta, f"output {index}: " if index else ""))
        return verified[0] if call.single else verified

    def mutate(self) -> None:
        """Store the new values of mutated arguments, each in its argument's memory layout."""
        self.writes.join()
        stores = _Unordered()
        for mutation in stored_mutations(self.program):
            if mutation.ref.name in self.in_place:
                continue
            item, buffer = self.buffers[mutation.name]
            value = self.resolve(mutation.ref)
            if item.order is not None:
                value = ops.permute(value, list(item.order))
            if list(value.shape) != list(buffer.shape):
                value = ops.rebind(value, buffer.shape)
            with stores.one(buffer.device):
                ops.buffer_store(buffer, value)
        stores.join()

    def results(self) -> list[TensorValue]:
        outputs = []
        for output in self.program.outputs:
            if isinstance(output, TensorOutput):
                value = self.resolve(output.ref)
                if output.order is not None:
                    value = ops.permute(value, list(output.order))
                outputs.append(value)
        return outputs


def _on(device: DeviceRef, value: Any) -> Any:
    """Arguments of a call on a GPU, where PyTorch also takes numbers and indices on the CPU."""
    if isinstance(value, TensorValue):
        return value.to(device) if value.device.is_cpu() else value
    if isinstance(value, (list, tuple)):
        return type(value)(_on(device, item) for item in value)
    if isinstance(value, dict):
        return {key: _on(device, item) for key, item in value.items()}
    return value


def _verified_tensor(value: Any, meta: OutputMeta, prefix: str) -> TensorValue:
    if not isinstance(value, TensorValue):
        raise MaxCompilerError(f"{prefix}it returned {type(value).__name__}, not a tensor")
    if torch_dtype(value.dtype) is not meta.dtype:
        raise MaxCompilerError(
            f"{prefix}it returned {torch_dtype(value.dtype)}, PyTorch returns {meta.dtype}"
        )
    expected = list(meta.shape)
    actual = shapes.sizes(value)
    if actual == expected:
        return value
    mismatch = len(actual) != len(expected) or any(
        isinstance(a, int) and isinstance(e, int) and a != e
        for a, e in zip(actual, expected, strict=False)
    )
    if mismatch:
        raise MaxCompilerError(f"{prefix}it returned shape {actual}, PyTorch returns {expected}")
    # Only symbolic sizes differ, and PyTorch has proved them equal: MAX checks them at run time.
    return ops.rebind(value, expected)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"
