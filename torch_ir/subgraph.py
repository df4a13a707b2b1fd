"""Cuts a part out of an IR: some nodes or modules, as an IR that runs and verifies by itself.

1. The nodes are those named, and those of the modules named. A `getitem` belongs to the node that
   it reads.
2. Values from outside become inputs. A number that is a size of such an input is read from the
   input instead; a size that no input tells becomes an input of its own.
3. Values that are read outside, and results of the model, become outputs, in program order. If
   there are none, all values that nothing reads are outputs.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from torch_ir.dataflow import read_names
from torch_ir.errors import ConversionError
from torch_ir.executor import IRExecutor
from torch_ir.ir import IR, EagerMemory, OpNode, Subgraph, TensorMeta, TensorRef
from torch_ir.symbols import evaluate, free_symbols, solve

__all__ = ["extract_subgraph", "record_inputs"]


def extract_subgraph(ir: IR, *names: str) -> IR:
    """The part of an IR with these nodes and modules, as an IR of its own.

    ir: the graph; it is not changed.
    names: names of nodes, and paths of modules (`encoder.layers.0`, with all modules in it). If
        both have the same name, write `node:NAME` or `module:NAME`.

    Inputs are the values that the part reads from outside, in the order in which it reads them;
    they keep their names. Weights keep their state_dict keys, so the state_dict of the whole model
    serves. Raises `ConversionError` for a name that the IR does not have.

    >>> from torch_ir import execute_ir, extract_ir
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> ir = extract_ir(model, (torch.ones(1, 4),))
    >>> part = extract_subgraph(ir, "1", "2")
    >>> [meta.describe() for meta in part.graph_inputs], [node.op_type for node in part.nodes]
    (['float32[1, 8]'], ['aten.relu.default', 'aten.linear.default'])
    >>> x = torch.ones(1, 8)
    >>> torch.equal(execute_ir(part, (x,), model.state_dict(), allow_surplus=True), model[1:](x))
    True
    """
    if not names:
        raise ConversionError("name at least one node or module to extract")
    chosen = _chosen(ir, names)
    label = ", ".join(names)
    return _Part(ir, chosen, f"{ir.model_name}: {label}" if ir.model_name else label).build()


def record_inputs(
    ir: IR,
    part: IR,
    inputs: Sequence[Any],
    weights: Mapping[str, torch.Tensor] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
) -> list[Any]:
    """The values that the inputs of `part` have in a run of the whole IR, in their order."""
    run = IRExecutor(ir, weights, allow_surplus=True)
    wanted = {meta.name for meta in part.graph_inputs}
    flat = run.flatten(inputs, kwargs)
    seen = {meta.name: value for meta, value in zip(ir.graph_inputs, flat, strict=True)}

    def observe(node: OpNode, value: Any) -> None:
        if node.name in wanted:
            seen[node.name] = value

    run.run(inputs, kwargs, observe=observe)
    if lost := wanted - seen.keys():
        raise ConversionError(f"{', '.join(sorted(lost))} is no value of the whole graph")
    return [seen[meta.name] for meta in part.graph_inputs]


def _chosen(ir: IR, names: Iterable[str]) -> set[str]:
    """Names of the nodes that are named, or belong to a module that is named."""
    found: set[str] = set()
    nodes = {node.name for node in ir.nodes}
    for name in names:
        kind, colon, rest = name.partition(":")
        as_node, as_module = name in nodes, _in_module(ir, name)
        if colon and kind in ("node", "module"):
            as_node = kind == "node" and rest in nodes
            as_module = _in_module(ir, rest) if kind == "module" else []
            name = rest
        if as_node and as_module:
            raise ConversionError(
                f"{name!r} is a node and a module; write 'node:{name}' or 'module:{name}'"
            )
        if not as_node and not as_module:
            raise ConversionError(
                f"the IR has no node and no module {name!r}; ir.text() lists the nodes, each with "
                "its module"
            )
        found.update(as_module or [name])
    return found


def _in_module(ir: IR, path: str) -> list[str]:
    inside = f"{path}."
    return [
        node.name for node in ir.nodes if f"{node.module_path}.".startswith(inside) and path != ""
    ]


class _Part:
    def __init__(self, ir: IR, chosen: set[str], name: str) -> None:
        self.whole = ir
        self.made = {meta.name: meta for node in ir.nodes for meta in node.outputs}
        self.by_name = {node.name: node for node in ir.nodes}
        self.chosen = self._with_getitems(chosen)
        self.fixed = {meta.name: meta for meta in ir.weights}
        self.given = {meta.name: meta for meta in ir.graph_inputs}
        self.ir = IR([], [], [], model_name=name)
        self.known: dict[str, list[TensorMeta]] = {}
        self.numbers: dict[str, TensorMeta] = {}

    def _with_getitems(self, chosen: set[str]) -> set[str]:
        found = set(chosen)
        for node in self.whole.nodes:
            if node.op_type == "getitem":
                (source,) = read_names(node)
                # Without its source, its value comes from outside.
                (found.add if source in found else found.discard)(node.name)
        if not found:
            raise ConversionError("these nodes only pick results of others; name the others too")
        return found

    def build(self) -> IR:
        nodes = [node for node in self.whole.nodes if node.name in self.chosen]
        inside = {node.name for node in nodes}
        for node in nodes:
            for name in read_names(node):
                if name not in inside and name not in self.known:
                    self._take(name)
        self._add_sizes(nodes)
        for node in nodes:
            self._add_node(node)
        self._outputs(nodes, inside)
        self._rest(nodes)
        self._eager(nodes)
        return self.ir

    def _take(self, name: str) -> None:
        """Let the part have a value from outside: a weight, a constant or an input."""
        whole, part = self.whole, self.ir
        if name in whole.constants:
            tensor = whole.constants[name]
            part.constants[name] = tensor
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.known[name] = [TensorMeta(name, tuple(tensor.shape), dtype)]
        elif name in self.fixed:
            key = whole.weight_name_mapping[name]
            part.weights.append(self.fixed[name])
            part.weight_name_mapping[name] = key
            if key in whole.weight_aliases:
                part.weight_aliases[key] = whole.weight_aliases[key]
            if key in whole.non_persistent:
                part.non_persistent.append(key)
            self.known[name] = [self.fixed[name]]
        else:
            source = self.given.get(name) or self.made[name]
            meta = dataclasses.replace(source, producer_node=None, producer_output_idx=0)
            self.known[name] = [meta]
            if meta.is_scalar:
                self.numbers[name] = meta
            else:
                part.graph_inputs.append(meta)

    def _add_sizes(self, nodes: Sequence[OpNode]) -> None:
        """Read numbers from the inputs where they are sizes; make inputs of those that are not."""
        for name, meta in self.numbers.items():
            place = self._place(meta)
            if place is None:
                self.ir.graph_inputs.append(meta)
                continue
            source, dim = place
            output = dataclasses.replace(meta, producer_node=name)
            arguments = {"self": TensorRef(source.name), "dim": dim}
            self.ir.nodes.append(
                OpNode(name, "aten.sym_size.int", [source], [output], arguments=arguments)
            )
            self.known[name] = [output]
        bound = self._bound()
        needed = {
            symbol
            for meta in self.ir.graph_inputs
            for size in meta.shape
            if isinstance(size, str)
            for symbol in free_symbols(size)
        }
        for symbol in sorted(needed - bound):
            name = self._free_name(f"size_{symbol}")
            self.ir.graph_inputs.append(TensorMeta(name, (), "SymInt", expr=symbol))
            self.known[name] = [self.ir.graph_inputs[-1]]

    def _place(self, number: TensorMeta) -> tuple[TensorMeta, int] | None:
        for meta in self.ir.graph_inputs:
            for dim, size in enumerate(meta.shape):
                if number.dtype == "SymInt" and number.expr is not None and number.expr == size:
                    return meta, dim
        return None

    def _bound(self) -> set[str]:
        """The symbols that a run can tell from the inputs, in the way `bind_symbols` does."""
        sizes = [s for m in self.ir.graph_inputs for s in m.shape if isinstance(s, str)]
        values = {size: 3 for size in sizes if size.isidentifier()}
        values |= {m.expr: 3 for m in self.ir.graph_inputs if m.is_scalar and m.expr}
        for size in sizes:
            unknown = free_symbols(size) - values.keys()
            if len(unknown) == 1:
                # Whether the expression is linear in it shows at any value.
                probe = {**values, next(iter(unknown)): 5}
                if solve(size, evaluate(size, probe), values):
                    values |= dict.fromkeys(unknown, 5)
        return set(values)

    def _free_name(self, name: str) -> str:
        while name in self.known or name in self.by_name:
            name += "_"
        return name

    def _add_node(self, node: OpNode) -> None:
        if node.op_type == "getitem":
            inputs = node.inputs
        else:
            inputs = [meta for name in read_names(node) for meta in self.known[name]]
        self.ir.nodes.append(
            OpNode(
                node.name,
                node.op_type,
                inputs,
                node.outputs,
                arguments=dict(node.arguments),
                module_path=node.module_path,
                module_type=node.module_type,
                source=node.source,
            )
        )
        self.known[node.name] = node.outputs

    def _outputs(self, nodes: Sequence[OpNode], inside: set[str]) -> None:
        whole = self.whole
        outside = {n for node in whole.nodes if node.name not in inside for n in read_names(node)}
        outside |= {meta.name for meta in whole.graph_outputs}
        inputs = {meta.name for meta in self.ir.graph_inputs}
        for mutation in whole.mutations:
            if mutation.value not in inside:
                continue
            if mutation.kind == "buffer" or mutation.target in inputs:
                self.ir.mutations.append(mutation)
            else:
                outside.add(mutation.value)
        read = {name for node in nodes for name in read_names(node)}
        results = [node for node in nodes if node.name in outside and len(node.outputs) == 1]
        if not results:
            results = [n for n in nodes if n.name not in read and len(n.outputs) == 1]
        self.ir.graph_outputs = [node.outputs[0] for node in results]

    def _eager(self, nodes: Sequence[OpNode]) -> None:
        """What is held longer than the part runs is held to its end."""
        if (whole := self.whole.eager) is None:
            return
        places = {node.name: place for place, node in enumerate(self.whole.nodes)}
        inside = [places[node.name] for node in nodes]
        names = {node.name for node in nodes}
        held = {}
        for name, last in whole.held.items():
            if name in names:
                held[name] = nodes[bisect.bisect_right(inside, places[last]) - 1].name
        self.ir.eager = EagerMemory(held, [name for name in whole.in_place if name in names])

    def _rest(self, nodes: Sequence[OpNode]) -> None:
        pending = [key for node in nodes for key in node.subgraphs]
        while pending:
            key = pending.pop(0)
            if key not in self.ir.subgraphs:
                graph: Subgraph = self.whole.subgraphs[key]
                self.ir.subgraphs[key] = graph
                pending += [inner for node in graph.nodes for inner in node.subgraphs]
        metas = [*self.ir.graph_inputs, *(m for node in self.ir.nodes for m in node.outputs)]
        texts = {size for meta in metas for size in (*meta.shape, meta.expr)}
        used = {s for text in texts if isinstance(text, str) for s in _symbols_in(text)}
        self.ir.symbols = {n: s for n, s in self.whole.symbols.items() if n in used}


def _symbols_in(text: str) -> set[str]:
    try:
        return free_symbols(text)
    except ValueError:  # an expression of a number that no size depends on
        return set()
