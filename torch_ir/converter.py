"""Converts an `ExportedProgram` to an `IR`.

1. Placeholders become weights, constants and inputs, as the program's signature says.
2. Each call becomes an `OpNode`, in the program's order.
3. A region that only changes the gradient mode is inlined: an IR always runs without gradients.
4. Graphs called by cond, while_loop and scan become subgraphs.
5. Symbols, input and output trees, and mutations are copied from the program.
6. Nodes that nothing reads are left out if they have no effect (dataflow.py).
7. What was noted of the memory of the model's own code (lifetimes.py) is told by node names.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, OutputKind

from torch_ir.analyzer import NodeInfo, analyze_node, convert_value, meta_of
from torch_ir.compat import FakeTensor, HigherOrderOperator, OpOverload
from torch_ir.dataflow import live_nodes
from torch_ir.errors import ConversionError
from torch_ir.functional import functionalize
from torch_ir.interface import Interface
from torch_ir.ir import (
    IR,
    GraphRef,
    Mutation,
    OpNode,
    Subgraph,
    Symbol,
    TensorMeta,
    TensorRef,
    TreeSpec,
    Value,
    references,
)
from torch_ir.lifetimes import Note, eager_memory, note_of
from torch_ir.ops import registry
from torch_ir.structure import from_pytree

__all__ = ["convert_exported_program", "interface_of"]

_UNBOUNDED = 2**62
"""PyTorch has several huge numbers for "no upper bound"; all are larger than this."""


def convert_exported_program(program: ExportedProgram, model_name: str = "") -> IR:
    """Convert an exported program to an IR, without its weights.

    Only constants, and non-persistent buffers that have values, are stored with them. The program
    is not changed. Raises a `ConversionError` that names the node.

    >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> [node.op_type for node in convert_exported_program(program).nodes]
    ['aten.relu.default']
    """
    return _ProgramConverter(functionalize(program), model_name).convert()


def interface_of(program: ExportedProgram) -> Interface:
    """How an exported program is called, without its nodes.

    >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    >>> [meta.describe() for meta in interface_of(program).graph_inputs]
    ['float32[2]']
    """
    return _ProgramConverter(program, "").convert_interface()


class _GraphConverter:
    """Converts one FX graph: the program's, or that of a subgraph."""

    def __init__(self, module: fx.GraphModule, path: str, subgraphs: dict[str, Subgraph]) -> None:
        self.module = module
        self.path = path
        self.subgraphs = subgraphs
        self.nodes: list[OpNode] = []
        self.known: dict[str, list[TensorMeta]] = {}
        self.values: dict[fx.Node, Value] = {}
        self.notes: dict[str, Note | None] = {}
        """Name of a node -> how the model's code uses its result, if that was observed."""
        self._inlined: dict[fx.Node, list[Value]] = {}

    def add_value(self, node: fx.Node, meta: TensorMeta) -> None:
        self.known[meta.name] = [meta]
        self.values[node] = TensorRef(meta.name)

    def convert_body(self, graph: fx.Graph, prefix: str = "") -> Any:
        """Convert the calls of a graph whose placeholders are known; return its output argument."""
        for node in graph.nodes:
            if node.op == "call_function":
                self._call(node, prefix)
            elif node.op == "get_attr":
                self._get_attr(node, graph.owning_module or self.module)
            elif node.op == "output":
                return node.args[0]
            elif node.op != "placeholder":
                raise ConversionError(
                    f"node {node.name} has the kind {node.op!r}, which an IR cannot represent"
                )
        raise ConversionError("the exported graph has no output node")

    def _call(self, node: fx.Node, prefix: str) -> None:
        if self._is_inlined_result(node) or self._inline(node):
            return
        name = self._free_name(prefix + node.name)
        try:
            info = analyze_node(node, name, self.known, self.values)
            self._allow(node)
            convert = registry.op_converter_for(info.op_type)
            made = convert(info) if convert is not None else _op_node(info)
        except ConversionError as error:
            raise ConversionError(f"node {name} ({node.target}): {error}") from error
        if not isinstance(made, OpNode):
            raise ConversionError(
                f"node {name}: the function registered for {info.op_type} must return an OpNode, "
                f"not {made!r:.100}"
            )
        self.nodes.append(made)
        self.notes[name] = note_of(node)
        self.known[name] = made.outputs
        self.values[node] = TensorRef(name)

    def _allow(self, node: fx.Node) -> None:
        if isinstance(node.target, OpOverload):
            registry.allow_namespace(node.target.namespace)

    def _free_name(self, name: str) -> str:
        candidate, count = name, 1
        while candidate in self.known:
            candidate, count = f"{name}_{count}", count + 1
        return candidate

    def _get_attr(self, node: fx.Node, owner: torch.nn.Module) -> None:
        found: Any = owner
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if not isinstance(found, fx.GraphModule):
            raise ConversionError(
                f"node {node.name} reads the attribute {node.target}, which is not a graph; "
                "an IR cannot represent that"
            )
        if all(_inlines(user) for user in node.users):
            return
        key = f"{self.path}.{node.target}" if self.path else str(node.target)
        if key not in self.subgraphs:
            self.subgraphs[key] = Subgraph([], [], [])  # keeps the order of first use
            self.subgraphs[key] = _convert_subgraph(found, key, self.subgraphs)
        self.values[node] = GraphRef(key)

    def _inline(self, node: fx.Node) -> bool:
        """Inline the body of a grad-mode region, or of an autocast region that is disabled."""
        if not _inlines(node):
            return False
        graph_node, operands = _inline_parts(node)
        body = getattr(graph_node.graph.owning_module, str(graph_node.target))
        placeholders = [inner for inner in body.graph.nodes if inner.op == "placeholder"]
        for placeholder, operand in zip(placeholders, operands, strict=True):
            self.values[placeholder] = convert_value(operand, self.values)
        results = self.convert_body(body.graph, prefix=f"{node.name}_")
        if not isinstance(results, tuple | list):
            results = [results]
        self._inlined[node] = [convert_value(result, self.values) for result in results]
        if len(self._inlined[node]) == 1 and not isinstance(node.meta.get("val"), tuple | list):
            self.values[node] = self._inlined[node][0]
        return True

    def _is_inlined_result(self, node: fx.Node) -> bool:
        if not node.args or not isinstance(node.args[0], fx.Node):
            return False
        results = self._inlined.get(node.args[0])
        if results is None or node.target is not operator.getitem:
            return False
        self.values[node] = results[node.args[1]]  # type: ignore[index]
        return True


