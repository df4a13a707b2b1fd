"""Compiles a graph once into a flat list of steps that run without looking anything up.

All values of a run live in one list of slots. Literals sit in slots of their own, filled in
beforehand, so that most calls are a function, a tuple of slots and a slot for the result. A step
ends with the slots that no later step reads; they are emptied, which frees the tensors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_ir.errors import ExecutionError
from torch_ir.ir import GraphRef, OpNode, Subgraph, TensorRef, Value, references
from torch_ir.ops import registry
from torch_ir.ops.aten_impl import PYTHON_OPS
from torch_ir.ops.aten_ops import DENIED_OPS, HIGHER_ORDER_ARGUMENTS, parameters, resolve_overload
from torch_ir.ops.higher_order import HIGHER_ORDER_OPS

__all__ = ["Plan", "compile_plan"]

Env = list[Any]
Call = Callable[[Env], Any]


Step = tuple[Call, int, tuple[int, ...], OpNode]
"""call(env) -> result, the slot of the result, the slots to empty, the node (for errors)."""


@dataclass(slots=True)
class Plan:
    """A compiled graph: `run(values)` takes the values of `inputs` in order."""

    template: Env
    steps: list[Step]
    outputs: list[int]
    slots: dict[str, int]

    def run(
        self, values: Sequence[Any], observe: Callable[[OpNode, Any], None] | None = None
    ) -> list[Any]:
        """Run all steps; `observe` sees each node with its result."""
        env = self.template.copy()
        env[: len(values)] = values
        node = None
        try:
            if observe is None:
                for call, out, free, node in self.steps:  # noqa: B007 (read on error)
                    env[out] = call(env)
                    for slot in free:
                        env[slot] = None
            else:
                for call, out, free, node in self.steps:
                    env[out] = call(env)
                    observe(node, env[out])
                    for slot in free:
                        env[slot] = None
        except ExecutionError:
            raise
        except Exception as error:
            assert node is not None
            raise ExecutionError(_explain(node, error, env, self.slots)) from error
        return [env[slot] for slot in self.outputs]


def _explain(node: OpNode, error: Exception, env: Env, slots: Mapping[str, int]) -> str:
    lines = [f"node {node.name} ({node.op_type}) failed: {type(error).__name__}: {error}"]
    for name, value in node.arguments.items():
        parts = []
        for ref in references(value):
            actual = env[slots[ref.name]] if ref.name in slots else None
            shape = list(actual.shape) if isinstance(actual, torch.Tensor) else actual
            kind = f" {actual.dtype} {actual.device}" if isinstance(actual, torch.Tensor) else ""
            parts.append(f"%{ref.name} = {shape}{kind}")
        lines.append(f"  {name}: {', '.join(parts) if parts else value!r:.200}")
    if node.module_path:
        lines.append(f"  in {node.module_path} ({node.module_type})")
    if node.source:
        lines.append(f"  from {node.source}")
    return "\n".join(lines)


def compile_plan(
    inputs: Sequence[str],
    nodes: Sequence[OpNode],
    outputs: Sequence[Value],
    subgraphs: Mapping[str, Subgraph],
    device: torch.device,
) -> Plan:
    """Compile a graph whose values come in as `inputs` and leave as `outputs`."""
    return _Compiler(inputs, subgraphs, device).compile(nodes, outputs)


class _Compiler:
    def __init__(
        self,
        inputs: Sequence[str],
        subgraphs: Mapping[str, Subgraph],
        device: torch.device,
        open_graphs: tuple[str, ...] = (),
    ) -> None:
        self.slots = {name: i for i, name in enumerate(inputs)}
        if len(self.slots) != len(inputs):
            raise ExecutionError("two inputs or weights of the graph have the same name")
        self.template: Env = [None] * len(inputs)
        self.subgraphs = subgraphs
        self.device = device
        self.open_graphs = open_graphs

    def compile(self, nodes: Sequence[OpNode], outputs: Sequence[Value]) -> Plan:
        steps: list[tuple[Call, int, list[int], OpNode]] = []
        last_use: dict[int, int] = {}
        for position, node in enumerate(nodes):
            try:
                call = self._call(node)
                used = {
                    self.slots[ref.name] for v in node.arguments.values() for ref in references(v)
                }
            except KeyError as error:
                raise ExecutionError(
                    f"node {node.name} ({node.op_type}) uses {error}, which nothing before it makes"
                ) from error
            for slot in used:
                last_use[slot] = position
            if node.name in self.slots:
                raise ExecutionError(f"two values are called {node.name!r}")
            out = self._new_slot(None)
            self.slots[node.name] = out
            last_use[out] = position
            steps.append((call, out, [], node))
        kept = set()
        output_slots: list[int] = []
        for value in outputs:
            slot = self._slot(value)
            output_slots.append(slot)
            kept.add(slot)
        for slot, position in last_use.items():
            if slot not in kept:
                steps[position][2].append(slot)
        final = [(call, out, tuple(free), node) for call, out, free, node in steps]
        return Plan(self.template, final, output_slots, self.slots)

    def _new_slot(self, value: Any) -> int:
        self.template.append(value)
        return len(self.template) - 1

    def _slot(self, value: Value) -> int:
        """Slot of a reference, or a new one that holds the literal."""
        if type(value) is TensorRef:
            return self.slots[value.name]
        return self._new_slot(self._literal(value))

    def _literal(self, value: Value) -> Any:
        if isinstance(value, torch.device):
            return self.device
        if type(value) is GraphRef:
            return self._subgraph(value.name)
        if isinstance(value, list):
            return [self._literal(item) for item in value]
        return value

    def _subgraph(self, name: str) -> Callable[[Sequence[Any]], list[Any]]:
        if name in self.open_graphs:
            raise ExecutionError(f"subgraph {name!r} calls itself")
        graph = self.subgraphs[name]
        compiler = _Compiler(
            [meta.name for meta in graph.inputs],
            self.subgraphs,
            self.device,
            (*self.open_graphs, name),
        )
        plan = compiler.compile(graph.nodes, graph.outputs)
        expected = len(graph.inputs)

        def run(values: Sequence[Any]) -> list[Any]:
            if len(values) != expected:
                raise ExecutionError(
                    f"subgraph {name!r} takes {expected} values, got {len(values)}"
                )
            return plan.run(values)

        return run

    def _call(self, node: OpNode) -> Call:
        registered = registry.executor_for(node.op_type)
        if registered is not None:
            return self._registered_call(node, registered)
        if node.op_type in PYTHON_OPS:
            return self._build(PYTHON_OPS[node.op_type], node.arguments.values(), {})
        if node.op_type in HIGHER_ORDER_OPS:
            names = HIGHER_ORDER_ARGUMENTS[node.op_type.removeprefix("higher_order.")]
            if list(node.arguments)[: len(names)] != list(names)[: len(node.arguments)]:
                raise ExecutionError(f"node {node.name}: {node.op_type} takes {', '.join(names)}")
            return self._build(HIGHER_ORDER_OPS[node.op_type], node.arguments.values(), {})
        overload = resolve_overload(node.op_type)
        if overload is None:
            raise ExecutionError(_why_not(node))
        return self._overload_call(node, overload)

    def _registered_call(self, node: OpNode, function: Callable[..., Any]) -> Call:
        slots = [self.slots[r.name] for v in node.arguments.values() for r in references(v)]
        attrs = {name: self._literal(value) for name, value in node.attrs.items()}
        return lambda env: function([env[slot] for slot in slots], attrs)

    def _overload_call(self, node: OpNode, overload: torch._ops.OpOverload) -> Call:
        left = dict(node.arguments)
        positional: list[Value] = []
        keywords: dict[str, Value] = {}
        in_order = True
        for parameter in parameters(overload):
            if parameter.is_written:
                raise ExecutionError(
                    f"node {node.name}: {node.op_type} writes into its argument "
                    f"{parameter.name!r}; an IR holds functional ops only"
                )
            if parameter.name not in left:
                in_order = False
                continue
            value = left.pop(parameter.name)
            if in_order and not parameter.kwarg_only:
                positional.append(value)
            else:
                keywords[parameter.name] = value
        if left:
            raise ExecutionError(
                f"node {node.name}: {node.op_type} has no argument {', '.join(left)}\n"
                f"  its schema here is {overload._schema}"
            )
        return self._build(overload._op, positional, keywords)

    def _build(
        self, function: Callable[..., Any], positional: Iterable[Value], keywords: dict[str, Value]
    ) -> Call:
        positional = list(positional)
        plain = not any(_nests_references(value) for value in positional)
        if plain and not any(next(references(v), None) for v in keywords.values()):
            constants = {name: self._literal(value) for name, value in keywords.items()}
            return _plain_call(function, [self._slot(value) for value in positional], constants)
        builders = [self._builder(value) for value in positional]
        named = {name: self._builder(value) for name, value in keywords.items()}
        if not named:
            return lambda env: function(*[build(env) for build in builders])
        return lambda env: function(
            *[build(env) for build in builders],
            **{name: build(env) for name, build in named.items()},
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
    """A call whose arguments each sit in a slot; the common counts without a loop."""
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


def _why_not(node: OpNode) -> str:
    namespace, _, rest = node.op_type.partition(".")
    if f"{namespace}.{rest.partition('.')[0]}" in DENIED_OPS:
        reason = "it reads or writes files, which a graph may not"
    elif namespace == "higher_order":
        reason = "give it one with torch_ir.register_executor"
    elif not registry.is_allowed_namespace(namespace):
        reason = (
            f"the namespace {namespace!r} is not allowed: if you trust this IR, call "
            f"torch_ir.ops.allow_namespace({namespace!r}), or torch_ir.register_executor"
        )
    else:
        reason = f"PyTorch {torch.__version__} has no such op"
    text = f"node {node.name}: nothing runs {node.op_type}: {reason}"
    return f"{text}\n  from {node.source}" if node.source else text
