"""PyTorch's own AOTAutograd cache, so that a second process does not even trace the graph.

AOTAutograd keeps what it made of a Dynamo graph if the compiler returns `OutputCode`: pickled, in
the artifact store, where no other user can write. `CacheableGraph` is such a result: it is stored
as its `Program`, and comes back as a graph whose compiled model is in the artifact store. If it is
not there any more, the entry is passed over and AOTAutograd traces again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch
from torch import fx

from torch_max_backend.compat.dynamo import (
    BypassAOTAutogradCache,
    OutputCode,
    claim_what_it_takes,
    has_unpicklable_views,
    traces_in,
    undisabled,
    without_inductor_backends,
)
from torch_max_backend.compat.torch import (
    OutputType,
    PlainTensorMeta,
    SerializableAOTDispatchCompiler,
    TracingContext,
    ViewAndMutationMeta,
    functorch_config,
)
from torch_max_backend.engine import artifacts, fingerprint
from torch_max_backend.engine.graph import CompiledGraph, PartitionedGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.lowering.registry import MAPPING_TORCH_ATEN_TO_MAX
from torch_max_backend.program import Kind, Program
from torch_max_backend.runtime.interpreter import interpreted

Parts = tuple[Program, tuple[Path, ...], str, Kind, bool]
CompileGraph = Callable[[fx.GraphModule, Sequence[Any]], CompiledGraph | PartitionedGraph]


class CacheableGraph(OutputCode):
    """A compiled graph in the form that AOTAutograd's cache takes."""

    def __init__(self, graph: CompiledGraph, plain: bool) -> None:
        # AOTAutograd: takes one list and may empty it. Of the instance, because Dynamo's wrapper of
        # a backward copies just those attributes.
        self._boxed_call = True
        self.graph: CompiledGraph | None = graph
        self.parts: Parts = (graph.program, graph.kernels, graph.what, graph.kind, plain)

    def __call__(self, args: list[Any]) -> list[Any]:  # type: ignore[override]
        return self.graph.run(args)  # type: ignore[union-attr]

    def __getstate__(self) -> Parts:
        return self.parts

    def __setstate__(self, parts: Parts) -> None:
        self._boxed_call = True
        self.graph = None
        self.parts = parts

    def prepare_for_serialization(self) -> None:
        """Nothing to drop: only the parts are pickled."""

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """Called for an entry that was found: get the model, or pass the entry over.

        A function that `aot_compile` saved is such an entry too, and there is nothing to trace
        again: it is compiled from its program.
        """
        program, kernels, what, kind, _ = self.parts
        graph = CompiledGraph(program, interpreted(program), kernels, what, kind)
        made = _MADE.get(None)
        if not ENGINE.find(graph):
            if made is not None:
                raise BypassAOTAutogradCache("its compiled graphs are not in the artifact store")
            ENGINE.submit([graph])
            if not ENGINE.deferring:
                ENGINE.flush()
        self.graph = graph
        if made is not None:
            made.append(self)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There is no Triton here."""


_MADE: ContextVar[list[OutputCode]] = ContextVar("graphs of the function that is being compiled")


class PassingGraph(OutputCode):
    """A graph that AOTAutograd's cache is told not to keep, and why."""

    def __init__(self, graph: CompiledGraph | PartitionedGraph, reason: str) -> None:
        self._boxed_call = True
        self.graph = graph
        self.reason = reason

    @property
    def is_small(self) -> bool:
        """Whether it runs on PyTorch because that is faster."""
        return isinstance(self.graph, PartitionedGraph) and self.graph.small

    def __call__(self, args: list[Any]) -> list[Any]:  # type: ignore[override]
        return self.graph.run(args)

    def prepare_for_serialization(self) -> None:
        """AOTAutograd catches this, and keeps nothing."""
        raise BypassAOTAutogradCache(self.reason)


def cacheable(compile_graph: CompileGraph) -> Any:
    """`compile_graph` as AOTAutograd wants it."""

    def compile_cacheable(gm: fx.GraphModule, inputs: Sequence[Any]) -> OutputCode:
        graph = compile_graph(gm, inputs)
        context = TracingContext.try_get()
        meta = None if context is None else context.fw_metadata
        made: OutputCode
        if isinstance(graph, PartitionedGraph):
            made = PassingGraph(graph, "a part of it runs on PyTorch")
        elif meta is not None and has_unpicklable_views(meta):
            made = PassingGraph(graph, "PyTorch would not keep its views intact")
        else:
            made = CacheableGraph(graph, _is_plain(graph.kind, meta))
        _MADE.get().append(made)
        return made

    if usable():
        return SerializableAOTDispatchCompiler(OutputCode, compile_cacheable)
    return compile_cacheable


def usable() -> bool:
    """Whether graphs may be kept: a lowering of the user's own is known in this process only."""
    store = artifacts.default_store()
    return bool(store.limit) and MAPPING_TORCH_ATEN_TO_MAX.is_builtin()


def _is_plain(kind: Kind, meta: ViewAndMutationMeta | None) -> bool:
    """Whether AOTAutograd's own wrapper has nothing to do at a call.

    Its work is to apply mutations, to make outputs views of inputs again, to unpack tensor
    subclasses, to carry gradients. An inference graph usually needs none of it.
    """
    if kind is not Kind.INFERENCE or meta is None:
        return False
    subclasses = (*meta.subclass_inp_meta, *meta.subclass_fw_graph_out_meta)
    return (
        meta.num_mutated_inp_runtime_indices == 0
        and meta.num_intermediate_bases == 0
        and not meta.tokens
        and not meta.is_rng_op_functionalized
        and not meta.dynamic_outputs
        and meta.grad_enabled_mutation is None
        and all(info.output_type is OutputType.non_alias for info in meta.output_info)
        and all(isinstance(item, PlainTensorMeta) for item in subclasses)
    )


def direct_call(
    function: Callable[..., Any], made: Sequence[OutputCode], inputs: Sequence[Any]
) -> Callable[..., Any]:
    """`function`, or the compiled graph itself where AOTAutograd's wrapper has nothing to do."""
    if functorch_config.bypass_autograd_cache_key:  # `aot_compile`, which serializes the wrapper
        return function
    # AOTAutograd hides its function from Dynamo, and Dynamo hides it again: once is enough.
    wrapped = undisabled(function)
    claim_what_it_takes(wrapped)
    if len(made) != 1 or not isinstance(made[0], CacheableGraph):
        return wrapped
    program, *_, plain = made[0].parts
    arguments = len(program.inputs) - len(program.captured)
    graph = made[0].graph
    if not plain or graph is None or arguments != len(inputs):
        return wrapped
    return graph.as_function()


@contextlib.contextmanager
def keyed(kernels: Sequence[Path], options: object) -> Iterator[list[OutputCode]]:
    """Inside, AOTAutograd's keys hold everything of ours that decides its graphs.

    Yields a list that receives the graphs as they are made or found.
    """
    front_end = fingerprint.sources((*fingerprint.CODE, "frontend"))  # an entry is a `Program`
    own = f"{fingerprint.context({}, kernels)} {front_end} {options}"
    tag = f"{torch.compiler.config.cache_key_tag} max_backend {own}"
    with (
        torch.compiler.config.patch(cache_key_tag=tag),  # type: ignore[attr-defined]
        # "Bundled": the entry holds the graphs themselves, not keys of inductor's cache.
        functorch_config.patch(bundled_autograd_cache=True),
        without_inductor_backends(),
        traces_in(artifacts.default_store()),
    ):
        token = _MADE.set([])
        try:
            yield _MADE.get()
        finally:
            _MADE.reset(token)
