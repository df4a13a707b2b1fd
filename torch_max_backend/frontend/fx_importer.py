"""Reads an FX graph of ATen calls (what AOTAutograd hands out) into a `Program`."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import sympy
import torch
from torch import fx

from torch_max_backend.compat.torch import OpOverload, ShapeEnv
from torch_max_backend.errors import UnsupportedOpError
from torch_max_backend.program import (
    Call,
    Input,
    Mutation,
    OpaqueInput,
    Output,
    Program,
    Ref,
    ReturnedView,
    Sym,
    SymbolInput,
    SymbolOutput,
    SymSize,
    TensorInput,
    TensorOutput,
    TensorSpec,
    ValueOutput,
)

aten = torch.ops.aten

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n\s*(?P<code>[^\n]*)')


def import_fx(
    gm: fx.GraphModule,
    static_inputs: Collection[int] = (),
    views: Mapping[int, ReturnedView] | None = None,
) -> Program:
    """The program of `gm`; `static_inputs` are the positions of parameters and buffers.

    `views` are the results that are returned as views, by position.
    """
    inputs: list[Input] = []
    captured_inputs: list[Input] = []
    captured: list[torch.Tensor] = []
    calls: list[Call] = []
    outputs: list[Output] = []
    mutations: list[Mutation] = []
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            inputs.append(_input(node, len(inputs) in static_inputs))
        elif node.op == "get_attr":
            tensor = _in_real_numbers(_attribute(gm, node.target))
            captured.append(tensor)
            captured_inputs.append(_tensor_input(node.name, tensor, static=True))
        elif node.op == "output":
            outputs = [_output(value) for value in node.args[0]]
            for position, view in (views or {}).items():
                output = outputs[position]
                if isinstance(output, TensorOutput):
                    outputs[position] = dataclasses.replace(output, view=view)
        elif is_mutation(node):
            if node.args[0].meta["val"].is_conj():
                raise UnsupportedOpError("a conjugated view that is changed in place, on MAX")
            mutations.append(Mutation(node.args[0].name, _ref(node)))
        elif _is_call(node) and not is_boundary(node):
            calls.append(call_of(node))
    return Program(inputs + captured_inputs, calls, outputs, captured, mutations=mutations)


def argument_inputs(gm: fx.GraphModule) -> list[Input]:
    """The arguments of a graph, in order."""
    return [_input(node, static=False) for node in gm.graph.find_nodes(op="placeholder")]


def is_mutation(node: fx.Node) -> bool:
    """Whether the node writes the graph's result to one of its arguments.

    AOTAutograd's graphs are functional but for these, which stand at their end.
    """
    return (
        node.target is aten.copy_.default
        and isinstance(node.args[0], fx.Node)
        and node.args[0].op == "placeholder"
    )


def tensors_of(node: fx.Node) -> list[torch.Tensor]:
    """The tensors that a node gives, as PyTorch's fakes."""
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def is_boundary(node: fx.Node) -> bool:
    """Whether the node says how a complex argument or result lies in memory, and computes nothing.

    `without_complex_numbers` leaves these ops nowhere else. A clone is of an argument whose memory
    holds its conjugate; the call itself takes care of that.
    """
    if node.target is aten.clone.default:
        return node.meta["val"].is_complex()
    return node.target in (aten.view_as_real.default, aten.view_as_complex.default)


def source_line(node: fx.Node) -> str | None:
    """`file:line  code` of the innermost frame of the user's code that made this node."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    if not frames:
        return None
    frame = frames[-1]
    return f"{frame['file']}:{frame['line']}  {frame['code']}"


def memory_order(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Dims from outermost to innermost in memory, if dense but permuted; None otherwise."""
    shape = [_hint(size) for size in tensor.shape]
    strides = [_hint(stride) for stride in tensor.stride()]
    if None in shape or None in strides or 0 in shape or _is_dense(shape, strides):
        return None
    order = sorted(range(len(shape)), key=lambda i: (-strides[i], i))  # type: ignore[operator]
    if not _is_dense([shape[i] for i in order], [strides[i] for i in order]):
        return None  # gaps or overlaps: no permutation makes it contiguous
    return tuple(order)


