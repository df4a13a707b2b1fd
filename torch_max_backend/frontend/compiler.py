"""`max_backend`: what `torch.compile` calls with a graph of Dynamo's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from torch_max_backend.compat.torch import (
    CompileContext,
    make_learning_rates_inputs,
    recompile_reason,
)
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.flags import Options
from torch_max_backend.frontend.aot_autograd import compile_through_aot_autograd
from torch_max_backend.frontend.graph_compiler import GraphCompiler
from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.observe import profiling, stats
from torch_max_backend.observe.held_warnings import hold_warnings


@hold_warnings()  # with -W error, what was compiled stays compiled
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
    chosen = Options.resolve({**(options or {}), **others})
    compile_id = CompileContext.current_compile_id()
    if compile_id is not None and compile_id.frame_compile_id:
        stats.count("recompiles")
        stats.add_recompile_reason(recompile_reason() or "Dynamo does not tell")
    kernels = mojo_kernels.packages(chosen.kernels)
    if not chosen.tiered:  # else the background's work; errors of the user's kernels come up here
        for package in kernels:
            mojo_kernels.precompile(package)
    start = time.perf_counter()
    function = compile_through_aot_autograd(gm, example_inputs, GraphCompiler(chosen, kernels))
    profiling.report("trace", time.perf_counter() - start, "AOTAutograd and lowering")
    if not chosen.tiered and not ENGINE.deferring:
        ENGINE.flush()
    return function


make_learning_rates_inputs("max_backend")
