"""Every private API of MAX that the backend uses, each with the reason it is needed.

MAX moves these names between releases. They are imported and read here only, so a new release
breaks this file, and tests/compat/test_max.py names what moved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from max._core import Operation
from max._core.dialects import mo, rmo
from max._core.mlrt import AsyncValue
from max._core.profiler import load_profiler_plugin
from max._mlir_context import default_mlir_context, in_default_mlir_context
from max.driver import Buffer
from max.engine import CompiledModel, Model
from max.graph import Graph, Module, StaticDim, TensorValue, ops
from mojo._package_root import get_package_root

__all__ = [
    "BroadcastOnceGraph",
    "buffer_from_dlpack",
    "bytecode_of",
    "compile_handle",
    "executor",
    "in_default_mlir_context",
    "is_permuted",
    "join_chains",
    "load_profiler_plugin",
    "modular_root",
    "module_of",
    "stored",
]

# in_default_mlir_context: MAX enters its MLIR context in the main thread alone; users have others.
# load_profiler_plugin: MAX asks for a profiler by itself only when it is told to profile a GPU.

buffer_from_dlpack = Buffer._from_dlpack
"""`Buffer.from_dlpack` without its Python part, whose checks cost more than a small call."""


def compile_handle(compiled: CompiledModel) -> AsyncValue | None:
    """The handle of a running compile, which can be asked whether it is done.

    The public methods wait in C++, where Ctrl-C has no effect. None for a model that was read.
    """
    handle = compiled._compiled
    return handle if isinstance(handle, AsyncValue) else None


def bytecode_of(module: Module) -> bytes:
    """A Module in MLIR's binary form, its constants included; the text form rounds some floats."""
    return module.mlir_module.bytecode


def module_of(graphs: Sequence[bytes]) -> Module:
    """One Module of the graphs of several, in their order. `Module` itself takes none in."""
    first, *others = [Operation.from_bytecode(graph, default_mlir_context()) for graph in graphs]
    last = first.regions[0].front[-1]
    for other in others:
        for graph in list(other.regions[0].front):
            graph.move_after(last)
            last = graph
    return Module(first)


def executor(model: Model) -> Callable[[list[Any]], list[Buffer]]:
    """What `model.execute` calls after it has checked and converted each argument."""
    return model._execute_device_tensors


def modular_root() -> Path:
    """The folder with MAX's `bin` and `lib`: the linker is there, and what Mojo code links to."""
    root = get_package_root()
    if root is None:
        raise FileNotFoundError("MAX is not installed as a package: its folder is not known")
    return root


def is_permuted(value: TensorValue) -> bool:
    """Whether a value was made by `ops.permute`, so that another one would undo it at no cost."""
    return isinstance(value.to_mlir().owner, rmo.MoTransposeOp)


def stored(value: TensorValue) -> TensorValue | None:
    """What a value made by `ops.permute` was permuted from; None if it was made otherwise."""
    if not is_permuted(value):
        return None
    owner: Any = value.to_mlir().owner
    return TensorValue.from_mlir(owner.operands[0].value)


def join_chains(chains: Sequence[Any]) -> Any:
    """One chain of the current graph that waits for all of `chains`; `ops` has no such function."""
    (joined,) = Graph.current._add_op_generated(
        mo.ChainCreateOp, result=mo.ChainType(), inputs=chains, attach_profile_scopes=False
    )
    return joined


_POINTWISE = frozenset(
    f"{name}Op"
    for name in (
        *("Add", "And", "Div", "Equal", "Greater", "GreaterEqual", "Max", "Min", "Mod", "Mul"),
        *("NotEqual", "Or", "Pow", "Select", "Sub", "Xor"),
    )
)
"""The ops that broadcast their operands."""
_BROADCASTS = ("BroadcastToOp", "MoBroadcastToOp")


class BroadcastOnceGraph(Graph):
    """A graph in which nothing that was computed of a broadcast is broadcast again.

    With symbolic sizes MAX fuses `(x[s, t] + y[t]) + z[b, s, t]` into one kernel that reads `x`
    and `y` at wrong places (docs/max_notes.md). The inner result is copied first, which ends the
    fusion. It overrides the two methods through which every op is added.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # By the id of the MLIR value, which is kept so that no other gets the id.
        self._broadcast: dict[int, Any] = {}
        self._computed_of_broadcast: dict[int, Any] = {}
        super().__init__(*args, **kwargs)

    def _add_op_generated(self, op_type: Any, *args: Any, **kwargs: Any) -> list[Any]:
        args, kwargs = self._copied(op_type.__name__, args, kwargs)
        results = super()._add_op_generated(op_type, *args, **kwargs)
        self._note(op_type.__name__, args, kwargs, results)
        return results

    def _add_op(self, op: Any, *args: Any, **kwargs: Any) -> list[Any]:
        results = super()._add_op(op, *args, **kwargs)
        self._note("", args, kwargs, results)
        return results

    def _copied(self, name: str, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The operands, with copies of those that the op would broadcast again."""
        known = self._computed_of_broadcast
        if not known or not (name in _POINTWISE or name in _BROADCASTS):
            return args, kwargs
        grown = name in _BROADCASTS or _grows([*args, *kwargs.values()])

        def copied(value: Any) -> Any:
            if not (grown and isinstance(value, TensorValue) and id(value._mlir_value) in known):
                return value
            if all(isinstance(dim, StaticDim) for dim in value.shape):
                return value
            return ops.custom("copy", value.device, [value], [value.type])[0].tensor

        return tuple(map(copied, args)), {key: copied(value) for key, value in kwargs.items()}

    def _note(self, name: str, args: Any, kwargs: Any, results: list[Any]) -> None:
        broadcast, computed = self._broadcast, self._computed_of_broadcast
        operands = _tensors([*args, *kwargs.values()])
        ids = [id(operand._mlir_value) for operand in operands]
        if name in _BROADCASTS:
            known = broadcast if operands and operands[0].rank else {}
        elif any(i in broadcast or i in computed for i in ids):
            known = computed
        else:
            known = computed if name in _POINTWISE and _grows(operands) else {}
        known.update((id(value._mlir_value), value._mlir_value) for value in results)


def _tensors(values: Sequence[Any]) -> list[TensorValue]:
    """The tensors among operands, also of those that are given as a list."""
    found = []
    for value in values:
        if isinstance(value, TensorValue):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found


def _grows(values: Sequence[Any]) -> bool:
    """Whether an op of these operands broadcasts one of them. Numbers do no harm."""
    shapes = [list(value.shape) for value in _tensors(values) if value.rank]
    return any(shape != shapes[0] for shape in shapes[1:])
