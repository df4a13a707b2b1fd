"""Compiles models and drops them, in a process of its own; prints what is left as JSON."""

from __future__ import annotations

import gc
import json
import sys
import weakref
from typing import Any

import torch
from torch import nn

from tests.testing.memory import resident_mib
from torch_max_backend import compile_stats, compile_together, max_backend
from torch_max_backend.engine import graph

WIDTH = 1024
WEIGHTS_MIB = 2 * WIDTH * WIDTH * 4 / 2**20

GRAPHS: weakref.WeakSet[Any] = weakref.WeakSet()
"""Every graph that is alive."""


def watch_graphs() -> None:
    for kind in (graph.CompiledGraph, graph.PartitionedGraph):
        begin: Any = kind.__init__

        def counted(self: Any, *args: Any, begin: Any = begin, **kwargs: Any) -> None:
            GRAPHS.add(self)
            begin(self, *args, **kwargs)

        kind.__init__ = counted  # type: ignore[method-assign]


def one_model() -> int:
    """Compile a model with weights of its own, run and train it; returns how many graphs it has."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.1), nn.Linear(WIDTH, WIDTH))
    compiled = torch.compile(model, backend=max_backend, dynamic=False)
    x = torch.randn(3, WIDTH)
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    model.train()
    compiled(x).square().mean().backward()
    assert model[0].weight.grad is not None
    return len(GRAPHS)


def main() -> None:
    watch_graphs()
    with compile_together():
        one_model()  # one Module for all three graphs
    torch._dynamo.reset()
    made, left, resident = [], [], []
    for _ in range(int(sys.argv[1])):
        made.append(one_model())
        torch._dynamo.reset()
        gc.collect()
        left.append(len(GRAPHS))
        resident.append(resident_mib())
    report = {
        "made": made,
        "left": left,
        "resident": resident,
        "modules": compile_stats()["modules"],
        "weights": WEIGHTS_MIB,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
