"""The seam between front ends and the rest: a functional ATen graph to what runs it.

A front end (`torch.compile` by way of AOTAutograd, an exported program) delivers a
`torch.fx.GraphModule` that

1. calls ATen ops, or ops with a row in `MAPPING_TORCH_ATEN_TO_MAX`, decomposed by
   `registry.decomposition_table()`;
2. is functional, but for `aten.copy_` to a placeholder at its end: an argument that is changed;
3. has the fake tensor (or number) of every node in `node.meta["val"]`, and the user's stack trace
   in `node.meta["stack_trace"]` where there is one;
4. returns a tuple or list.

Everything behind the seam works on that: the rewriting of complex numbers, the partition between
MAX and PyTorch, tiers, passes, lowering, artifacts, the AOTAutograd cache. The graph is taken over,
and may be changed in place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import fx

from torch_max_backend.compat.torch import OpOverload
from torch_max_backend.engine.graph import CompiledGraph, PartitionedGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.engine.targets import NATIVE, Target
from torch_max_backend.errors import (
    FallbackWarning,
    LoweringError,
    MaxCompilerError,
    ProgramError,
    how_to_add,
)
from torch_max_backend.flags import Options
from torch_max_backend.frontend import random_numbers
from torch_max_backend.frontend.complex_numbers import without_complex_numbers
from torch_max_backend.frontend.fx_importer import argument_inputs, import_fx, source_line
from torch_max_backend.frontend.nested_regions import inline_regions
from torch_max_backend.frontend.partition import Partition, divide, is_small
from torch_max_backend.frontend.returned_views import Views
from torch_max_backend.frontend.strided_views import read_whole_memory
from torch_max_backend.frontend.support import (
    SMALL,
    Reason,
    unsupported_error,
    unsupported_nodes,
)
from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.lowering.registry import decomposition_table
from torch_max_backend.observe import profiling, stats
from torch_max_backend.observe.held_warnings import warn
from torch_max_backend.program import BoxedCall, Kind, Program, passes
from torch_max_backend.program.passes.pack_weights import packing_for
from torch_max_backend.runtime.eager import eager_call, followed_by
from torch_max_backend.runtime.returned_views import with_views

Runnable = CompiledGraph | PartitionedGraph


@runtime_checkable
class Queue(Protocol):
    """Where graphs go: the engine's, or one that only looks at them."""

    def submit(self, graphs: Sequence[CompiledGraph], *, background: bool = False) -> None:
        """Lower and queue graphs; raises the errors of their lowerings."""

    def flush_in_background(self) -> None:
        """Compile what waits, in a thread."""


@runtime_checkable
class Watch(Protocol):
    """Is told what becomes of graphs: `explain` compiles nothing, and reports this."""

    def unit_begins(self) -> None:
        """A function of the front end's, whose graphs are compiled together."""

    def begin(self, gm: fx.GraphModule, kind: Kind) -> None:
        """A graph, normalized. What is told next is about it; of several tries, the last counts."""

    def program(
        self, gm: fx.GraphModule, steps: Sequence[passes.Step], graph: CompiledGraph
    ) -> None:
        """The graph, or a part of it that MAX runs, and what the passes did to it."""

    def divided(self, parts: Partition, on_torch: Mapping[str, Reason]) -> None:
        """The graph runs in parts, all of which were told."""


