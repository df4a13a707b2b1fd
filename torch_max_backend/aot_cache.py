"""PyTorch's own AOTAutograd cache, so that a second process does not even trace the graph.

AOTAutograd keeps what it made of a Dynamo graph (pickled, in PyTorch's cache folder) if the
compiler returns `OutputCode`. `CacheableGraph` is that: it is stored as its `Program`, and comes
back as a graph whose compiled model is in the artifact store. If it is not there any more, the
entry is passed over and AOTAutograd traces again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor.output_code import OutputCode

from torch_max_backend import artifacts, fingerprint
from torch_max_backend.compiled_graph import CompiledGraph, Kind, PartitionedGraph
from torch_max_backend.engine import ENGINE
from torch_max_backend.program import Program
from torch_max_backend.registry import MAPPING_TORCH_ATEN_TO_MAX

GraphCompiler = Callable[[fx.GraphModule, Sequence[Any]], CompiledGraph | PartitionedGraph]


class CacheableGraph(OutputCode):
    """A compiled graph in the form that AOTAutograd's cache takes."""

    def __init__(self, graph: CompiledGraph) -> None:
        # AOTAutograd: takes one list and may empty it. Of the instance, because Dynamo's wrapper of
        # a backward copies just those attributes.
        self._boxed_call = True
        self.graph: CompiledGraph | None = graph
        self.parts = (graph.program, graph.kernels, graph.what, graph.kind)

    def __call__(self, args: list[Any]) -> list[Any]:  # type: ignore[override]
        return self.graph.run(args)  # type: ignore[union-attr]

    def __getstate__(self) -> tuple[Program, tuple[Path, ...], str, Kind]:
        return self.parts

    def __setstate__(self, parts: tuple[Program, tuple[Path, ...], str, Kind]) -> None:
        self._boxed_call = True
        self.graph = None
        self.parts = parts

    def prepare_for_serialization(self) -> None:
        """Nothing to drop: only the parts are pickled."""

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Called for an entry that was found: get the model, or pass the entry over."""
        program, kernels, what, kind = self.parts
        graph = CompiledGraph(program, _never, kernels, what, kind)
        if not ENGINE.adopt(graph):
            raise BypassAOTAutogradCache("its compiled graphs are no longer in the artifact store")
        self.graph = graph

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There is no Triton here."""


def _never(args: list[Any]) -> list[Any]:
    raise AssertionError("a graph from the cache is compiled before its first call")


class PassingGraph(OutputCode):
    """A graph in parts: AOTAutograd's cache is told that it cannot be kept."""

    def __init__(self, graph: PartitionedGraph) -> None:
        self._boxed_call = True
        self.graph = graph

    def __call__(self, args: list[Any]) -> list[Any]:  # type: ignore[override]
        return self.graph.run(args)

    def prepare_for_serialization(self) -> None:
        """AOTAutograd catches this, and keeps nothing."""
        raise BypassAOTAutogradCache("a part of it runs on PyTorch")


def cacheable(compiler: GraphCompiler) -> Any:
    """`compiler` as AOTAutograd wants it."""

    def compile_graph(gm: fx.GraphModule, inputs: Sequence[Any]) -> OutputCode:
        graph = compiler(gm, inputs)
        if isinstance(graph, PartitionedGraph):
            return PassingGraph(graph)
        return CacheableGraph(graph)

    if usable():
        return SerializableAOTDispatchCompiler(OutputCode, compile_graph)
    return compile_graph


def usable() -> bool:
    """Whether graphs may be kept: a lowering of the user's own is known in this process only."""
    store = artifacts.default_store()
    return bool(store.limit) and MAPPING_TORCH_ATEN_TO_MAX.is_builtin()


@contextlib.contextmanager
def keyed(kernels: Sequence[Path], options: object) -> Iterator[None]:
    """Inside, AOTAutograd's keys hold everything of ours that decides its graphs."""
    own = f"{fingerprint.context({}, kernels)} {options}"
    tag = f"{torch.compiler.config.cache_key_tag} max_backend {own}"
    with (
        torch.compiler.config.patch(cache_key_tag=tag),  # type: ignore[attr-defined]
        # "Bundled": the entry holds the graphs themselves, not keys of inductor's cache.
        functorch_config.patch(bundled_autograd_cache=True),
    ):
        yield
