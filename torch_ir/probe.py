"""What one call computes and allocates, found by running it on tensors without memory.

PyTorch itself decomposes a composite op, chooses an attention kernel, and decides whether a reshape
is a view, so none of that is repeated here. Sizes stay symbols during the run. The floating point
operations of each inner op are those of `torch.utils.flop_counter`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.utils.flop_counter import flop_registry

from torch_ir.amounts import ZERO, Amount, largest
from torch_ir.compat import DispatchMode, OpOverload, SymbolicSizes, kernel_of, storage_id
from torch_ir.ir import OpNode, TensorRef, Value
from torch_ir.limits import tensors_in
from torch_ir.ops.allowlist import refusal
from torch_ir.ops.aten_ops import parameters, resolve_overload

__all__ = ["CallCost", "Layout", "Probe", "Unknown", "contiguous"]

aten = torch.ops.aten

_MAX_INNER_OPS = 200_000
"""An RNN of many steps is one op; a hostile file could ask for endless steps."""

_LIKE: dict[Any, Any] = {
    aten._scaled_dot_product_flash_attention_for_cpu: aten._scaled_dot_product_flash_attention,
    aten._scaled_dot_product_fused_attention_overrideable: (
        aten._scaled_dot_product_flash_attention
    ),
}
"""Ops without a formula in PyTorch, and one that takes the same tensors first."""


def _rnn_layer(input: torch.Tensor, weight: torch.Tensor, hidden: torch.Tensor, *_: Any) -> Any:
    """Each row of the input meets both matrices of an LSTM's layer."""
    rows = input.shape[0] * input.shape[1]
    return 2 * rows * (weight.numel() + hidden.numel())


class Unknown(Exception):
    """The cost of a call cannot be found; the message says why."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Type and strides of a tensor."""

    shape: tuple[sympy.Expr, ...]
    strides: tuple[sympy.Expr, ...]
    dtype: torch.dtype

    @property
    def bytes(self) -> Amount:
        """Of the elements that it has in memory; a dimension of stride 0 has one."""
        count = sympy.S.One
        for size, stride in zip(self.shape, self.strides, strict=True):
            if stride != 0:
                count *= size
        return Amount.of(count * self.dtype.itemsize)


def contiguous(shape: Sequence[sympy.Expr], dtype: torch.dtype) -> Layout:
    """The usual layout of a new tensor."""
    strides: list[sympy.Expr] = []
    step: sympy.Expr = sympy.S.One
    for size in reversed(shape):
        strides.append(step)
        step *= sympy.Max(size, 1)
    return Layout(tuple(shape), tuple(reversed(strides)), dtype)


@dataclass(slots=True)
class CallCost:
    """What a call computes and allocates."""

    flops: Amount = ZERO
    outputs: list[tuple[Layout, int] | None] = field(default_factory=list)
    """Each result with its memory: the number of a tensor argument (0 is the first), or -1, -2, ...
    for memory that the call allocates. A result that is no tensor is None."""
    allocated: list[Amount] = field(default_factory=list)
    """Bytes of the memory -1, -2, ..."""
    peaks: list[Amount] = field(default_factory=list)
    """Bytes that the call allocates on the way, at its worst: `largest` of all moments."""


class Probe:
    """Runs calls on tensors without memory, each distinct call once."""

    def __init__(self, hints: Mapping[sympy.Symbol, int]) -> None:
        self._sizes = _sizes(hints)
        self._known: dict[Any, CallCost | Unknown] = {}

    def call(self, node: OpNode, values: Mapping[str, Any]) -> CallCost:
        """The cost of a node; `values` has the `Layout` or number of each value. Raises `Unknown`.

        Layers repeat, so most calls of a model are found in the cache.
        """
        key = (node.op_type, *((k, _key(v, values)) for k, v in node.arguments.items()))
        found = self._known.get(key)
        if found is None:
            try:
                found = self._run(node, values)
            except Unknown as reason:
                found = reason
            self._known[key] = found
        if isinstance(found, Unknown):
            raise found
        return found

    def call_with_numbers(self, node: OpNode, values: Mapping[str, Any]) -> CallCost:
        """The cost with each symbol at its hint, for ops that take no symbols."""
        hints = {symbol: sympy.Integer(hint) for symbol, hint in self._sizes.hints.items()}
        return self.call(node, {name: _at(value, hints) for name, value in values.items()})

    def _run(self, node: OpNode, values: Mapping[str, Any]) -> CallCost:
        overload = resolve_overload(node.op_type)
        if overload is None:
            raise Unknown(f"PyTorch {torch.__version__} has no op {node.op_type}")
        if (reason := refusal(overload)) is not None:
            raise Unknown(f"{node.op_type} is not run: {reason}")
        try:
            found = self._watched(node, overload, values)
        except Unknown:
            raise
        except Exception as error:
            text = str(error).strip().partition("\n")[0]
            raise Unknown(f"{type(error).__name__}: {text[:200]}") from error
        if not self._sizes.is_general:
            # A symbol has become a number, and would be one in every later call: begin anew.
            self._sizes = _sizes(self._sizes.hints)
            raise Unknown("the op needs a dynamic size as a number; pass sizes=")
        return found

    def _watched(self, node: OpNode, overload: OpOverload, values: Mapping[str, Any]) -> CallCost:
        tensors: list[torch.Tensor] = []
        watch = _Watch(self._sizes)
        with self._sizes.mode, torch.no_grad():
            positional, keywords = _arguments(
                node, overload, lambda value: self._argument(value, values, tensors)
            )
            with watch:
                result = kernel_of(overload)(*positional, **keywords)
            return watch.cost(result, tensors)

    def _argument(
        self, value: Value, values: Mapping[str, Any], tensors: list[torch.Tensor]
    ) -> Any:
        if isinstance(value, list | tuple):
            return [self._argument(item, values, tensors) for item in value]
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if not isinstance(value, TensorRef):
            return value
        known = values[value.name]
        if isinstance(known, sympy.Expr):
            return self._sizes.size(known)
        if not isinstance(known, Layout):
            return known
        tensor = torch.empty_strided(
            [self._sizes.size(size) for size in known.shape],
            [self._sizes.size(stride) for stride in known.strides],
            dtype=known.dtype,
            device="cpu",
        )
        tensors.append(tensor)
        return tensor


