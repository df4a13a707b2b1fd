"""One of AOTAutograd's graphs to what runs it: MAX, or MAX and PyTorch in turns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._guards import TracingContext
from torch._ops import OpOverload

from torch_max_backend import flags
from torch_max_backend.engine.graph import CompiledGraph, PartitionedGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.errors import FallbackWarning, LoweringError, MaxCompilerError, how_to_add
from torch_max_backend.frontend.complex_numbers import without_complex_numbers
from torch_max_backend.frontend.fx_importer import import_fx, source_line
from torch_max_backend.frontend.partition import Partition, divide, random_nodes, refused_nodes
from torch_max_backend.lowering import graph_builder, on_torch
from torch_max_backend.lowering.registry import decomposition_table
from torch_max_backend.observe import profiling, stats
from torch_max_backend.program import BoxedCall, Kind, passes

Runnable = CompiledGraph | PartitionedGraph
aten = torch.ops.aten


@dataclass(frozen=True)
class GraphCompiler:
    """What is the same for all graphs of one compiled function."""

    options: flags.Options
    kernels: Sequence[Path]
    tiered: bool
    may_fall_back: bool

    def of_kind(self, kind: Kind) -> Callable[[fx.GraphModule, Sequence[Any]], Runnable]:
        """The compiler of AOTAutograd's graphs of one kind."""

        def compile_graph(gm: fx.GraphModule, inputs: Sequence[Any]) -> Runnable:
            profiling.show_graph(gm, kind.value)
            return self._compile(gm, kind)

        return compile_graph

    def _compile(self, gm: fx.GraphModule, kind: Kind) -> Runnable:
        gm = without_complex_numbers(gm, decomposition_table)
        static = _static_inputs(gm, kind)
        if self.may_fall_back:
            refused = refused_nodes(gm)
        else:
            graph_builder.check_supported(import_fx(gm))
            refused = random_nodes(gm)
        while True:
            try:
                if refused:
                    return self._in_parts(gm, kind, static, refused)
                return self._whole(gm, kind, static)
            except MaxCompilerError as error:
                # A user's own lowering that fails is a bug to be seen, not a gap to be filled.
                own = isinstance(error, LoweringError) and not error.builtin
                culprits = _culprits(gm, error)
                if not self.may_fall_back or own or culprits.keys() <= refused.keys():
                    raise
                refused.update(culprits)

    def _whole(self, gm: fx.GraphModule, kind: Kind, static: Collection[str]) -> CompiledGraph:
        graph = self._graph(gm, kind, static)
        ENGINE.submit(graph, background=self.tiered)
        return graph

    def _in_parts(
        self, gm: fx.GraphModule, kind: Kind, static: Collection[str], refused: Mapping[str, str]
    ) -> PartitionedGraph:
        parts = divide(gm, refused)
        islands: dict[str, CompiledGraph] = {}
        calls: dict[str, Callable[..., Any]] = {}
        for name in parts.islands:
            island = getattr(parts.top, name)
            single = _return_tuple(island)
            islands[name] = self._graph(island, kind, static)
            calls[name] = _island_call(islands[name], single)
        for graph in islands.values():
            ENGINE.submit(graph, background=self.tiered)
        _report(parts, refused)
        top = _with_calls(parts.top, calls)
        return PartitionedGraph(_eager(top), self._waiting(gm), list(islands.values()), kind)

    def _waiting(self, gm: fx.GraphModule) -> BoxedCall:
        """What runs until MAX has compiled the graph."""
        return _then_compile(_eager(gm)) if self.tiered else _eager(gm)

    def _graph(self, gm: fx.GraphModule, kind: Kind, static: Collection[str]) -> CompiledGraph:
        """The graph, lowered (which raises its errors) unless that is the background's work."""
        placeholders = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
        positions = [i for i, name in enumerate(placeholders) if name in static]
        program = passes.run(import_fx(gm, positions), kind, self.options)
        what = profiling.describe(gm, kind.value)
        graph = CompiledGraph(
            program, self._waiting(gm), self.kernels, what, kind, self.may_fall_back
        )
        if not self.tiered:
            ENGINE.lower(graph)
        return graph


