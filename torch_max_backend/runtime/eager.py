"""PyTorch's own way to run a graph: while MAX compiles, and for what MAX cannot run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from torch_max_backend.program import BoxedCall

aten = torch.ops.aten


def eager_call(gm: fx.GraphModule) -> BoxedCall:
    """The graph, run by PyTorch. It is prepared at the first call: most graphs never need it."""
    ready = False

    def run(args: list[Any]) -> list[Any]:
        nonlocal ready
        if not ready:
            _reshape_views(gm)
            ready = True
        with torch.no_grad():
            results = list(gm(*args))
        args.clear()
        return results

    return run


def followed_by(call: BoxedCall, action: Callable[[], None]) -> BoxedCall:
    """`call`, and `action` after each run of it."""

    def run(args: list[Any]) -> list[Any]:
        results = call(args)
        action()
        return results

    return run


def _reshape_views(gm: fx.GraphModule) -> None:
    """Let the graph run whatever strides PyTorch's kernels give.

    A `view` was traced where the strides allowed it, but some kernels lay out their result in
    another way than their fake does (batch norm of a transposed tensor).
    """
    for module in gm.modules():
        if isinstance(module, fx.GraphModule):
            for node in module.graph.find_nodes(op="call_function", target=aten.view.default):
                node.target = aten.reshape.default
            module.recompile()
