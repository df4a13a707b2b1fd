"""The op table: which function lowers which ATen op, and what PyTorch must decompose first."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from torch_max_backend import flags
from torch_max_backend.compat.torch import (
    DispatchKey,
    OpOverload,
    OpOverloadPacket,
    core_aten_decompositions,
    fma,
    has_kernel,
    has_kernel_for_key,
    hides_aliases,
    nop_decomposition,
    schema_of,
)
from torch_max_backend.compat.torch import decomposition_table as every_decomposition
from torch_max_backend.errors import ADDING_AN_OP, MappingError
from torch_max_backend.lowering import on_torch
from torch_max_backend.lowering.decompositions import DECOMPOSITIONS, basic, grouped_matmul

Op = OpOverload | OpOverloadPacket
Lowering = Callable[..., Any]
F = TypeVar("F", bound=Lowering)

_PACKAGE = str(Path(__file__).parent.parent)


@dataclass(frozen=True)
class Entry:
    """One row of the op table."""

    lowering: Lowering
    needs_call: bool
    """The lowering takes `call: CallInfo` by keyword."""
    builtin: bool
    """Registered by this package, so that the package's version identifies what it does."""

    def name(self, op: OpOverload) -> str:
        """The full name of the function that lowers `op`, and where it stands, for errors."""
        name = getattr(self.lowering, "__qualname__", repr(self.lowering))
        if self.builtin and "<locals>" in name:  # made by a table
            return f"torch_max_backend.aten_functions.{function_name(op)}"
        code = getattr(inspect.unwrap(self.lowering), "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        return f"{getattr(self.lowering, '__module__', '?')}.{name}{where}"

    @functools.cached_property
    def checked(self) -> Lowering:
        """The lowering with its run-time type checks, made when it is first used."""
        if not self.builtin or not flags.beartype():
            return self.lowering
        from beartype import BeartypeConf, beartype

        return beartype(conf=BeartypeConf(is_pep484_tower=True))(self.lowering)


def _user_line() -> str:
    for frame in reversed(traceback.extract_stack()):
        generated = frame.filename.startswith("<")  # a type checker's wrapper
        if not generated and not frame.filename.startswith(_PACKAGE):
            return f"{frame.filename}:{frame.lineno}  {frame.line}"
    return "an unknown line"


def _check(op: object, lowering: object) -> None:
    if not isinstance(op, (OpOverload, OpOverloadPacket)):
        raise MappingError(
            f"MAPPING_TORCH_ATEN_TO_MAX[{op!r}]: the key must be an ATen op such as "
            f"torch.ops.aten.tanh or torch.ops.aten.tanh.default\n  from {_user_line()}"
        )
    if not callable(lowering):
        raise MappingError(
            f"MAPPING_TORCH_ATEN_TO_MAX[{op}] = {lowering!r}: a lowering must be a function "
            f"of the op's arguments, see {ADDING_AN_OP}\n"
            f"  schema: {_schemas(op)}\n  from {_user_line()}"
        )


def _schemas(op: Op) -> str:
    if isinstance(op, OpOverload):
        return str(schema_of(op))
    return " | ".join(str(schema_of(getattr(op, name))) for name in op.overloads())


class OpMapping(MutableMapping[Any, Lowering]):
    """`MAPPING_TORCH_ATEN_TO_MAX`: ops to lowerings. Assigning adds or overrides an op.

    Keys are an `OpOverload` (`aten.add.Tensor`) or an `OpOverloadPacket` (`aten.add`, all its
    overloads); the exact overload wins.

    >>> from torch_max_backend import MAPPING_TORCH_ATEN_TO_MAX
    >>> torch.ops.aten.add in MAPPING_TORCH_ATEN_TO_MAX
    True
    """

    def __init__(self) -> None:
        self._entries: dict[Op, Entry] = {}
        self._removed: set[Op] = set()

    def is_builtin(self) -> bool:
        """Whether the table is as the package made it: nothing added, replaced or removed."""
        return not self._removed and all(entry.builtin for entry in self._entries.values())

    def of_users(self) -> list[Op]:
        """The keys whose lowerings are not this package's own."""
        return [op for op, entry in self._entries.items() if not entry.builtin]

    def register(
        self, op: Any, lowering: Any, *, needs_call: bool, builtin: bool, override: bool
    ) -> None:
        """Add a row; replacing an existing row needs `override=True`."""
        _check(op, lowering)
        if op in self._entries and not override:
            raise ValueError(f"{op} already has a lowering; pass override=True to replace it")
        self._entries[op] = Entry(lowering, needs_call, builtin)

    def lookup(self, op: OpOverload) -> Entry | None:
        """The row that lowers `op`: its own, else its packet's."""
        return self._entries.get(op) or self._entries.get(op.overloadpacket)

    def has_users_lowering(self, op: OpOverload) -> bool:
        """Whether the row that lowers `op` is not this package's own."""
        entry = self.lookup(op)
        return entry is not None and not entry.builtin

    def __getitem__(self, op: Any) -> Lowering:
        return self._entries[op].lowering

    def __setitem__(self, op: Any, lowering: Any) -> None:
        # A user's function gets the call's context by having a keyword-only parameter `call`.
        needs_call = callable(lowering) and "call" in _keyword_only(lowering)
        self.register(op, lowering, needs_call=needs_call, builtin=False, override=True)

    def __delitem__(self, op: Any) -> None:
        if self._entries.pop(op).builtin:
            self._removed.add(op)

    def __iter__(self) -> Iterator[Op]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<MAPPING_TORCH_ATEN_TO_MAX: {len(self)} lowerings>"


def _keyword_only(lowering: Lowering) -> set[str]:
    try:
        parameters = inspect.signature(lowering).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return set()
    return {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


MAPPING_TORCH_ATEN_TO_MAX = OpMapping()


def map_to(op: Op, *, needs_call: bool = False, override: bool = False) -> Callable[[F], F]:
    """Register the decorated function as the lowering of `op`.

    The function takes the op's arguments under their schema names: tensors as `MaxTensor`,
    symbolic ints as `Dim`, everything else as in PyTorch. With `needs_call=True` it also gets
    `call: CallInfo`.
    """

    # Not a nested function: beartype would build its checks again for each of 300 ops.
    return functools.partial(_register, op, needs_call, override)


def _register(op: Op, needs_call: bool, override: bool, lowering: F) -> F:
    builtin = getattr(lowering, "__module__", "").startswith("torch_max_backend.")
    MAPPING_TORCH_ATEN_TO_MAX.register(
        op, lowering, needs_call=needs_call, builtin=builtin, override=override
    )
    return lowering


def map_all(lowerings: Mapping[Op, Lowering], *, needs_call: bool = False) -> None:
    """Register a table: each function as the lowering of its op."""
    for op, lowering in lowerings.items():
        _register(op, needs_call, False, lowering)


def function_name(op: Op) -> str:
    """The name of the function that lowers an ATen op: `aten_add` for `aten.add.Tensor`."""
    packet = op.overloadpacket if isinstance(op, OpOverload) else op
    return "_".join(str(packet).replace("::", ".").split("."))


def is_mapped(op: OpOverload) -> bool:
    """Whether a lowering exists for this overload."""
    return MAPPING_TORCH_ATEN_TO_MAX.lookup(op) is not None


def preserved_composites() -> list[OpOverload]:
    """Composite ops with a user's lowering (`aten.linear`, ...).

    PyTorch would decompose them before it consults any decomposition table.
    """
    found = []
    for op in MAPPING_TORCH_ATEN_TO_MAX.of_users():
        overloads = [op] if isinstance(op, OpOverload) else [getattr(op, n) for n in op.overloads()]
        found += [overload for overload in overloads if _is_composite(overload)]
    return found


def _is_composite(op: OpOverload) -> bool:
    if not has_kernel(op.name()):
        return False  # a TorchScript overload on Python numbers
    schema = schema_of(op)
    functional = not schema.is_mutable and not any(a.alias_info for a in schema.arguments)
    composite = has_kernel_for_key(op.name(), DispatchKey.CompositeImplicitAutograd)
    return composite and functional and not hides_aliases(op)


def decomposition_table() -> dict[OpOverload, Callable[..., Any]]:
    """Decompositions of every op that has no lowering at the time of the call.

    Ours come first, then the core ATen decompositions, then PyTorch's others for ops outside core
    ATen. So an op stays whole only if it has a lowering, or if there is no decomposition of it.
    """
    core = core_aten_decompositions()
    own = {**DECOMPOSITIONS, **grouped_matmul.decompositions()}
    if (multiply_add := fma()) is not None:
        own[multiply_add] = basic.fma
    table = {op: decomposition for op, decomposition in own.items() if not is_mapped(op)}
    for source in (core, every_decomposition):
        for op, decomposition in source.items():
            if not isinstance(op, OpOverload) or op in table or is_mapped(op):
                continue
            if on_torch.reason(op) is not None:
                continue  # the decomposition of a random op draws different numbers
            if decomposition is nop_decomposition:
                continue  # lift_fresh turns a real tensor into a fake one; as an alias it would not
            if source is every_decomposition and torch.Tag.core in op.tags:
                continue  # these lead below ATen, to prims without lowerings
            table[op] = decomposition
    return table
