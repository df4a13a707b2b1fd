"""Compiles a graph to a flat list of steps, so that a run looks up no names or ops.

The values of a run are stored in one list of slots. Literals have slots of their own, filled in
when compiling, so most calls are a function, the slots of its arguments and a slot for the result.
After each step, the slots that no later step reads are cleared, which frees their tensors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from torch_ir.compat import OpOverload, kernel_of, schema_of
from torch_ir.errors import ExecutionError
from torch_ir.ir import GraphRef, OpNode, Subgraph, TensorRef, Value, references
from torch_ir.limits import Guard
from torch_ir.ops import registry
from torch_ir.ops.allowlist import is_listed, refusal
from torch_ir.ops.aten_impl import PYTHON_OPS
from torch_ir.ops.aten_ops import DENIED_OPS, HIGHER_ORDER_ARGUMENTS, parameters, resolve_overload
from torch_ir.ops.checked import checked_kernel, checked_number_op
from torch_ir.ops.higher_order import HIGHER_ORDER_OPS

__all__ = ["MAX_SUBGRAPH_DEPTH", "Plan", "compile_plan"]

MAX_SUBGRAPH_DEPTH = 32
"""Subgraphs that call subgraphs that call subgraphs; models nest a few."""

Env = list[Any]
Call = Callable[[Env], Any]


Step = tuple[Call, int, tuple[int, ...], OpNode]
"""call(env) -> result; the slot of the result; the slots to clear; the node, for errors."""


@dataclass(slots=True)
class Plan:
    """A compiled graph: `run(values)` takes the values of `inputs` in order."""

    template: Env
    steps: list[Step]
    outputs: list[int]
    slots: dict[str, int]
    guard: Guard | None = None

    def run(
        self, values: Sequence[Any], observe: Callable[[OpNode, Any], None] | None = None
    ) -> list[Any]:
        """Run all steps; `observe` is called with each node and its result."""
        env = self.template.copy()
        env[: len(values)] = values
        node = None
        try:
            if self.guard is not None:
                self._run_guarded(env, self.guard, observe)
                return [env[slot] for slot in self.outputs]
            for call, out, free, node in self.steps:
                env[out] = call(env)
                if observe is not None:
                    observe(node, env[out])
                for slot in free:
                    env[slot] = None
        except ExecutionError:
            raise
        except Exception as error:
            assert node is not None
            raise ExecutionError(_explain(node, error, env, self.slots)) from error
        return [env[slot] for slot in self.outputs]

    def _run_guarded(
        self, env: Env, guard: Guard, observe: Callable[[OpNode, Any], None] | None
    ) -> None:
        sizes: dict[int, int] = {}
        guard.check_time()
        for call, out, free, node in self.steps:
            guard.check_time()
            try:
                env[out] = call(env)
                sizes[out] = guard.keep(env[out])
            except Exception as error:
                raise ExecutionError(_explain(node, error, env, self.slots)) from error
            if observe is not None:
                observe(node, env[out])
            for slot in free:
                env[slot] = None
                guard.release(sizes.pop(slot, 0))
        guard.release(sum(sizes.values()))  # what is returned counts as the caller's result


def _explain(node: OpNode, error: Exception, env: Env, slots: Mapping[str, int]) -> str:
    lines = [f"node {node.name} ({node.op_type}) failed: {type(error).__name__}: {error}"]
    for name, value in node.arguments.items():
        parts = []
        for ref in references(value):
            actual = env[slots[ref.name]] if ref.name in slots else None
            shape = list(actual.shape) if isinstance(actual, torch.Tensor) else actual
            kind = f" {actual.dtype} {actual.device}" if isinstance(actual, torch.Tensor) else ""
            parts.append(f"%{ref.name} = {shape}{kind}")
        text = ", ".join(parts) if parts else f"{value!r:.200}"
        lines.append(f"  {name}: {text}")
    if node.module_path:
        kind = f" ({node.module_type})" if node.module_type else ""
        lines.append(f"  in {node.module_path}{kind}")
    if node.source:
        lines.append(f"  from {node.source}")
    return "\n".join(lines)


def compile_plan(
    inputs: Sequence[str],
    nodes: Sequence[OpNode],
    outputs: Sequence[Value],
    subgraphs: Mapping[str, Subgraph],
    device: torch.device,
    *,
    allow_ops: Collection[str] = (),
    guard: Guard | None = None,
) -> Plan:
    """Compile a graph with these inputs (by name) and outputs.

    allow_ops: ops that may run although the allowlist lacks them.
    guard: checks the memory and time of each run.
    """
    shared = _Shared(subgraphs, device, allow_ops, guard)
    return _Compiler(inputs, shared).compile(nodes, outputs)


@dataclass(slots=True)
class _Shared:
    """What the compilers of a graph and of its subgraphs have in common."""

    subgraphs: Mapping[str, Subgraph]
    device: torch.device
    allow_ops: Collection[str]
    guard: Guard | None
    runners: dict[str, Callable[[Sequence[Any]], list[Any]]] = field(default_factory=dict)
    """The compiled subgraphs, each compiled once however often it is called."""


class _Layout(NamedTuple):
    """How to make a call; `function` is None if `register_executor` has one."""

    function: Callable[..., Any] | None
    positional: tuple[str, ...]
    keywords: tuple[str, ...]
    enums: tuple[tuple[str, type], ...] = ()
    """The arguments that are a dtype, layout or memory format. PyTorch also takes any integer for
    one, and reads out of bounds if it is not the number of one."""


_DENSE = (None, torch.strided)

_SHARED = frozenset({int, float, bool, str})
"""Types whose equal literals share a slot; except 0.0, which is equal to -0.0."""


def _overload_layout(node: OpNode, overload: OpOverload) -> _Layout:
    left = dict.fromkeys(node.arguments)
    positional: list[str] = []
    keywords: list[str] = []
    enums: list[tuple[str, type]] = []
    in_order = True
    for parameter in parameters(overload):
        if parameter.is_written:
            raise ExecutionError(
                f"node {node.name}: {node.op_type} writes into its argument "
                f"{parameter.name!r}; an IR may contain only functional ops"
            )
        if parameter.name not in left:
            in_order = False
            continue
        del left[parameter.name]
        if parameter.enum is not None:
            enums.append((parameter.name, parameter.enum))
        by_position = in_order and not parameter.kwarg_only
        (positional if by_position else keywords).append(parameter.name)
    if left:
        raise ExecutionError(
            f"node {node.name}: {node.op_type} has no argument {', '.join(left)} in PyTorch "
            f"{torch.__version__}; its schema: {schema_of(overload)}"
        )
    return _Layout(kernel_of(overload), tuple(positional), tuple(keywords), tuple(enums))


class _Compiler:
    def __init__(
        self,
        inputs: Sequence[str],
        shared: _Shared,
        open_graphs: tuple[str, ...] = (),
    ) -> None:
        self.slots = {name: i for i, name in enumerate(inputs)}
        if len(self.slots) != len(inputs):
            twice = next(name for name in inputs if list(inputs).count(name) > 1)
            raise ExecutionError(f"two inputs or weights of the graph are called {twice!r}")
        self.template: Env = [None] * len(inputs)
        self.shared = shared
        self.open_graphs = open_graphs
        self.literals: dict[tuple[type, Any], int] = {}
        self.layouts: dict[tuple[str, ...], _Layout] = {}

    def compile(self, nodes: Sequence[OpNode], outputs: Sequence[Value]) -> Plan:
        steps: list[tuple[Call, int, list[int], OpNode]] = []
        last_use: dict[int, int] = {}
        slots, template = self.slots, self.template
        for position, node in enumerate(nodes):
            try:
                call, used = self._call(node)
            except KeyError as error:
                raise ExecutionError(
                    f"node {node.name} ({node.op_type}) uses {error}, "
                    "which no earlier node produces"
                ) from error
            for slot in used:
                last_use[slot] = position
            if node.name in slots:
                raise ExecutionError(f"two values of the graph are called {node.name!r}")
            out = slots[node.name] = len(template)
            template.append(None)
            last_use[out] = position
            steps.append((call, out, [], node))
        output_slots = [self._slot(value) for value in outputs]
        kept = set(output_slots)
        for slot, position in last_use.items():
            if slot not in kept:
                steps[position][2].append(slot)
        final = [(call, out, tuple(free), node) for call, out, free, node in steps]
        return Plan(template, final, output_slots, slots, self.shared.guard)

    def _new_slot(self, value: Any) -> int:
        self.template.append(value)
        return len(self.template) - 1

    def _slot(self, value: Value) -> int:
        """The slot of a reference, or a slot with the literal."""
        kind = type(value)
        if kind is TensorRef:
            return self.slots[value.name]
        if value is None or (kind in _SHARED and not (kind is float and value == 0)):
            slot = self.literals.get((kind, value))
            if slot is None:
                slot = self.literals[kind, value] = self._new_slot(value)
            return slot
        return self._new_slot(self._literal(value))

    def _literal(self, value: Value) -> Any:
        if isinstance(value, torch.device):
            return self.shared.device
        if type(value) is GraphRef:
            return self._subgraph(value.name)
        if isinstance(value, list):
            return [self._literal(item) for item in value]
        return value

    def _subgraph(self, name: str) -> Callable[[Sequence[Any]], list[Any]]:
        if name in self.open_graphs:
            raise ExecutionError(f"subgraph {name!r} calls itself")
        if name in self.shared.runners:
            return self.shared.runners[name]
        if len(self.open_graphs) >= MAX_SUBGRAPH_DEPTH:
            raise ExecutionError(
                f"subgraph {name!r} is nested deeper than MAX_SUBGRAPH_DEPTH = {MAX_SUBGRAPH_DEPTH}"
            )
        graph = self.shared.subgraphs[name]
        inputs = [meta.name for meta in graph.inputs]
        compiler = _Compiler(inputs, self.shared, (*self.open_graphs, name))
        plan = compiler.compile(graph.nodes, graph.outputs)
        expected = len(graph.inputs)

        def run(values: Sequence[Any]) -> list[Any]:
            if len(values) != expected:
                raise ExecutionError(
                    f"subgraph {name!r} expects {expected} values, got {len(values)}"
                )
            return plan.run(values)

        self.shared.runners[name] = run
        return run

    def _call(self, node: OpNode) -> tuple[Call, list[int]]:
        """The call of a node, and the slots that it reads."""
        arguments = node.arguments
        key = (node.op_type, *arguments)
        layout = self.layouts.get(key)
        if layout is None:
            layout = self.layouts[key] = self._layout(node)
        function, positional, keywords, enums = layout
        for name, kind in enums:
            if arguments[name] is not None and type(arguments[name]) is not kind:
                raise ExecutionError(
                    f"node {node.name}: the argument {name!r} of {node.op_type} must be a "
                    f"torch.{kind.__name__}, not {arguments[name]!r:.60}"
                )
        if arguments.get("layout") not in _DENSE and not is_listed(
            node.op_type, self.shared.allow_ops
        ):
            reason = f"it makes a tensor of layout {arguments['layout']}"
            raise ExecutionError(_not_allowed(node, reason))
        slots: list[int] = []
        used: list[int] = []
        if function is None:
            return self._registered_call(node)
        for name in positional:
            value = arguments[name]
            if type(value) is TensorRef:
                slot = self.slots[value.name]
                used.append(slot)
            elif type(value) is list and next(references(value), None) is not None:
                return self._nested_call(node, layout)
            else:
                slot = self._slot(value)
            slots.append(slot)
        if not keywords:
            return _plain_call(function, slots, {}), used
        if any(next(references(arguments[name]), None) is not None for name in keywords):
            return self._nested_call(node, layout)
        constants = {name: self._literal(arguments[name]) for name in keywords}
        return _plain_call(function, slots, constants), used

    def _layout(self, node: OpNode) -> _Layout:
        """The function of a node, and which arguments are passed by position and which by name.

        It depends only on the op and on the names of the arguments.
        """
        if registry.executor_for(node.op_type) is not None:
            return _Layout(None, (), ())
        names = tuple(node.arguments)
        if node.op_type in PYTHON_OPS:
            return _Layout(checked_number_op(PYTHON_OPS[node.op_type]), names, ())
        if node.op_type in HIGHER_ORDER_OPS:
            expected = HIGHER_ORDER_ARGUMENTS[node.op_type.removeprefix("higher_order.")]
            if names[: len(expected)] != expected[: len(names)]:
                raise ExecutionError(
                    f"node {node.name}: {node.op_type} has the arguments {', '.join(names)}; "
                    f"expected {', '.join(expected)}"
                )
            return _Layout(HIGHER_ORDER_OPS[node.op_type], names, ())
        overload = resolve_overload(node.op_type)
        if overload is None:
            raise ExecutionError(_why_not(node))
        layout = _overload_layout(node, overload)
        if is_listed(node.op_type, self.shared.allow_ops):
            function = kernel_of(overload)
        else:
            if reason := refusal(overload):
                raise ExecutionError(_not_allowed(node, reason))
            function = checked_kernel(overload, layout.positional)
        if self.shared.guard is not None:
            function = self.shared.guard.wrap(function, overload)
        return layout._replace(function=function)

    def _registered_call(self, node: OpNode) -> tuple[Call, list[int]]:
        function = registry.executor_for(node.op_type)
        assert function is not None
        slots = [self.slots[r.name] for v in node.arguments.values() for r in references(v)]
        attrs = {name: self._literal(value) for name, value in node.attrs.items()}
        return lambda env: function([env[slot] for slot in slots], attrs), slots

    def _nested_call(self, node: OpNode, layout: _Layout) -> tuple[Call, list[int]]:
        """A call with references inside lists or among the keywords."""
        function = layout.function
        assert function is not None
        used = [self.slots[r.name] for v in node.arguments.values() for r in references(v)]
        builders = [self._builder(node.arguments[name]) for name in layout.positional]
        named = {name: self._builder(node.arguments[name]) for name in layout.keywords}
        if not named:
            return lambda env: function(*[build(env) for build in builders]), used
        return (
            lambda env: function(
                *[build(env) for build in builders],
                **{name: build(env) for name, build in named.items()},
            ),
            used,
        )

    def _builder(self, value: Value) -> Call:
        if _nests_references(value):
            slots = [self._slot(item) for item in value if not _nests_references(item)]
            if len(slots) == len(value):
                if len(slots) == 1:
                    only = slots[0]
                    return lambda env: [env[only]]
                getter = operator.itemgetter(*slots)
                return lambda env: list(getter(env))
            items = [self._builder(item) for item in value]
            return lambda env: [build(env) for build in items]
        return operator.itemgetter(self._slot(value))


def _nests_references(value: Value) -> bool:
    return isinstance(value, list) and next(references(value), None) is not None


def _plain_call(function: Callable[..., Any], slots: list[int], constants: dict[str, Any]) -> Call:
    """A call whose arguments are in one slot each; without a loop for the common counts."""
    if len(slots) == 1:
        (a,) = slots
        if constants:
            return lambda env: function(env[a], **constants)
        return lambda env: function(env[a])
    if len(slots) == 2 and not constants:
        a, b = slots
        return lambda env: function(env[a], env[b])
    if len(slots) == 3 and not constants:
        a, b, c = slots
        return lambda env: function(env[a], env[b], env[c])
    if not slots:
        return lambda env: function(**constants)
    if len(slots) == 2:
        a, b = slots
        return lambda env: function(env[a], env[b], **constants)
    getter = operator.itemgetter(*slots)
    if constants:
        return lambda env: function(*getter(env), **constants)
    return lambda env: function(*getter(env))


def _not_allowed(node: OpNode, reason: str) -> str:
    text = (
        f"node {node.name}: {node.op_type} is not allowed in an IR: {reason}; if you trust this "
        f"IR, pass allow_ops=[{node.op_type!r}] (torch-ir: --allow-op {node.op_type})"
    )
    return f"{text}\n  from {node.source}" if node.source else text


def _why_not(node: OpNode) -> str:
    namespace, _, rest = node.op_type.partition(".")
    if f"{namespace}.{rest.partition('.')[0]}" in DENIED_OPS:
        reason = "it reads or writes files, which an IR may not do"
    elif namespace == "higher_order":
        reason = "it has no executor; register one with torch_ir.register_executor"
    elif not registry.is_allowed_namespace(namespace):
        reason = (
            f"the namespace {namespace!r} is not allowed; if you trust this IR, call "
            f"torch_ir.ops.allow_namespace({namespace!r}) or torch_ir.register_executor"
        )
    else:
        reason = f"PyTorch {torch.__version__} has no such op"
    text = f"node {node.name}: cannot run {node.op_type}: {reason}"
    return f"{text}\n  from {node.source}" if node.source else text