def _is_dense(shape: Sequence[Any], strides: Sequence[Any]) -> bool:
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _hint(value: int | torch.SymInt) -> int | None:
    """A symbolic size's example value; asking a SymInt itself would add a guard."""
    return value if isinstance(value, int) else value.node.hint


def expression(value: int | torch.SymInt) -> SymSize:
    """A size as programs hold it."""
    if isinstance(value, int):
        return value
    expr = value.node.expr
    if isinstance(expr, sympy.Integer):
        return int(expr)
    return _proved_numbers(value.node.shape_env).get(expr, expr)


_PROVED: WeakKeyDictionary[ShapeEnv, tuple[int, dict[sympy.Expr, int]]] = WeakKeyDictionary()


def _proved_numbers(env: ShapeEnv) -> dict[sympy.Expr, int]:
    """Expressions that PyTorch has guarded to be a number without replacing them by it.

    A flattened picture of `8*(s0//4)**2` elements that meets a weight of 32: MAX must see 32.
    """
    count, proved = _PROVED.get(env, (0, {}))
    if count != len(env.guards):
        for guard in env.guards[count:]:
            if not isinstance(guard.expr, sympy.Eq):
                continue
            for left, right in (guard.expr.args, guard.expr.args[::-1]):
                if isinstance(right, sympy.Integer) and not isinstance(left, sympy.Integer):
                    proved[left] = int(right)
        _PROVED[env] = (len(env.guards), proved)
    return proved


_META_IS_CPU: ContextVar[bool] = ContextVar("meta tensors stand for tensors on the CPU")


@contextlib.contextmanager
def meta_stands_for_cpu() -> Iterator[None]:
    """Inside, tensors on the meta device are imported as if they were on the CPU.

    `explain` can then tell of a model without memory what becomes of it with weights.
    """
    token = _META_IS_CPU.set(True)
    try:
        yield
    finally:
        _META_IS_CPU.reset(token)


def _device(device: torch.device) -> torch.device:
    if device.type == "meta" and _META_IS_CPU.get(False):
        return torch.device("cpu")
    return device


def _spec(value: torch.Tensor) -> TensorSpec:
    return TensorSpec(tuple(map(expression, value.shape)), value.dtype, _device(value.device))


def _in_real_numbers(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_complex():
        return tensor
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())


def _attribute(gm: fx.GraphModule, target: Any) -> torch.Tensor:
    value: Any = gm
    for part in str(target).split("."):
        value = getattr(value, part)
    if not isinstance(value, torch.Tensor):
        raise UnsupportedOpError(
            f"the graph holds {type(value).__name__} {target!r} (a control-flow or custom object), "
            "which MAX cannot run"
        )
    return value


def _input(node: fx.Node, static: bool) -> Input:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return _tensor_input(node.name, value, static)
    if isinstance(value, torch.SymInt):
        return SymbolInput(node.name, expression(value), _offset(value))
    return OpaqueInput(node.name)


def _offset(value: torch.SymInt) -> int:
    """What makes any value of a symbol a size: half of int64's range if it may be negative."""
    expr, env = value.node.expr, value.node.shape_env
    if not isinstance(expr, sympy.Symbol) or env.bound_sympy(expr).lower >= 0:
        return 0
    return 2**61


def _tensor_input(name: str, value: torch.Tensor, static: bool) -> TensorInput:
    if not value.is_complex():
        return TensorInput(name, _spec(value), memory_order(value), static)
    dtype = value.dtype.to_real()
    spec = TensorSpec((*map(expression, value.shape), 2), dtype, _device(value.device))
    return TensorInput(name, spec, None, static, is_complex=True)


