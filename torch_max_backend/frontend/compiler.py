"""`max_backend`: what `torch.compile` calls with a graph of Dynamo's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import fx

from torch_max_backend.compat.dynamo import (
    ends_at_break,
    make_learning_rates_inputs,
    recompile_reason,
)
from torch_max_backend.compat.torch import CompileContext, functorch_config
from torch_max_backend.flags import Options, check_mode
from torch_max_backend.frontend import carried_cache  # noqa: F401 - registers itself with PyTorch
from torch_max_backend.frontend.aot_autograd import compile_through_aot_autograd
from torch_max_backend.frontend.graph_compiler import GraphCompiler, Queue, Watch
from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.observe import graph_breaks, profiling, stats
from torch_max_backend.observe.held_warnings import hold_warnings, warn

_TOLD: set[str] = set()


@hold_warnings()  # with -W error, what was compiled stays compiled
def max_backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, object] | None = None,
    mode: str | None = None,
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

    `options` are those of README.md. A `mode` of `torch.compile` is accepted, and changes nothing.
    """
    note = check_mode(mode)
    if note is not None and note not in _TOLD:
        _TOLD.add(note)
        warn(note)
    chosen = Options.resolve({**(options or {}), **others})
    compile_id = CompileContext.current_compile_id()
    if compile_id is not None and compile_id.frame_compile_id:
        _count_recompile(recompile_reason() or "Dynamo does not tell")
    graphs = replace(GraphCompiler.prepared(chosen), ends_at_break=ends_at_break(gm))
    start = time.perf_counter()
    function = compile_through_aot_autograd(gm, example_inputs, graphs)
    profiling.report("trace", time.perf_counter() - start, "AOTAutograd and lowering")
    graphs.finish()
    return function


def _count_recompile(reason: str) -> None:
    """Count that a function is traced again, unless it was only traced for another backend.

    `explain` and `bisect` are other backends to Dynamo.
    """
    if all("BACKEND_MATCH" in line for line in reason.splitlines()):
        return
    stats.count("recompiles")
    stats.add_recompile_reason(reason)


class DryBackend:
    """`max_backend` for `torch.compile`, up to the queue: `watch` is told all, `queue` gets graphs.

    What it returns runs on PyTorch until the queue makes the graphs ready. Nothing is read from
    AOTAutograd's cache, or kept in it. Use a new one for each function: Dynamo takes what it made
    for a backend as compiled for the same object later.
    """

    def __init__(
        self, queue: Queue, watch: Watch, options: Mapping[str, object] | None = None
    ) -> None:
        self.queue = queue
        self.watch = watch
        self.options = Options.resolve(options)
        # What Dynamo does for the one, it does for the other.
        self.__name__ = self.compiler_name = max_backend.__name__

    def __call__(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Called by Dynamo with a graph."""
        self.watch.unit_begins()
        kernels = mojo_kernels.packages(self.options.kernels)
        graphs = GraphCompiler(
            self.options,
            kernels,
            self.queue,
            self.watch,
            ends_at_break=ends_at_break(gm),
        )
        with functorch_config.patch(enable_autograd_cache=False):
            return compile_through_aot_autograd(gm, example_inputs, graphs)


make_learning_rates_inputs("max_backend")
graph_breaks.listen("max_backend")
