"""PyTorch's minifier after AOTAutograd: `TORCHDYNAMO_REPRO_AFTER=aot`.

While it is on, each graph is compiled at once, nothing is read from AOTAutograd's cache or kept in
it, and the minifier sees what compiling or running the graph raises or, at level 4, returns. Its
scripts call `compile_scripts` first, and so compile the graphs that are left with this backend.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from torch_max_backend.compat import minifier
from torch_max_backend.flags import Options
from torch_max_backend.frontend.graph_compiler import GraphCompiler, Runnable
from torch_max_backend.lowering.registry import MAPPING_TORCH_ATEN_TO_MAX
from torch_max_backend.program import Kind

CompileGraph = Callable[[fx.GraphModule, Sequence[Any]], Runnable]


def watched(compile_graph: CompileGraph, graphs: GraphCompiler, kind: Kind) -> Any:
    """`compile_graph` as AOTAutograd calls it, watched by the minifier."""

    def compile_now(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
        graph = compile_graph(copy.deepcopy(gm), inputs)  # the minifier runs `gm` on PyTorch
        graphs.finish()
        return _boxed(graph)

    return minifier.watched(compile_now, _first_line(graphs.options, kind))


def compile_scripts(kind: str, options: Mapping[str, object]) -> None:
    """Called by the minifier's scripts: compile with this backend, not with TorchInductor."""
    chosen = Options.resolve(options)

    def compile_graph(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
        own = copy.deepcopy(gm)
        minifier.infer_values(own, inputs)
        graphs = GraphCompiler.prepared(chosen)
        graph = graphs.compile(own, Kind(kind))
        graphs.finish()
        return _boxed(graph)

    minifier.compile_scripts_with(compile_graph, _first_line(chosen, Kind(kind)))


def _first_line(options: Options, kind: Kind) -> str:
    """Imports the modules of the user's own lowerings, which register them, and then calls us."""
    table = MAPPING_TORCH_ATEN_TO_MAX
    modules = {getattr(table[op], "__module__", "__main__") for op in table.of_users()}
    lines = [f"import {module}" for module in sorted(modules - {"__main__"})]
    lines.append("from torch_max_backend.frontend.minifier import compile_scripts")
    lines.append(f"compile_scripts({kind.value!r}, {dataclasses.asdict(options)!r})")
    return "; ".join(lines)


def _boxed(graph: Runnable) -> Callable[[list[Any]], Any]:
    """A plain function: the minifier copies what it runs."""

    return minifier.takes_a_list(lambda args: graph.run(args))
