"""Floating point operations, bytes and memory of an IR, by node and by module.

1. Each call is run once on tensors without memory (probe.py), with the dynamic sizes as symbols.
2. Memory lives from the call that allocates it to the last read of any value that shares it.
3. Inputs and results of the model live to the end. Weights and constants are counted apart.
4. If the IR says how the model's own code uses memory, it is followed a second time: values live as
   long as variables hold them, and in-place ops allocate nothing (eager_steps).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import sympy

from torch_ir.amounts import ZERO, Amount, largest, number
from torch_ir.dataflow import read_names
from torch_ir.ir import IR, OpNode, Subgraph, TensorMeta, references
from torch_ir.probe import CallCost, Layout, Probe, Unknown, contiguous
from torch_ir.schema import DTYPES
from torch_ir.symbols import symbol_of, to_sympy

__all__ = ["Cost", "ModuleCost", "NodeCost", "estimate_cost"]

Size: TypeAlias = int | sympy.Expr
"""A number, or an expression in the dynamic sizes."""

_HINTS = (67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113)
"""Values that symbols have where an op must decide something: unlike each other and unlike 1."""

_PICKING = {
    "embedding": "weight", "gather": "self", "index": "self", "index_select": "self",
    "take": "self", "select": "self", "slice": "self",
}  # fmt: skip
"""Ops that read as much of this argument as they return."""


@dataclass(slots=True)
class NodeCost:
    """What one node computes, moves and needs."""

    name: str
    op_type: str
    module_path: str
    flops: Size = 0
    """Floating point operations of products, convolutions and attention, as
    `torch.utils.flop_counter` counts them; 0 for other ops."""
    bytes_moved: Size = 0
    """Bytes of the operands that it reads and of the results that it writes; 0 for a view."""
    parameter_bytes: Size = 0
    """Bytes of the weights among its operands."""
    activation_bytes: Size = 0
    """Bytes of all activations that are alive while it runs, its own results and temporary
    tensors included."""
    eager_bytes: Size | None = None
    """The same in the model's own code, whose variables keep values longer; None if the IR does not
    say how long."""
    unknown: str = ""
    """Why operations and temporary memory could not be found; "" if they were."""


@dataclass(slots=True)
class ModuleCost:
    """The sum over the nodes of a module, those of the modules in it included."""

    path: str
    module_type: str = ""
    nodes: int = 0
    flops: Size = 0
    bytes_moved: Size = 0
    parameters: int = 0
    """Number of elements of the weights that it reads."""
    parameter_bytes: int = 0
    peak_activation_bytes: Size = 0
    """The largest `activation_bytes` of its nodes."""
    peak_eager_bytes: Size | None = None
    """The largest `eager_bytes` of its nodes."""


@dataclass(slots=True)
class Cost:
    """The result of `estimate_cost`; every number may be an expression in the dynamic sizes."""

    nodes: dict[str, NodeCost] = field(default_factory=dict)
    """By name, in program order. The cost of a subgraph is that of the node that calls it."""
    modules: dict[str, ModuleCost] = field(default_factory=dict)
    """By path, parents before children; "" is the whole model."""

    @property
    def total(self) -> ModuleCost:
        """The whole model."""
        return self.modules[""]

    @property
    def unknown(self) -> dict[str, str]:
        """Nodes whose operations are not counted, and why."""
        return {name: node.unknown for name, node in self.nodes.items() if node.unknown}

    def at(self, **sizes: int) -> Cost:
        """The same cost with these values of the dynamic sizes."""
        return Cost(
            {name: _at(node, sizes) for name, node in self.nodes.items()},
            {path: _at(module, sizes) for path, module in self.modules.items()},
        )


def _at(entry: Any, sizes: Mapping[str, int]) -> Any:
    return dataclasses.replace(
        entry,
        **{
            name.name: number(getattr(entry, name.name), sizes)
            for name in dataclasses.fields(entry)
            if isinstance(getattr(entry, name.name), sympy.Expr)
        },
    )


def estimate_cost(ir: IR, sizes: Mapping[str, int] | None = None) -> Cost:
    """Floating point operations, bytes, parameters and peak activation memory of an IR.

    ir: the graph. No weight is needed, and nothing is run.
    sizes: values of dynamic sizes; the others stay symbols in the result.

    Memory is that of `execute_ir` on the CPU, which frees each value after its last read.
    `eager_bytes` is that of the model's own Python code, whose variables can keep values longer.
    What a kernel allocates inside itself is not counted. Inputs are taken to be contiguous. The
    larger branch of a `cond` counts, one turn of a `while_loop`, and each step of a `scan`.

    >>> import torch
    >>> from torch_ir import extract_ir
    >>> rows = {0: torch.export.Dim("rows")}
    >>> ir = extract_ir(torch.nn.Linear(4, 2), (torch.ones(3, 4),), dynamic_shapes=(rows,))
    >>> (size,) = ir.symbols
    >>> estimate_cost(ir, {size: 10}).total.flops
    160
    >>> estimate_cost(ir).at(**{size: 10}).total.peak_activation_bytes
    240
    """
    walk = _Walk(ir, dict(sizes or {}))
    return walk.cost()


@dataclass(slots=True)
class _Memory:
    """One piece of memory: its size, and the last node that needs it."""

    size: Amount
    last: int


@dataclass(slots=True)
class _Step:
    """What a node does to memory."""

    call: CallCost
    moved: Amount
    unknown: str
    made: list[_Memory] = field(default_factory=list)


class _Graph:
    """The values of one graph while its calls are probed."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        """Name -> `Layout`, an expression, or another number."""
        self.memory: dict[str, _Memory] = {}
        self.several: dict[str, dict[int, str]] = {}
        """A node with several results (or none) -> their names by position, for `getitem`."""


class _Walk:
    def __init__(self, ir: IR, sizes: dict[str, int]) -> None:
        self.ir = ir
        self.known = {symbol_of(name): sympy.Integer(size) for name, size in sizes.items()}
        self.parsed: dict[str, sympy.Expr] = {}
        self.hints = self._hints()
        self.probe = Probe(self.hints)
        self.subgraphs: dict[str, tuple[Amount, list[Amount]] | None] = {}

    # Sizes.

    def _hints(self) -> dict[sympy.Symbol, int]:
        metas = [*self.ir.graph_inputs, *(m for n in self.ir.nodes for m in n.outputs)]
        for graph in self.ir.subgraphs.values():
            metas += [*graph.inputs, *(m for node in graph.nodes for m in node.outputs)]
        symbols: dict[sympy.Symbol, None] = {}
        for meta in metas:
            for size in (*meta.shape, meta.expr if meta.dtype == "SymInt" else None):
                if isinstance(size, str):
                    symbols.update(dict.fromkeys(self._expression(size).free_symbols))
        hints = {}
        for position, symbol in enumerate(sorted(symbols, key=str)):
            hint = _HINTS[position % len(_HINTS)] + 128 * (position // len(_HINTS))
            bounds = self.ir.symbols.get(symbol.name)
            if bounds is not None:
                hint = max(bounds.min, 2, hint if bounds.max is None else min(hint, bounds.max))
            hints[symbol] = hint
        return hints

    def _expression(self, size: int | str) -> sympy.Expr:
        if isinstance(size, int):
            return sympy.Integer(size)
        found = self.parsed.get(size)
        if found is None:
            try:
                found = to_sympy(size)
            except (ValueError, TypeError, ArithmeticError, RecursionError):
                found = symbol_of(size)  # an expression that is not understood is a size of its own
            found = self.parsed[size] = found.xreplace(self.known)
        return found

    def _layout(self, meta: TensorMeta) -> Layout:
        return contiguous([self._expression(size) for size in meta.shape], DTYPES[meta.dtype])

    def _number(self, meta: TensorMeta) -> Any:
        if meta.dtype == "SymInt":
            return self._expression(meta.expr or meta.name)
        return True if meta.dtype == "SymBool" else 1.5

    # One graph.

    def _start(self, metas: Sequence[TensorMeta], end: int) -> tuple[_Graph, list[_Memory]]:
        graph, held = _Graph(), []
        for meta in metas:
            if meta.is_scalar:
                graph.values[meta.name] = self._number(meta)
                continue
            layout = self._layout(meta)
            graph.values[meta.name] = layout
            graph.memory[meta.name] = _Memory(layout.bytes, end)
            held.append(graph.memory[meta.name])
        return graph, held

    def _step(self, graph: _Graph, position: int, node: OpNode) -> _Step:
        if node.op_type == "getitem" and self._pick(graph, node):
            return _Step(CallCost(), ZERO, "")
        if all(meta.is_scalar for meta in node.outputs):
            for meta in node.outputs:
                graph.values[meta.name] = self._number(meta)
            self._note_results(graph, node)
            return _Step(CallCost(), ZERO, "")
        unknown = ""
        try:
            self._check_reads(graph, node)
            call = self._subgraph_call(node) if node.subgraphs else self._call(graph, node)
        except Unknown as reason:
            call, unknown = self._declared(node), str(reason)
        step = _Step(call, self._moved(graph, node, call), unknown)
        arguments = [
            graph.memory[name]
            for name in read_names(node)
            if isinstance(graph.values.get(name), Layout)
        ]
        step.made = [_Memory(size, position) for size in call.allocated]
        for meta in node.outputs:
            found = call.outputs[meta.producer_output_idx]
            if found is None:
                graph.values[meta.name] = self._number(meta)
                continue
            layout, place = found
            graph.values[meta.name] = layout
            graph.memory[meta.name] = arguments[place] if place >= 0 else step.made[-1 - place]
        self._note_results(graph, node)
        return step

    def _note_results(self, graph: _Graph, node: OpNode) -> None:
        if node.name not in graph.values:
            graph.several[node.name] = {m.producer_output_idx: m.name for m in node.outputs}

    def _check_reads(self, graph: _Graph, node: OpNode) -> None:
        for name in read_names(node):
            if name in graph.several:
                raise Unknown(f"the IR does not say of what type {name} is")
            if name not in graph.values:
                raise ValueError(
                    f"node {node.name!r} reads {name!r}, which no earlier node produces"
                )

    def _pick(self, graph: _Graph, node: OpNode) -> bool:
        """Let the result of a `getitem` be what it picks; false if the IR does not say what."""
        (source,) = read_names(node)
        picked = graph.several.get(source, {}).get(node.arguments["index"], source)
        if picked not in graph.values:
            return False
        for meta in node.outputs:
            graph.values[meta.name] = graph.values[picked]
            if picked in graph.memory:
                graph.memory[meta.name] = graph.memory[picked]
        return True

    def _call(self, graph: _Graph, node: OpNode) -> CallCost:
        try:
            call = self.probe.call(node, graph.values)
        except Unknown as reason:
            call = self._with_numbers(graph, node, reason)
        if any(
            meta.producer_output_idx >= len(call.outputs)
            or (call.outputs[meta.producer_output_idx] is None) != meta.is_scalar
            for meta in node.outputs
        ):
            raise Unknown("the op returns other values than the IR says")
        if self._depends_on_data(call):
            return self._declared(node)
        return call

    def _depends_on_data(self, call: CallCost) -> bool:
        """Whether PyTorch made a symbol of its own for a size: the IR has one for it too."""
        sizes = {size for output in call.outputs if output for size in output[0].shape}
        return bool(set().union(*(size.free_symbols for size in sizes)) - self.hints.keys())

    def _with_numbers(self, graph: _Graph, node: OpNode, reason: Unknown) -> CallCost:
        """The cost of an op that takes no symbols: if it computes no product and allocates what it
        returns and nothing else, the types in the IR tell the rest."""
        used = {name: graph.values[name] for name in read_names(node)}
        found = self.probe.call_with_numbers(node, used)
        call = self._declared(node)
        returned = sum(call.allocated, ZERO)
        expected = number(returned.value, {symbol.name: n for symbol, n in self.hints.items()})
        if found.flops.terms or [peak.value for peak in found.peaks] != [expected]:
            raise reason
        return call

    def _declared(self, node: OpNode) -> CallCost:
        """Results as the types of the IR say, each in memory of its own."""
        call = CallCost(outputs=[None] * (1 + max(m.producer_output_idx for m in node.outputs)))
        total = ZERO
        for meta in node.outputs:
            if not meta.is_scalar:
                layout = self._layout(meta)
                call.allocated.append(layout.bytes)
                call.outputs[meta.producer_output_idx] = (layout, -len(call.allocated))
                total += layout.bytes
        call.peaks = [total]
        return call

    def _moved(self, graph: _Graph, node: OpNode, call: CallCost) -> Amount:
        written = sum(call.allocated, ZERO)
        if not call.peaks:
            return ZERO  # a view
        picked = _PICKING.get(node.op_type.split(".")[1] if "." in node.op_type else "")
        total = written
        for name in dict.fromkeys(read_names(node)):
            layout = graph.values.get(name)
            if not isinstance(layout, Layout):
                continue
            ref = node.arguments.get(picked) if picked else None
            total += written if getattr(ref, "name", None) == name else layout.bytes
        return total

    # Subgraphs.

    def _subgraph_call(self, node: OpNode) -> CallCost:
        bodies = [self._body(name) for name in node.subgraphs]
        call = self._declared(node)
        call.peaks = largest([*call.peaks, *(peak for _, peaks in bodies for peak in peaks)])
        flops = [amount for amount, _ in bodies]
        if node.op_type == "higher_order.cond":
            most = largest(flops)
            call.flops = (
                most[0] if len(most) == 1 else Amount.of(sympy.Max(*(a.value for a in most)))
            )
        elif node.op_type in ("higher_order.scan", "higher_order.map_impl"):
            rows = next((m for m in node.inputs if m.name in _names(node.arguments["xs"])), None)
            steps = self._expression(rows.shape[0]) if rows is not None and rows.shape else 1
            call.flops = Amount.of(sum(flops, ZERO).value * steps)
        else:
            call.flops = sum(flops, ZERO)
        return call

    def _body(self, name: str) -> tuple[Amount, list[Amount]]:
        if name not in self.ir.subgraphs:
            raise Unknown(f"the IR has no subgraph {name!r}")
        if name in self.subgraphs:
            found = self.subgraphs[name]
            if found is None:
                raise Unknown(f"subgraph {name!r} calls itself")
            return found
        self.subgraphs[name] = None
        body: Subgraph = self.ir.subgraphs[name]
        graph, _ = self._start(body.inputs, len(body.nodes))
        steps = [self._step(graph, i, node) for i, node in enumerate(body.nodes)]
        _extend(graph, body.nodes, _names(body.outputs))
        # The operands are alive already: they are those of the node that calls.
        peaks = largest(peak for at in _sweep(steps, ZERO) for peak in at)
        found = sum((step.call.flops for step in steps), ZERO), peaks
        self.subgraphs[name] = found
        return found

    # The whole.

    def cost(self) -> Cost:
        nodes = self.ir.nodes
        graph, inputs = self._start(self.ir.graph_inputs, len(nodes))
        fixed = [(meta.name, self._layout(meta)) for meta in self.ir.weights]
        for name, tensor in self.ir.constants.items():
            shape = [sympy.Integer(size) for size in tensor.shape]
            fixed.append((name, contiguous(shape, tensor.dtype)))
        for name, layout in fixed:
            graph.values[name] = layout
            graph.memory[name] = _Memory(ZERO, len(nodes))
        steps = [self._step(graph, i, node) for i, node in enumerate(nodes)]
        results = [meta.name for meta in self.ir.graph_outputs]
        results += [mutation.value for mutation in self.ir.mutations]
        _extend(graph, nodes, results)
        start = sum((memory.size for memory in inputs), ZERO)
        live = list(_sweep(steps, start))
        eager = None
        if self.ir.eager is not None:
            eager = list(_sweep(_eager_steps(self.ir, graph, steps, results), start))
        return self._gather(steps, live, eager, start)

    def _gather(
        self,
        steps: list[_Step],
        live: list[list[Amount]],
        eager: list[list[Amount]] | None,
        start: Amount,
    ) -> Cost:
        found = Cost(modules={"": ModuleCost("")})
        peaks: dict[str, list[Amount]] = {"": [start]}
        eager_peaks: dict[str, list[Amount]] = {"": [start]}
        sums: dict[str, list[Amount]] = {"": [ZERO, ZERO]}
        read: dict[str, set[str]] = {"": {meta.name for meta in self.ir.weights}}
        weights = {meta.name: self._layout(meta).bytes for meta in self.ir.weights}
        for i, (node, step, at) in enumerate(zip(self.ir.nodes, steps, live, strict=True)):
            own = {name for name in read_names(node) if name in weights}
            found.nodes[node.name] = NodeCost(
                node.name,
                node.op_type,
                node.module_path,
                step.call.flops.value,
                step.moved.value,
                sum((weights[name] for name in own), ZERO).value,
                _peak(at),
                None if eager is None else _peak(eager[i]),
                step.unknown,
            )
            for path in _around(node.module_path):
                module = found.modules.setdefault(path, ModuleCost(path))
                module.nodes += 1
                if path and path == node.module_path:
                    module.module_type = node.module_type
                flops, moved = sums.setdefault(path, [ZERO, ZERO])
                sums[path] = [flops + step.call.flops, moved + step.moved]
                peaks[path] = largest([*peaks.get(path, []), *at])
                if eager is not None:
                    eager_peaks[path] = largest([*eager_peaks.get(path, []), *eager[i]])
                read.setdefault(path, set()).update(own)
        elements = {meta.name: _elements(meta) for meta in self.ir.weights}
        for path, module in found.modules.items():
            module.flops, module.bytes_moved = (amount.value for amount in sums[path])
            module.peak_activation_bytes = _peak(peaks[path])
            module.peak_eager_bytes = None if eager is None else _peak(eager_peaks[path])
            module.parameters = sum(elements[name] for name in read[path])
            module.parameter_bytes = sum(int(weights[name].value) for name in read[path])
        return found


def _names(value: Any) -> list[str]:
    return [ref.name for ref in references(value)]


def _elements(meta: TensorMeta) -> int:
    total = 1
    for size in meta.shape:
        total *= int(size)
    return total


def _around(path: str) -> Iterator[str]:
    """The module itself and all around it, the model ("") first."""
    yield ""
    parts = path.split(".") if path else []
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])


def _peak(candidates: list[Amount]) -> Size:
    if not candidates:
        return 0
    if len(candidates) == 1:
        return candidates[0].value
    return sympy.Max(*(amount.value for amount in candidates))


def _extend(graph: _Graph, nodes: Sequence[OpNode], results: Sequence[str]) -> None:
    """Let memory live to its last use."""
    for position, node in enumerate(nodes):
        for name in read_names(node):
            if name in graph.memory:
                graph.memory[name].last = max(graph.memory[name].last, position)
    for name in results:
        if name in graph.memory:
            graph.memory[name].last = len(nodes)


def _eager_steps(
    ir: IR, graph: _Graph, steps: Sequence[_Step], results: Sequence[str]
) -> list[_Step]:
    """What each node does to memory in the model's own code."""
    assert ir.eager is not None
    in_place, places = set(ir.eager.in_place), {n.name: i for i, n in enumerate(ir.nodes)}
    moved: dict[int, _Memory] = {}
    """Memory in a run of the graph, by identity -> memory in the model's code."""

    def memory_of(name: str) -> _Memory | None:
        known = graph.memory.get(name)
        return None if known is None else moved.setdefault(id(known), _Memory(known.size, -1))

    found = []
    for i, (node, step) in enumerate(zip(ir.nodes, steps, strict=True)):
        made, peaks = [], step.call.peaks
        read = [memory for name in read_names(node) if (memory := memory_of(name))]
        if node.name in in_place and read:
            moved.update((id(memory), read[0]) for memory in step.made)
            peaks = [peak - sum((m.size for m in step.made), ZERO) for peak in peaks]
        else:
            for memory in step.made:
                made.append(_Memory(memory.size, i))
                moved[id(memory)] = made[-1]
        for memory in read:
            memory.last = i
        found.append(_Step(dataclasses.replace(step.call, peaks=peaks), ZERO, "", made))
    ends = [(name, len(steps)) for name in results]
    for name, last in ir.eager.held.items():
        ends += [(meta.name, places[last]) for meta in ir.nodes[places[name]].outputs]
    for name, end in ends:
        if (memory := memory_of(name)) is not None:
            memory.last = max(memory.last, end)
    return found


def _sweep(steps: Sequence[_Step], live: Amount) -> Iterator[list[Amount]]:
    """The bytes that are alive while each step runs: the candidates of its peak."""
    ends: dict[int, list[_Memory]] = {}
    for position, step in enumerate(steps):
        yield [live + peak for peak in step.call.peaks] or [live]
        for memory in step.made:
            live += memory.size
            ends.setdefault(max(memory.last, position), []).append(memory)
        for memory in ends.pop(position, []):
            live -= memory.size