@dataclass(frozen=True)
class GraphCompiler:
    """Compiles the graphs of one function; the module's docstring says what a graph must be."""

    options: Options
    kernels: Sequence[Path]
    queue: Queue = ENGINE
    watch: Watch | None = None
    target: Target | None = None
    """The CPU to compile for; None is the CPU of this machine."""
    ends_at_break: bool = False
    """Whether the function goes on in Python behind the graph. PyTorch then runs a small one."""

    @classmethod
    def prepared(cls, options: Options, target: Target | None = None) -> GraphCompiler:
        """A compiler with its Mojo kernels ready."""
        kernels = mojo_kernels.packages(options.kernels)
        if not options.tiered:  # else the background's work; errors of the user's kernels come here
            for package in kernels:
                mojo_kernels.precompile(package)
        return cls(options, kernels, target=target)

    def finish(self) -> None:
        """Compile what waits, unless it is compiled in the background or with others."""
        if not self.options.tiered and not ENGINE.deferring:
            ENGINE.flush()

    def compile(
        self,
        gm: fx.GraphModule,
        kind: Kind,
        static_inputs: Collection[int] = (),
        views: Views | None = None,
        saved: int = 0,
    ) -> Runnable:
        """What runs `gm`: on MAX, or on MAX and PyTorch in turns.

        `static_inputs` are the positions of the parameters and buffers among its arguments, `views`
        the results that are returned as views, `saved` how many of the last results nobody but the
        backward reads. The graph is queued: `ENGINE.flush` compiles it
        together with all others that wait.
        """
        profiling.show_graph(gm, kind.value)
        gm = normalized(gm)
        placeholders = gm.graph.find_nodes(op="placeholder")
        static = frozenset(placeholders[position].name for position in static_inputs)
        on_torch = unsupported_nodes(gm)
        if not self.options.may_fall_back:
            errors = {name: reason for name, reason in on_torch.items() if not reason.by_design}
            if errors:
                raise unsupported_error(gm, errors)
        elif self.ends_at_break and not on_torch and is_small(gm):
            on_torch = {node.name: SMALL for node in gm.graph.nodes if node.op == "call_function"}
        while True:
            try:
                if self.watch is not None:
                    self.watch.begin(gm, kind)
                if on_torch:
                    return self._in_parts(gm, kind, static, on_torch, views or {})
                return self._whole(gm, kind, static, views or {}, saved)
            except MaxCompilerError as error:
                # A user's own lowering that fails is a bug to be seen, not a gap to be filled,
                # and so is a pass of ours that breaks the program.
                own = isinstance(error, ProgramError) or (
                    isinstance(error, LoweringError) and not error.builtin
                )
                culprits = _culprits(gm, error)
                if not self.options.may_fall_back or own or culprits.keys() <= on_torch.keys():
                    raise
                on_torch.update(culprits)

    def _whole(
        self, gm: fx.GraphModule, kind: Kind, static: Collection[str], views: Views, saved: int
    ) -> CompiledGraph:
        graph = self.graph(gm, kind, static, views, saved)
        self.queue.submit([graph], background=self.options.tiered)
        return graph

    def _in_parts(
        self,
        gm: fx.GraphModule,
        kind: Kind,
        static: Collection[str],
        on_torch: Mapping[str, Reason],
        views: Views,
    ) -> PartitionedGraph:
        inputs = argument_inputs(gm)
        parts = divide(gm, on_torch)
        islands: dict[str, CompiledGraph] = {}
        calls: dict[str, Callable[..., Any]] = {}
        for name in parts.islands:
            island = getattr(parts.top, name)
            single = _return_tuple(island)
            islands[name] = self.graph(island, kind, static)
            calls[name] = islands[name].as_function(single=single)
        self.queue.submit(list(islands.values()), background=self.options.tiered)
        if self.watch is None:
            _report(parts, on_torch)
        else:
            self.watch.divided(parts, on_torch)
        split = with_views(eager_call(_with_calls(parts.top, calls)), inputs, views)
        waiting = with_views(self._waiting(gm), inputs, views)
        small = all(reason is SMALL for reason in on_torch.values())
        return PartitionedGraph(split, waiting, list(islands.values()), kind, small)

    def _waiting(self, gm: fx.GraphModule) -> BoxedCall:
        """What runs until MAX has compiled the graph.

        In tiers the background begins after the first call: it would slow down the first answer.
        """
        eager = eager_call(gm)
        return followed_by(eager, self.queue.flush_in_background) if self.options.tiered else eager

    def graph(
        self,
        gm: fx.GraphModule,
        kind: Kind,
        static: Collection[str] = (),
        views: Views | None = None,
        saved: int = 0,
    ) -> CompiledGraph:
        """`gm`, all of which MAX can run, as the engine takes it; `static` names its parameters."""
        steps: list[passes.Step] = []
        program = self.program(gm, kind, static, views, steps, saved)
        what = profiling.describe(gm, kind.value)
        may_fall_back = self.options.may_fall_back
        waiting = self._waiting(gm)
        target = NATIVE if self.target is None else self.target.name
        graph = CompiledGraph(program, waiting, self.kernels, what, kind, may_fall_back, target)
        if self.watch is not None:
            self.watch.program(gm, steps, graph)
        return graph

    def program(
        self,
        gm: fx.GraphModule,
        kind: Kind,
        static: Collection[str] = (),
        views: Views | None = None,
        steps: list[passes.Step] | None = None,
        saved: int = 0,
    ) -> Program:
        """`gm` as a program, after the passes for its kind, which are appended to `steps`."""
        placeholders = [node.name for node in gm.graph.find_nodes(op="placeholder")]
        positions = [i for i, name in enumerate(placeholders) if name in static]
        imported = dataclasses.replace(import_fx(gm, positions, views), saved=saved)
        with packing_for(None if self.target is None else self.target.features):
            return passes.run(imported, kind, self.options, steps)