def _inlines(node: fx.Node) -> bool:
    if not isinstance(node.target, HigherOrderOperator):
        return False
    name = node.target.name()
    return name == "wrap_with_set_grad_enabled" or (
        name == "wrap_with_autocast" and node.args[2] is False
    )


def _inline_parts(node: fx.Node) -> tuple[fx.Node, tuple[Any, ...]]:
    position = 1 if node.target.name() == "wrap_with_set_grad_enabled" else 4  # type: ignore[union-attr]
    graph_node = node.args[position]
    assert isinstance(graph_node, fx.Node)
    return graph_node, node.args[position + 1 :]


def _op_node(info: NodeInfo) -> OpNode:
    return OpNode(
        info.name,
        info.op_type,
        info.inputs,
        info.outputs,
        arguments=info.arguments,
        module_path=info.module_path,
        module_type=info.module_type,
        source=info.source,
    )


def _convert_subgraph(
    module: fx.GraphModule, path: str, subgraphs: dict[str, Subgraph]
) -> Subgraph:
    converter = _GraphConverter(module, path, subgraphs)
    inputs: list[TensorMeta] = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            meta = meta_of(node.name, node.meta.get("val"))
            inputs.append(meta)
            converter.add_value(node, meta)
    results = converter.convert_body(module.graph)
    if not isinstance(results, tuple | list):
        results = [results]
    outputs = [convert_value(result, converter.values) for result in results]
    read = [ref.name for ref in references(outputs)]
    return Subgraph(inputs, live_nodes(converter.nodes, read), outputs)


