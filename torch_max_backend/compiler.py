"""`max_backend`: Dynamo's graph through AOTAutograd to compiled MAX graphs."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._export.utils import _special_op_to_preserve_cia
from torch._functorch import config as functorch_config
from torch._guards import CompileContext, TracingContext
from torch.export.exported_program import _override_composite_implicit_decomp

from torch_max_backend import aot_cache, flags, graph_builder, profiling, stats
from torch_max_backend.compiled_graph import CompiledGraph, Kind
from torch_max_backend.engine import ENGINE, kernel_packages
from torch_max_backend.folding import fold_constants
from torch_max_backend.fx_importer import import_fx
from torch_max_backend.registry import decomposition_table, preserved_composites
from torch_max_backend.weights import pack_weights


def max_backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, object] | None = None,
    **others: object,
) -> Callable[..., Any]:
    """The backend for `torch.compile(model, backend=max_backend)`.

    >>> import torch
    >>> from torch_max_backend import max_backend
    >>> @torch.compile(backend=max_backend)
    ... def add_one(x):
    ...     return x + 1
    >>> add_one(torch.zeros(2))
    tensor([1., 1.])
    """
    chosen = flags.Options.parse({**(options or {}), **others})
    compile_id = CompileContext.current_compile_id()
    if compile_id is not None and compile_id.frame_compile_id:
        stats.count("recompiles")
    kernels = kernel_packages(chosen.kernels)
    tiered = flags.tiered() if chosen.tiered is None else chosen.tiered

    def compiler(kind: Kind) -> Callable[..., CompiledGraph]:
        def compile_graph(graph: fx.GraphModule, inputs: Sequence[Any]) -> CompiledGraph:
            profiling.show_graph(graph, kind.value)
            program = fold_constants(import_fx(graph, _static_inputs(kind)))
            graph_builder.check_supported(program)
            if kind is Kind.INFERENCE and chosen.pack_weights:
                program = pack_weights(program)
            what = profiling.describe(graph, kind.value)
            compiled = CompiledGraph(program, _eager(graph), kernels, what, kind)
            ENGINE.submit(compiled, lower=not tiered)
            return compiled

        return compile_graph

    start = time.perf_counter()
    # Both directions are lowered before the first run, so that they compile as one Module.
    with (
        _whole_composites(),
        functorch_config.patch(force_non_lazy_backward_lowering=True),
        aot_cache.keyed(kernels, dataclasses.replace(chosen, tiered=None)),
    ):
        function = aot_autograd(
            fw_compiler=aot_cache.cacheable(compiler(Kind.FORWARD)),
            bw_compiler=aot_cache.cacheable(compiler(Kind.BACKWARD)),
            inference_compiler=aot_cache.cacheable(compiler(Kind.INFERENCE)),
            decompositions=decomposition_table(),
        )(gm, example_inputs)
    profiling.report("trace", time.perf_counter() - start, "AOTAutograd and lowering")
    if ENGINE.deferring:
        return function
    if tiered:
        ENGINE.flush_in_background()
    else:
        ENGINE.flush()
    return function


def _whole_composites() -> contextlib.AbstractContextManager[None]:
    """Keeps composite ops that the user lowers from being expanded, where nothing needs grad.

    Their gradient is that of their parts, so a graph that is trained sees the parts.
    """
    composites = preserved_composites()
    if not composites or torch.is_grad_enabled():
        return contextlib.nullcontext()
    return _override_composite_implicit_decomp(
        dict.fromkeys(composites, _special_op_to_preserve_cia)
    )


def _static_inputs(kind: Kind) -> frozenset[int]:
    """Positions of parameters and buffers among a forward graph's inputs."""
    context = TracingContext.try_get()
    if kind is Kind.BACKWARD or context is None or context.fw_metadata is None:
        return frozenset()
    return frozenset(context.fw_metadata.static_input_indices)


def _eager(gm: fx.GraphModule) -> Callable[[list[Any]], list[Any]]:
    """PyTorch's own way to run the graph, for calls before it is compiled."""

    def run(args: list[Any]) -> list[Any]:
        with torch.no_grad():
            results = list(gm(*args))
        args.clear()
        return results

    return run