def normalized(
    gm: fx.GraphModule, decompositions: Callable[[], Mapping[Any, Any]] = decomposition_table
) -> fx.GraphModule:
    """`gm` on real tensors, with the `meta["val"]` of every node: MAX is asked about its nodes."""
    inline_regions(gm)
    gm = without_complex_numbers(gm, decompositions)
    read_whole_memory(gm)
    random_numbers.normalize(gm)
    return gm


def _culprits(gm: fx.GraphModule, error: MaxCompilerError) -> dict[str, Reason]:
    """The nodes to run on PyTorch after an error: the one that it names, else all."""
    reason = Reason(f"MAX rejected it: {str(error.__cause__ or error).splitlines()[0]}")
    names = [node.name for node in gm.graph.nodes if node.op == "call_function"]
    named = error.node if isinstance(error, LoweringError) else None
    return dict.fromkeys([named] if named in names else names, reason)


def _return_tuple(gm: fx.GraphModule) -> bool:
    """Make the graph return a tuple; True if it returned one value."""
    output = gm.graph.output_node()
    single = not isinstance(output.args[0], (tuple, list))
    if single:
        output.args = ((output.args[0],),)
        gm.recompile()
    return single


def _with_calls(top: fx.GraphModule, calls: Mapping[str, Callable[..., Any]]) -> fx.GraphModule:
    """`top` with its islands replaced; its generated code reads them as attributes."""
    for name, call in calls.items():
        delattr(top, name)
        setattr(top, name, call)
    return top


_WARNED: set[tuple[str, str | None]] = set()


def _report(parts: Partition, on_torch: Mapping[str, Reason]) -> None:
    """Count what runs on PyTorch, and warn once per op and line."""
    stats.count("nodes_on_torch", len(parts.on_torch))
    for node in parts.on_torch:
        reason = on_torch.get(node.name)
        source = source_line(node)
        if reason is None or reason.by_design or (str(node.target), source) in _WARNED:
            continue
        _WARNED.add((str(node.target), source))
        lines = [f"{node.target} runs on PyTorch: {reason.text}"]
        if source:
            lines.append(f"  from {source}")
        if isinstance(node.target, OpOverload):
            lines.append(f"  {how_to_add(node.target)}")
        lines.append('  to raise an error instead: options={"fallback": "error"}')
        warn("\n".join(lines), FallbackWarning, source)
