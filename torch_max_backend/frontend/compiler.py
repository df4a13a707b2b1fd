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
from torch._guards import CompileContext
from torch.export.exported_program import _override_composite_implicit_decomp

from torch_max_backend import flags
from torch_max_backend.engine.queue import ENGINE, kernel_packages
from torch_max_backend.frontend import aot_cache
from torch_max_backend.frontend.graph_compiler import GraphCompiler
from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.lowering.decompositions.rnn import rnn_dropout
from torch_max_backend.lowering.registry import decomposition_table, preserved_composites
from torch_max_backend.observe import profiling, stats
from torch_max_backend.program import Kind


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
    if not tiered:  # else the background's work; an error of the user's own kernels is raised here
        for package in kernels:
            mojo_kernels.precompile(package)
    may_fall_back = (chosen.fallback or flags.fallback()) == "eager"
    graphs = GraphCompiler(chosen, kernels, tiered, may_fall_back)
    start = time.perf_counter()
    # Both directions are lowered before the first run, so that they compile as one Module.
    with (
        _whole_composites(),
        rnn_dropout(),
        functorch_config.patch(force_non_lazy_backward_lowering=True),
        aot_cache.keyed(kernels, dataclasses.replace(chosen, tiered=None)) as made,
    ):
        function = aot_autograd(
            fw_compiler=aot_cache.cacheable(graphs.of_kind(Kind.FORWARD)),
            bw_compiler=aot_cache.cacheable(graphs.of_kind(Kind.BACKWARD)),
            inference_compiler=aot_cache.cacheable(graphs.of_kind(Kind.INFERENCE)),
            decompositions=decomposition_table(),
            keep_inference_input_mutations=True,  # what is changed in place, MAX writes in place
        )(gm, example_inputs)
    function = aot_cache.direct_call(function, made, example_inputs)
    profiling.report("trace", time.perf_counter() - start, "AOTAutograd and lowering")
    if not tiered and not ENGINE.deferring:
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
