"""The backend's own pipeline up to MAX's compiler, and notes of what it does."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch import fx

from torch_max_backend.compat.max import in_default_mlir_context
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.module_compiler import COMPILER
from torch_max_backend.frontend.compiler import DryBackend
from torch_max_backend.frontend.fx_importer import (
    meta_stands_for_cpu,
    source_line,
    tensors_of,
)
from torch_max_backend.frontend.graph_compiler import Queue
from torch_max_backend.frontend.partition import Partition
from torch_max_backend.frontend.support import Reason, computes
from torch_max_backend.observe.graph_breaks import GraphBreak, collected
from torch_max_backend.observe.held_warnings import hold_warnings
from torch_max_backend.program import Kind
from torch_max_backend.program.passes import Step

Function = Callable[..., Any]

_NAME = "torch_max_backend_name"
"""An entry of nodes' meta: dividing a graph gives other names, and keeps the meta."""


@dataclass(frozen=True)
class SeenNode:
    """A node of an FX graph, without the graph."""

    name: str
    op: str
    source: str | None
    decomposed_from: str | None
    inputs: tuple[str, ...]
    tensors: tuple[torch.Tensor, ...]
    """Fake ones."""


@dataclass(frozen=True)
class SeenPart:
    """What MAX gets of a graph, and how it was made."""

    graph: CompiledGraph
    steps: Sequence[Step]
    names: Mapping[str, str]
    """The names of its nodes by those that they have in the whole graph."""


@dataclass
class SeenGraph:
    """A graph of AOTAutograd's, and what became of it."""

    kind: Kind
    unit: int
    arguments: list[SeenNode]
    nodes: list[SeenNode]
    sizes: dict[str, int]
    """Example values of its symbolic sizes."""
    parts: list[SeenPart] = field(default_factory=list)
    on_torch: dict[str, Reason | None] = field(default_factory=dict)
    """The calls that PyTorch runs. None: its island would be too small."""


class Notes:
    """What the pipeline tells while it works."""

    def __init__(self) -> None:
        self.graphs: list[SeenGraph] = []
        self.unit = -1
        self._open: SeenGraph | None = None
        self._last: fx.GraphModule | None = None

    def unit_begins(self) -> None:
        """A graph of Dynamo's: what AOTAutograd makes of it is compiled together."""
        self.unit += 1

    def begin(self, gm: fx.GraphModule, kind: Kind) -> None:
        """A graph, or a further try of the last one."""
        if gm is self._last:
            self.graphs.pop()
        self._last = gm
        for node in gm.graph.nodes:
            node.meta[_NAME] = node.name
        calls = [n for n in gm.graph.nodes if n.op == "call_function" and _is_call(n)]
        graph = SeenGraph(
            kind,
            self.unit,
            [_seen(node) for node in gm.graph.find_nodes(op="placeholder")],
            [_seen(node) for node in calls],
            _example_sizes(gm),
        )
        self._open = graph
        self.graphs.append(graph)

    def program(self, gm: fx.GraphModule, steps: Sequence[Step], graph: CompiledGraph) -> None:
        """A part for MAX."""
        assert self._open is not None
        names = {node.meta.get(_NAME, node.name): node.name for node in gm.graph.nodes}
        self._open.parts.append(SeenPart(graph, list(steps), names))

    def divided(self, parts: Partition, on_torch: Mapping[str, Reason]) -> None:
        """The calls for PyTorch."""
        assert self._open is not None
        self._open.on_torch = {node.name: on_torch.get(node.name) for node in parts.on_torch}


class LoweringQueue:
    """Lowers graphs, which raises the errors of lowerings, and goes no further."""

    @in_default_mlir_context
    def submit(self, graphs: Sequence[CompiledGraph], *, background: bool = False) -> None:
        """Lower graphs; they stay on PyTorch."""
        for graph in graphs:
            COMPILER.lower([graph])
            graph.lowered = None

    def flush_in_background(self) -> None:
        """Nothing is compiled."""


def dry_run(
    function: Function,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Mapping[str, object] | None,
    queue: Queue | None = None,
    **how: Any,
) -> tuple[list[SeenGraph], list[GraphBreak], Any]:
    """Call `function` as compiled for MAX, with all graphs on PyTorch; `how` is for torch.compile.

    Graphs are lowered, or go to `queue`. Returns its graphs, its graph breaks and its result.
    """
    notes = Notes()
    backend = DryBackend(queue or LoweringQueue(), notes, options)
    compiled = torch.compile(function, backend=backend, **how)
    with hold_warnings(), meta_stands_for_cpu(), collected() as breaks:
        result = compiled(*args, **kwargs)
    return notes.graphs, breaks, result


def _is_call(node: fx.Node) -> bool:
    return node.target is not operator.getitem and computes(node)


def _seen(node: fx.Node) -> SeenNode:
    original = node.meta.get("original_aten")
    decomposed = None if str(original) in ("None", str(node.target)) else str(original)
    return SeenNode(
        node.name,
        str(node.target),
        source_line(node),
        decomposed,
        tuple(_origin(source) for source in node.all_input_nodes),
        tuple(tensors_of(node)),
    )


def _origin(node: fx.Node) -> str:
    while node.target is operator.getitem:
        node = node.all_input_nodes[0]
    return node.name


def _example_sizes(gm: fx.GraphModule) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for node in gm.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        numbers = value.shape if isinstance(value, torch.Tensor) else [value]
        for number in numbers:
            if isinstance(number, torch.SymInt) and isinstance(number.node.expr, sympy.Symbol):
                sizes[number.node.expr.name] = int(number.node.hint or 1)
    return sizes