def _output(value: Any) -> Output:
    if not isinstance(value, fx.Node):
        return ValueOutput(value)
    meta = value.meta.get("val")
    if isinstance(meta, torch.SymInt):
        return SymbolOutput(expression(meta))
    if isinstance(meta, torch.Tensor):
        order = memory_order(meta)
        if order is not None and meta.is_complex():
            order = (*order, len(order))  # the parts of a number stay together
        return TensorOutput(_ref(value), order, meta.is_complex())
    return ValueOutput(meta)


def _is_call(node: fx.Node) -> bool:
    """Whether the node computes tensors; symbolic arithmetic is read from `meta` instead."""
    if node.target is operator.getitem:
        return False
    return not isinstance(node.meta.get("val"), (*SYMBOLIC, int, float, bool))


def _ref(node: fx.Node) -> Ref:
    if is_mutation(node):
        written = node.args[1]
        assert isinstance(written, fx.Node)
        return _ref(written)
    if is_boundary(node):
        viewed = node.args[0]
        assert isinstance(viewed, fx.Node)
        return _ref(viewed)
    if node.target is operator.getitem:
        source, index = node.args
        assert isinstance(source, fx.Node) and isinstance(index, int)
        return Ref(source.name, index)
    return Ref(node.name)


def _argument(value: Any) -> Any:
    if isinstance(value, fx.Node):
        meta = value.meta.get("val")
        if isinstance(meta, torch.SymInt):
            expr = expression(meta)
            return expr if isinstance(expr, int) else Sym(expr)
        if isinstance(meta, (int, float, bool)):
            return meta
        if isinstance(meta, (list, tuple)) and value.target is not operator.getitem:
            return [Ref(value.name, i) for i in range(len(meta))]
        return _ref(value)
    if isinstance(value, torch.SymInt):
        expr = expression(value)
        return expr if isinstance(expr, int) else Sym(expr)
    if isinstance(value, (list, tuple)):
        return [_argument(item) for item in value]
    if isinstance(value, dict):
        return {key: _argument(item) for key, item in value.items()}
    return _device(value) if isinstance(value, torch.device) else value


def call_of(node: fx.Node) -> Call:
    """The call that a node stands for."""
    if not isinstance(node.target, OpOverload):
        raise UnsupportedOpError(
            f"{node.target} is not an ATen op, and MAX cannot run it\n"
            f"  from {source_line(node) or 'an unknown line'}"
        )
    value: Any = node.meta.get("val")
    single = not isinstance(value, (list, tuple))
    values = [value] if single else list(value)
    outputs = tuple(_spec(v) if isinstance(v, torch.Tensor) else None for v in values)
    return Call(
        name=node.name,
        op=node.target,
        args=tuple(_argument(argument) for argument in node.args),
        kwargs={key: _argument(argument) for key, argument in node.kwargs.items()},
        outputs=outputs,
        single=single,
        used_outputs=_used(node, len(outputs), single),
        source=source_line(node),
    )


def specs_of(node: fx.Node) -> dict[str, tuple[TensorSpec | None, ...]]:
    """What is known of the values that a node reads, by the name that its `Call` has for them."""
    specs = {}
    for source in node.all_input_nodes:
        name = _ref(source).name
        while source.name != name:
            source = source.all_input_nodes[-1]
        value = source.meta.get("val")
        values = value if isinstance(value, (list, tuple)) else [value]
        specs[name] = tuple(_spec(v) if isinstance(v, torch.Tensor) else None for v in values)
    return specs


def _used(node: fx.Node, count: int, single: bool) -> frozenset[int]:
    everything = frozenset(range(count))
    if single:
        return everything
    used: set[int] = set()
    for user in node.users:
        if user.target is operator.getitem and not user.users:
            continue  # picked by the tracer, read by nobody
        index = user.args[1] if user.target is operator.getitem else None
        if not isinstance(index, int):
            return everything
        used.add(index)
    return frozenset(used)