def _static_inputs(gm: fx.GraphModule, kind: Kind) -> frozenset[str]:
    """Names of the parameters and buffers among a forward graph's inputs."""
    context = TracingContext.try_get()
    if kind is Kind.BACKWARD or context is None or context.fw_metadata is None:
        return frozenset()
    names = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    return frozenset(names[index] for index in context.fw_metadata.static_input_indices)


def _eager(gm: fx.GraphModule) -> BoxedCall:
    """PyTorch's own way to run the graph. Made at the first call: most graphs never need it."""
    ready = False

    def run(args: list[Any]) -> list[Any]:
        nonlocal ready
        if not ready:
            _reshape_views(gm)
            ready = True
        with torch.no_grad():
            results = list(gm(*args))
        args.clear()
        return results

    return run


def _then_compile(eager: BoxedCall) -> BoxedCall:
    """`eager`, after which the background begins: it would slow down the first answer."""

    def run(args: list[Any]) -> list[Any]:
        results = eager(args)
        if not ENGINE.deferring:
            ENGINE.flush_in_background()
        return results

    return run


def _reshape_views(gm: fx.GraphModule) -> None:
    """Let the graph run whatever strides PyTorch's kernels give.

    A `view` was traced where the strides allowed it, but some kernels lay out their result in
    another way than their fake does (batch norm of a transposed tensor).
    """
    for module in gm.modules():
        if isinstance(module, fx.GraphModule):
            for node in module.graph.find_nodes(op="call_function", target=aten.view.default):
                node.target = aten.reshape.default
            module.recompile()


def _culprits(gm: fx.GraphModule, error: MaxCompilerError) -> dict[str, str]:
    """The nodes to refuse after an error: the one that it names, else all."""
    reason = f"MAX refused it: {str(error.__cause__ or error).splitlines()[0]}"
    names = [node.name for node in gm.graph.nodes if node.op == "call_function"]
    named = error.node if isinstance(error, LoweringError) else None
    return dict.fromkeys([named] if named in names else names, reason)


def _return_tuple(gm: fx.GraphModule) -> bool:
    """Make the graph return a tuple; True if it returned one value."""
    output = next(iter(reversed(gm.graph.nodes)))
    single = not isinstance(output.args[0], (tuple, list))
    if single:
        output.args = ((output.args[0],),)
        gm.recompile()
    return single


def _island_call(graph: CompiledGraph, single: bool) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        results = graph.run(list(args))
        return results[0] if single else results

    return call


def _with_calls(top: fx.GraphModule, calls: Mapping[str, Callable[..., Any]]) -> fx.GraphModule:
    """`top` with its islands replaced; its generated code reads them as attributes."""
    for name, call in calls.items():
        delattr(top, name)
        setattr(top, name, call)
    return top


_WARNED: set[tuple[str, str | None]] = set()


def _report(parts: Partition, refused: Mapping[str, str]) -> None:
    """Count what runs on PyTorch, and warn once per op and line."""
    stats.count("nodes_on_torch", len(parts.on_torch))
    for node in parts.on_torch:
        reason = refused.get(node.name)
        source = source_line(node)
        if reason in (None, on_torch.RANDOM) or (str(node.target), source) in _WARNED:
            continue
        _WARNED.add((str(node.target), source))
        lines = [f"{node.target} runs on PyTorch: {reason}"]
        if source:
            lines.append(f"  from {source}")
        if isinstance(node.target, OpOverload):
            lines.append(f"  {how_to_add(node.target)}")
        lines.append('  to see an error instead: options={"fallback": "error"}')
        warnings.warn("\n".join(lines), FallbackWarning, stacklevel=2)
