"""Dynamo's graph through AOTAutograd: functional ATen graphs, compiled or found in its cache."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from torch_max_backend.compat.dynamo import aot_autograd, debugs_after_aot
from torch_max_backend.compat.torch import (
    TracingContext,
    ViewAndMutationMeta,
    functorch_config,
    preserve_composites,
)
from torch_max_backend.frontend import aot_cache
from torch_max_backend.frontend.graph_compiler import GraphCompiler, Runnable
from torch_max_backend.frontend.returned_views import (
    changed_arguments,
    kept_results,
    remade_results,
    returned_views,
)
from torch_max_backend.lowering.decompositions.rnn import rnn_dropout
from torch_max_backend.lowering.registry import decomposition_table, preserved_composites
from torch_max_backend.program import Kind


def compile_through_aot_autograd(
    gm: fx.GraphModule, example_inputs: Sequence[Any], graphs: GraphCompiler
) -> Callable[..., Any]:
    """What Dynamo calls in place of `gm`. Its graphs are queued, forward and backward together."""
    # A graph is the same in tiers and without: an entry of the cache serves both.
    key = (dataclasses.replace(graphs.options, tiered=False), graphs.ends_at_break)
    with (
        _whole_composites(),
        rnn_dropout(),
        # Both directions are lowered before the first run, so that they compile as one Module.
        functorch_config.patch(force_non_lazy_backward_lowering=True),
        _untouched_cache() if _is_minified(graphs) else contextlib.nullcontext(),
        aot_cache.keyed(graphs.kernels, key) as made,
    ):
        function = aot_autograd(
            fw_compiler=_compiler(graphs, Kind.FORWARD),
            bw_compiler=_compiler(graphs, Kind.BACKWARD),
            inference_compiler=_compiler(graphs, Kind.INFERENCE),
            decompositions=decomposition_table(),
            keep_inference_input_mutations=True,  # what is changed in place, MAX writes in place
        )(gm, example_inputs)
    # A small graph runs as Dynamo traced it: what AOTAutograd does around a call costs more.
    if made and all(isinstance(each, aot_cache.PassingGraph) and each.is_small for each in made):
        return gm.forward
    return aot_cache.direct_call(function, made, example_inputs)


def _compiler(graphs: GraphCompiler, kind: Kind) -> Any:
    def compile_graph(gm: fx.GraphModule, inputs: Sequence[Any]) -> Runnable:
        context = TracingContext.try_get()
        meta = None if context is None else context.fw_metadata
        views = returned_views(
            gm,
            remade_results(meta, kind),
            kept_results(meta, kind),
            changed_arguments(meta, kind),
        )
        return graphs.compile(gm, kind, _static_inputs(kind, meta), views, _saved(gm, kind, meta))

    if _is_minified(graphs):
        from torch_max_backend.frontend import minifier  # imports all of TorchInductor

        return minifier.watched(compile_graph, graphs, kind)
    return aot_cache.cacheable(compile_graph)


def _is_minified(graphs: GraphCompiler) -> bool:
    """Whether PyTorch's minifier watches; not what `explain` and `bisect` look at."""
    return debugs_after_aot() and graphs.watch is None


def _untouched_cache() -> contextlib.AbstractContextManager[None]:
    """Nothing is read from AOTAutograd's cache or kept in it: every graph is compiled again."""
    return functorch_config.patch(enable_autograd_cache=False)


def _static_inputs(kind: Kind, meta: ViewAndMutationMeta | None) -> Sequence[int]:
    """Positions of the parameters and buffers among the arguments of the graph being compiled."""
    return () if kind is Kind.BACKWARD or meta is None else meta.static_input_indices


def _saved(gm: fx.GraphModule, kind: Kind, meta: ViewAndMutationMeta | None) -> int:
    """How many of the last results of a trained forward nobody but its backward reads."""
    if kind is not Kind.FORWARD or meta is None:
        return 0
    results = gm.graph.output_node().args[0]
    assert isinstance(results, (list, tuple))
    return len(results) - meta.num_forward


def _whole_composites() -> contextlib.AbstractContextManager[None]:
    """Keeps composite ops that the user lowers from being expanded, where nothing needs grad.

    Their gradient is that of their parts, so a graph that is trained sees the parts.
    """
    composites = preserved_composites()
    if not composites or torch.is_grad_enabled():
        return contextlib.nullcontext()
    return preserve_composites(composites)