class _ProgramConverter:
    def __init__(self, program: ExportedProgram, model_name: str) -> None:
        self.program = program
        self.ir = IR([], [], [], model_name=model_name)
        self.graph = _GraphConverter(program.graph_module, "", self.ir.subgraphs)
        self._input_leaves: list[TreeSpec] = []

    def convert(self) -> IR:
        self._placeholders()
        outputs = self.graph.convert_body(self.program.graph)
        output_leaves = self._outputs(outputs)
        results = [meta.name for meta in self.ir.graph_outputs]
        results += [mutation.value for mutation in self.ir.mutations]
        self.ir.nodes = live_nodes(self.graph.nodes, results)
        self.ir.eager = eager_memory(self.ir.nodes, self.graph.notes)
        self._trees(output_leaves)
        self._symbols()
        return self.ir

    def convert_interface(self) -> Interface:
        """Only what a call needs: user inputs, trees and symbols."""
        nodes = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        for node, spec in zip(nodes, self.program.graph_signature.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                self._user_input(node, spec)
        leaves: list[TreeSpec] = []
        returned = self.program.graph.output_node().args[0]
        for value, output in zip(returned, self.program.graph_signature.output_specs, strict=True):
            if output.kind is OutputKind.USER_OUTPUT and isinstance(value, fx.Node):
                index = sum(leaf.kind == "leaf" for leaf in leaves)
                leaves.append(TreeSpec("leaf", index=index))
            elif output.kind is OutputKind.USER_OUTPUT:
                leaves.append(TreeSpec("constant", value=_constant_leaf(value)))
        self._trees(iter(leaves))
        self._symbols()
        return Interface.of(self.ir)

    def _trees(self, output_leaves: Iterator[TreeSpec]) -> None:
        call_spec = self.program.call_spec
        if call_spec.in_spec is not None:
            self.ir.in_spec = from_pytree(call_spec.in_spec, iter(self._input_leaves).__next__)
        if call_spec.out_spec is not None:
            self.ir.out_spec = from_pytree(call_spec.out_spec, output_leaves.__next__)

    def _placeholders(self) -> None:
        nodes = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        tied = _tied_keys(self.program)
        used = {
            spec.target
            for node, spec in zip(nodes, self.program.graph_signature.input_specs, strict=True)
            if node.users
        }
        for node, spec in zip(nodes, self.program.graph_signature.input_specs, strict=True):
            if spec.kind is InputKind.USER_INPUT:
                self._user_input(node, spec)
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
                others = tied.get(spec.target or "", [])
                # Of tied weights, keep only those that the graph reads.
                group = [spec.target, *others]
                if others and not node.users and (used & set(group) or min(group) != spec.target):
                    continue
                self._state(node, spec, others)
            elif spec.kind is InputKind.CONSTANT_TENSOR:
                self._constant(node, spec)
            else:
                raise ConversionError(
                    f"input {node.name} is a {spec.kind.name}; an IR cannot store script objects "
                    "and effect tokens"
                )

    def _user_input(self, node: fx.Node, spec: InputSpec) -> None:
        if isinstance(spec.arg, ConstantArgument):
            self.graph.values[node] = spec.arg.value
            self._input_leaves.append(TreeSpec("constant", value=_constant_leaf(spec.arg.value)))
            return
        meta = meta_of(node.name, node.meta["val"])
        self._input_leaves.append(TreeSpec("leaf", index=len(self.ir.graph_inputs)))
        self.ir.graph_inputs.append(meta)
        self.graph.add_value(node, meta)

    def _state(self, node: fx.Node, spec: InputSpec, others: list[str]) -> None:
        key = str(spec.target)
        persistent = spec.kind is InputKind.PARAMETER or spec.persistent is not False
        if not persistent and _has_value(self.program.constants.get(key)):
            self._store_constant(node, self.program.constants[key])
            return
        self._weight(node, key, persistent)
        if others:
            self.ir.weight_aliases[key] = others

    def _constant(self, node: fx.Node, spec: InputSpec) -> None:
        value = self.program.constants.get(str(spec.target))
        if _has_value(value):
            self._store_constant(node, value)
        else:
            self._weight(node, str(spec.target), persistent=False)

    def _store_constant(self, node: fx.Node, value: Any) -> None:
        stored = value.detach()
        self.ir.constants[node.name] = stored.cpu().contiguous()
        self.graph.add_value(node, meta_of(node.name, stored))

    def _weight(self, node: fx.Node, key: str, persistent: bool) -> None:
        meta = meta_of(node.name, node.meta["val"])
        self.ir.weights.append(meta)
        self.ir.weight_name_mapping[node.name] = key
        if not persistent:
            self.ir.non_persistent.append(key)
        self.graph.add_value(node, meta)

    def _outputs(self, returned: Any) -> Iterator[TreeSpec]:
        leaves: list[TreeSpec] = []
        for value, spec in zip(returned, self.program.graph_signature.output_specs, strict=True):
            converted = convert_value(value, self.graph.values)
            if spec.kind is OutputKind.USER_OUTPUT:
                leaves.append(self._user_output(converted))
            elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
                kind = "buffer" if spec.kind is OutputKind.BUFFER_MUTATION else "input"
                target = str(spec.target)
                self.ir.mutations.append(Mutation(kind, target, converted.name))  # type: ignore[arg-type]
            else:
                raise ConversionError(
                    f"output {value} is a {spec.kind.name}, which an IR cannot store"
                )
        return iter(leaves)

    def _user_output(self, value: Value) -> TreeSpec:
        if isinstance(value, TensorRef):
            self.ir.graph_outputs.append(self.graph.known[value.name][0])
            return TreeSpec("leaf", index=len(self.ir.graph_outputs) - 1)
        return TreeSpec("constant", value=_constant_leaf(value))

    def _symbols(self) -> None:
        if not self.program.range_constraints:
            return
        used = self._used_symbols()
        for symbol, bounds in self.program.range_constraints.items():
            # PyTorch also lists symbols that it has replaced by derived sizes.
            if not symbol.is_integer or str(symbol) not in used:
                continue
            lower = int(bounds.lower) if _finite(bounds.lower) else -(2**63)
            upper = int(bounds.upper) if _finite(bounds.upper) else None
            self.ir.symbols[str(symbol)] = Symbol(str(symbol), lower, upper)

    def _used_symbols(self) -> set[str]:
        metas = [*self.ir.graph_inputs, *(m for node in self.ir.nodes for m in node.outputs)]
        for graph in self.ir.subgraphs.values():
            metas += [*graph.inputs, *(meta for node in graph.nodes for meta in node.outputs)]
        texts = {size for meta in metas for size in meta.shape if isinstance(size, str)}
        texts |= {meta.expr for meta in metas if meta.expr is not None}
        return {name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)}


def _finite(bound: Any) -> bool:
    return getattr(bound, "is_finite", True) is not False and -_UNBOUNDED < bound < _UNBOUNDED


def _has_value(tensor: Any) -> bool:
    return (
        isinstance(tensor, torch.Tensor)
        and not tensor.is_meta
        and not isinstance(tensor, FakeTensor)
    )


def _constant_leaf(value: Any) -> Value:
    if value is None or isinstance(value, bool | int | float | complex | str):
        return value
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return value
    raise ConversionError(
        f"an input or output is the constant {value!r:.100}, which an IR cannot store"
    )


def _tied_keys(program: ExportedProgram) -> dict[str, list[str]]:
    """state_dict key -> the other keys of the same tensor."""
    groups: dict[int, list[str]] = {}
    for key, tensor in program.state_dict.items():
        groups.setdefault(id(tensor), []).append(key)
    return {
        key: [other for other in group if other != key]
        for group in groups.values()
        if len(group) > 1
        for key in group
    }
