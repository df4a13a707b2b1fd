"""How a graph is called: nested inputs to flat ones, each checked, and flat results to nested ones.

It is all that an engine needs beside the nodes, so that every engine accepts the same calls and
raises the same errors.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_ir.analyzer import dtype_name
from torch_ir.errors import ExecutionError
from torch_ir.ir import IR, Symbol, TensorMeta, TreeSpec
from torch_ir.structure import flat_positions, flatten_inputs, unflatten
from torch_ir.symbols import bind_symbols

__all__ = ["Interface"]

_NUMBERS: dict[str, tuple[type, ...]] = {
    "SymInt": (int,),
    "SymFloat": (float, int),
    "SymBool": (bool,),
}


@dataclass(frozen=True)
class Interface:
    """The inputs and results of a graph; the fields are those of `IR`.

    >>> interface = Interface([TensorMeta("x", ("s0", 4), "float32")], {"s0": Symbol("s0", 2, 8)})
    >>> interface.flat_inputs((torch.ones(9, 4),))
    Traceback (most recent call last):
        ...
    torch_ir.errors.ExecutionError: the size s0 = 9 must be at least 2 and at most 8
    """

    graph_inputs: Sequence[TensorMeta]
    symbols: Mapping[str, Symbol] = field(default_factory=dict)
    in_spec: TreeSpec | None = None
    out_spec: TreeSpec | None = None

    @classmethod
    def of(cls, ir: IR) -> Interface:
        """The interface of an IR."""
        return cls(ir.graph_inputs, ir.symbols, ir.in_spec, ir.out_spec)

    @functools.cached_property
    def is_static(self) -> bool:
        """Whether every input is a tensor of one shape."""
        return not any(meta.is_dynamic or meta.is_scalar for meta in self.graph_inputs)

    def flatten(self, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Any]:
        """The flat inputs of a call, in the order of `graph_inputs`; only their structure is
        checked.
        """
        if isinstance(inputs, torch.Tensor):
            raise ExecutionError("inputs must be a tuple of positional inputs: pass (x,), not x")
        if self.in_spec is not None:
            return flatten_inputs(self.in_spec, inputs, dict(kwargs or {}))
        if kwargs:
            raise ExecutionError("this IR has no keyword inputs; pass all inputs by position")
        return list(inputs)

    def flat_inputs(
        self, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """The flat inputs of a call: structure, types, shapes and ranges of sizes are checked."""
        flat = self.flatten(inputs, kwargs)
        metas = self.graph_inputs
        if len(flat) != len(metas):
            raise ExecutionError(f"got {len(flat)} inputs, the IR expects {len(metas)}")
        for i, (meta, value) in enumerate(zip(metas, flat, strict=True)):
            if meta.is_scalar:
                if type(value) not in _NUMBERS[meta.dtype]:
                    raise self._wrong(i, f"{type(value).__name__} {value!r:.50}")
                continue
            if not isinstance(value, torch.Tensor):
                raise self._wrong(i, f"{type(value).__name__} {value!r:.50}")
            if value.dim() != len(meta.shape) or dtype_name(value.dtype) != meta.dtype:
                raise self._wrong(i, f"{dtype_name(value.dtype)}{list(value.shape)}")
            if self.is_static and tuple(value.shape) != meta.shape:
                raise self._wrong(i, f"{dtype_name(value.dtype)}{list(value.shape)}")
        if not self.is_static:
            self._bind(flat)
        return flat

    def nest(self, results: Sequence[Any]) -> Any:
        """The result of a call, from its flat results."""
        return unflatten(self.out_spec, results)

    def _bind(self, flat: list[Any]) -> None:
        pairs = list(zip(self.graph_inputs, flat, strict=True))
        tensors = [(meta, value) for meta, value in pairs if not meta.is_scalar]
        numbers = {m.expr: v for m, v in pairs if m.is_scalar and m.expr and type(v) is int}
        bind_symbols(self.symbols, [m for m, _ in tensors], [v.shape for _, v in tensors], numbers)

    def _wrong(self, index: int, actual: str) -> ExecutionError:
        meta = self.graph_inputs[index]
        place = f"inputs[{index}]"
        if self.in_spec is not None:
            args, kwargs = self.in_spec.children
            place = (flat_positions(args, "args") | flat_positions(kwargs, "kwargs"))[index]
        return ExecutionError(
            f"input {meta.name} ({place}): the IR expects {meta.describe()}, got {actual}"
        )
