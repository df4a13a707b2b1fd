"""One op call as a graph: traced as AOTAutograd would for inference, imported, ready for MAX.

Op rows (tests/lowering) and PyTorch's own samples (tests/opinfo) both go this way. It is the
product's own without Dynamo and AOTAutograd, so that a call takes some 20 ms beside its compile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from max.graph import Module
from torch import fx
from torch._functorch._aot_autograd.functional_utils import (
    from_fun,
    has_data_mutation,
    to_fun,
)
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from torch_max_backend.compat.max import in_default_mlir_context
from torch_max_backend.engine.graph import CompiledGraph, State
from torch_max_backend.flags import Options
from torch_max_backend.frontend.graph_compiler import GraphCompiler, normalized
from torch_max_backend.frontend.support import unsupported_error, unsupported_nodes
from torch_max_backend.lowering import graph_builder, mojo_kernels
from torch_max_backend.lowering.registry import decomposition_table
from torch_max_backend.program import Kind

_EXCLUDE = torch._C._ExcludeDispatchKeyGuard
_FUNCTIONALIZE = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)


class OpCall:
    """An op with its arguments, seen as a function of the tensors among them."""

    def __init__(self, op: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> None:
        self.op = op
        self._leaves, self._spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self._places = [i for i, x in enumerate(self._leaves) if isinstance(x, torch.Tensor)]
        self.tensors = [self._leaves[i].detach() for i in self._places]

    def __call__(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """The op's tensors of `tensors` in place of the call's own."""
        filled = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            filled[place] = tensor
        args, kwargs = pytree.tree_unflatten(filled, self._spec)
        result = self.op(*args, **kwargs)
        return [r for r in pytree.tree_leaves(result) if isinstance(r, torch.Tensor)]

    def trace(self, table: Mapping[Any, Any]) -> tuple[fx.GraphModule, list[int]]:
        """The functional ATen graph, normalized, and which inputs it changes.

        Their new values are the graph's last outputs, as with AOTAutograd, whose own
        functionalization this is.
        """
        changed: list[int] = []

        def functional(tensors: list[torch.Tensor]) -> list[Any]:
            with _EXCLUDE(_FUNCTIONALIZE), FunctionalTensorMode():
                wrapped = [to_fun(tensor) for tensor in tensors]
                results = self(wrapped)
                changed[:] = [i for i, tensor in enumerate(wrapped) if has_data_mutation(tensor)]
                return [from_fun(tensor) for tensor in (*results, *(wrapped[i] for i in changed))]

        trace = make_fx(functional, decomposition_table=dict(table), tracing_mode="fake")
        gm = normalized(trace(self.tensors), lambda: table)
        gm.graph.eliminate_dead_code()
        gm.recompile()
        return gm, changed


def graph_for_max(gm: fx.GraphModule) -> CompiledGraph:
    """A normalized graph as the engine takes it; raises unless MAX can run every node."""
    if reasons := unsupported_nodes(gm):
        raise unsupported_error(gm, reasons)
    return GraphCompiler(Options(), mojo_kernels.packages()).graph(gm, Kind.INFERENCE)


@in_default_mlir_context
def lowered(call: OpCall, table: Mapping[Any, Any] | None = None) -> Module:
    """The call as a MAX Module, built and not compiled."""
    gm, _ = call.trace(decomposition_table() if table is None else table)
    graph = graph_for_max(gm)
    for package in graph.kernels:
        mojo_kernels.precompile(package)
    module = Module()
    graph_builder.build(graph.program, graph.lowerings, module, "graph", graph.kernels)
    return module


def run_on_max(graph: CompiledGraph, args: list[Any]) -> list[Any]:
    """Call a graph; raises MAX's error if it would run on PyTorch."""
    if graph.error is not None:
        raise graph.error
    assert graph.state is State.READY, "a tested graph must not run on PyTorch"
    return graph.run(args)