def _sizes(hints: Mapping[sympy.Symbol, int]) -> SymbolicSizes:
    made = SymbolicSizes()
    for symbol, hint in hints.items():
        made.add(symbol, hint)
    return made


def _at(value: Any, hints: Mapping[sympy.Symbol, sympy.Integer]) -> Any:
    if isinstance(value, sympy.Expr):
        return value.xreplace(hints)
    if not isinstance(value, Layout):
        return value
    shape = tuple(size.xreplace(hints) for size in value.shape)
    return Layout(shape, tuple(stride.xreplace(hints) for stride in value.strides), value.dtype)


def _key(value: Value, values: Mapping[str, Any]) -> Any:
    if isinstance(value, TensorRef):
        return ("value", values[value.name])
    if isinstance(value, list | tuple):
        return tuple(_key(item, values) for item in value)
    return type(value), value


def _arguments(
    node: OpNode, overload: OpOverload, convert: Callable[[Value], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of a call, as the op's schema orders them."""
    # In the order of the node, by which `CallCost` numbers the tensors.
    given = {name: convert(value) for name, value in node.arguments.items()}
    positional: list[Any] = []
    in_order = True
    for parameter in parameters(overload):
        if parameter.name not in given or parameter.kwarg_only:
            in_order = False
        elif in_order:
            positional.append(given.pop(parameter.name))
    return positional, given


class _Watch(DispatchMode):
    """Counts operations, and the memory of tensors from their making to their end."""

    def __init__(self, sizes: SymbolicSizes) -> None:
        super().__init__()
        self._sizes = sizes
        self._flops = ZERO
        self._live = ZERO
        self._peaks: list[Amount] = []
        self._seen: dict[int, Any] = {}
        self._made: dict[int, Amount] = {}
        self._count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._count += 1
        if self._count > _MAX_INNER_OPS:
            raise Unknown(f"the call runs more than {_MAX_INNER_OPS} ops")
        # What is passed in has its memory already.
        known = {storage_id(tensor) for tensor in tensors_in([*args, *(kwargs or {}).values()])}
        result = func(*args, **(kwargs or {}))
        packet = getattr(func, "overloadpacket", None)
        formula = flop_registry.get(_LIKE.get(packet, packet))
        if formula is not None:
            flops = formula(*args, **(kwargs or {}), out_val=result)
            self._flops += Amount.of(self._sizes.expression(flops))
        elif packet == aten.mkldnn_rnn_layer:
            self._flops += Amount.of(self._sizes.expression(_rnn_layer(*args)))
        for tensor in tensors_in(result):
            if storage_id(tensor) not in known and storage_id(tensor) not in self._seen:
                self._track(tensor)
        return result

    def _track(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage_id(tensor), self._layout(tensor).bytes

        def end(_: Any) -> None:
            if self._seen.pop(key, None) is not None:
                self._live -= size

        self._seen[key] = weakref.ref(storage, end)
        self._made[key] = size
        self._live += size
        self._peaks = largest([*self._peaks, self._live])

    def _layout(self, tensor: torch.Tensor) -> Layout:
        expression = self._sizes.expression
        return Layout(
            tuple(map(expression, tensor.shape)),
            tuple(map(expression, tensor.stride())),
            tensor.dtype,
        )

    def cost(self, result: Any, tensors: Sequence[torch.Tensor]) -> CallCost:
        memory = {storage_id(tensor): position for position, tensor in enumerate(tensors)}
        found = CallCost(self._flops, peaks=self._peaks)
        for item in result if isinstance(result, list | tuple) else [result]:
            if not isinstance(item, torch.Tensor):
                found.outputs.append(None)
                continue
            key = storage_id(item)
            if key not in memory:
                found.allocated.append(self._made.get(key, self._layout(item).bytes))
                memory[key] = -len(found.allocated)
            found.outputs.append((self._layout(item), memory[key]))
        return found
