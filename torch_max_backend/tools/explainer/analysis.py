"""From what the pipeline told to what is reported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from torch_max_backend.engine import artifacts, compile_history
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.frontend.fx_importer import expression, memory_order
from torch_max_backend.frontend.support import Reason
from torch_max_backend.program import TensorInput, TensorSpec
from torch_max_backend.tools.explainer.dry_run import SeenGraph, SeenNode
from torch_max_backend.tools.explainer.fates import CONSTANT, OF_WEIGHTS, UNUSED, Fate, fates
from torch_max_backend.tools.explainer.report import (
    MAX,
    NOWHERE,
    TORCH,
    Call,
    Cast,
    Copy,
    GraphReport,
    Node,
    Packed,
    Part,
)
from torch_max_backend.tools.profiler.costs import Costs

_SMALL = Reason("too few nodes that MAX could run lie between those that it cannot")
_DROPPED = {
    UNUSED: "nothing reads its result",
    CONSTANT: "it depends on no argument, and is computed while compiling",
    OF_WEIGHTS: "it depends on parameters alone, and is computed when they change",
}


def graph_report(seen: SeenGraph) -> GraphReport:
    """What becomes of a graph."""
    whereabouts = _whereabouts(seen)
    static = {
        item.name
        for part in seen.parts
        for item in part.graph.program.inputs
        if isinstance(item, TensorInput) and item.static
    }
    parameters = tuple(node.name for node in seen.arguments if node.name in static)
    return GraphReport(
        kind=seen.kind.value,
        unit=seen.unit,
        arguments={node.name: _text(node.tensors) for node in seen.arguments if node.tensors},
        parameters=parameters,
        parameter_bytes=sum(
            _bytes(node.tensors, seen) for node in seen.arguments if node.name in parameters
        ),
        nodes=tuple(_node(node, seen, whereabouts.get(node.name)) for node in seen.nodes),
        parts=tuple(_part(part.graph, seen) for part in seen.parts),
        casts=tuple(_casts(seen)),
        copies=tuple(_copies(seen)),
    )


def expected_seconds(graphs: Sequence[SeenGraph]) -> float | None:
    """What compiling takes: the graphs of a unit are one Module, and equal ones are compiled once.

    None if this machine has compiled nothing yet.
    """
    total = 0.0
    done: set[str] = set()
    for unit in sorted({graph.unit for graph in graphs}):
        parts = [part.graph for graph in graphs if graph.unit == unit for part in graph.parts]
        new = [part for part in parts if part.key not in done and not _is_stored(part)]
        done.update(part.key for part in parts)
        if not new:
            continue
        kernels = len(set().union(*(part.program.signatures() for part in new)))
        seconds = compile_history.expected_seconds(kernels)
        if seconds is None:
            return None
        total += seconds
    return total


@dataclass(frozen=True)
class _Whereabouts:
    """Where a node of the whole graph is after the passes."""

    part: str
    own: str
    """Its name there."""
    fate: Fate | None


def _whereabouts(seen: SeenGraph) -> dict[str, _Whereabouts]:
    found: dict[str, _Whereabouts] = {}
    for part in seen.parts:
        moved = fates(part.steps, part.graph.program)
        for name, own in part.names.items():
            found.setdefault(name, _Whereabouts(part.graph.name, own, moved.get(own)))
    return found


def _node(node: SeenNode, seen: SeenGraph, place: _Whereabouts | None) -> Node:
    where, reason = MAX, None
    fate = None if place is None else place.fate
    call = None if place is None else place.own if fate is None else fate.became
    if node.name in seen.on_torch:
        where, place, fate, call = TORCH, None, None, None
        reason = seen.on_torch[node.name] or _SMALL
    elif fate is not None and fate.became is None and fate.by_pass in _DROPPED:
        where, place, reason = NOWHERE, None, Reason(_DROPPED[fate.by_pass])
    return Node(
        name=node.name,
        op=node.op,
        where=where,
        reason=None if reason is None else reason.text,
        by_design=reason is not None and reason.by_design,
        source=node.source,
        decomposed_from=node.decomposed_from,
        inputs=node.inputs,
        outputs=tuple(map(_spec, node.tensors)),
        part=None if place is None else place.part,
        call=call,
        merged=place is not None and call != place.own,
        by_pass=None if fate is None else fate.by_pass,
    )


def _part(graph: CompiledGraph, seen: SeenGraph) -> Part:
    program = graph.program
    costs = Costs(program, seen.sizes)
    calls = [
        Call(
            call.name,
            str(call.op),
            call.source,
            tuple(dict.fromkeys(ref.name for ref in call.reads())),
            tuple(str(spec) for spec in call.outputs if spec is not None),
            costs.flops(index),
            costs.moved([index], whole=True),
        )
        for index, call in enumerate(program.calls)
    ]
    packed = [Packed(item.name, item.sources, _spec_bytes(item.spec)) for item in program.packed]
    kernels = len(program.signatures())
    return Part(graph.name, tuple(calls), kernels, _is_stored(graph), tuple(packed))


def _is_stored(graph: CompiledGraph) -> bool:
    store = artifacts.default_store()
    return bool(graph.portable and store.limit and store.find(graph.key) is not None)


def _casts(seen: SeenGraph) -> Iterable[Cast]:
    made = {node.name: node.tensors for node in (*seen.arguments, *seen.nodes)}
    for node in seen.nodes:
        if not node.op.startswith(("aten._to_copy", "prims.convert_element_type")):
            continue
        read = [tensor for name in node.inputs for tensor in made.get(name, ())][:1]
        if read and node.tensors and read[0].dtype is not node.tensors[0].dtype:
            before, after = (
                str(tensor.dtype).removeprefix("torch.") for tensor in (read[0], node.tensors[0])
            )
            yield Cast(node.name, node.source, before, after, _bytes(node.tensors, seen))


def _copies(seen: SeenGraph) -> Iterable[Copy]:
    for node in seen.arguments:
        for tensor in node.tensors:
            if not _lies_dense(tensor):
                text = f"the argument {node.name} has gaps in memory, and is copied at each call"
                yield Copy(text, None, _bytes([tensor], seen))
    for node in seen.nodes:
        if node.op.startswith(("aten.clone", "aten.copy")):
            yield Copy(f"{node.name}: {node.op}", node.source, _bytes(node.tensors, seen))


def _lies_dense(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous() or memory_order(tensor) is not None


def _bytes(tensors: Iterable[torch.Tensor], seen: SeenGraph) -> int:
    return sum(_size(tensor, seen) * tensor.dtype.itemsize for tensor in tensors)


def _size(tensor: torch.Tensor, seen: SeenGraph) -> int:
    sizes = [expression(size) for size in tensor.shape]
    known = [
        size if isinstance(size, int) else int(size.subs(dict(seen.sizes.items())))
        for size in sizes
    ]
    return math.prod(known)


def _spec_bytes(spec: TensorSpec) -> int:
    return math.prod(int(size) for size in spec.shape) * spec.dtype.itemsize


def _spec(tensor: torch.Tensor) -> str:
    shape = tuple(map(expression, tensor.shape))
    return str(TensorSpec(shape, tensor.dtype, tensor.device))


def _text(tensors: Sequence[torch.Tensor]) -> str:
    return ", ".join(map(_spec, tensors))
