"""What the backend really does with a function, up to MAX's compiler, to compare `explain` with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from torch_max_backend import compile_stats, explain, max_backend
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.frontend import graph_compiler
from torch_max_backend.frontend.partition import Partition
from torch_max_backend.frontend.support import Reason
from torch_max_backend.tools.explainer.report import MAX, NOWHERE, TORCH, Report


@dataclass
class Real:
    """What was submitted to the engine, and what stayed on PyTorch."""

    graphs: list[CompiledGraph] = field(default_factory=list)
    on_torch: list[tuple[str, str | None]] = field(default_factory=list)
    """Names of nodes, and reasons."""
    breaks: float = 0


def real_compile(function: Callable[..., Any], *inputs: Any, **how: Any) -> Real:
    """Call `function`, compiled by `max_backend`, and drop what waits for the compiler."""
    real = Real()
    submit, report = ENGINE.submit, graph_compiler._report

    def submitted(graphs: Sequence[CompiledGraph], *, background: bool = False) -> None:
        submit(graphs, background=background)
        real.graphs += graphs

    def reported(parts: Partition, on_torch: Mapping[str, Reason]) -> None:
        report(parts, on_torch)
        for node in parts.on_torch:
            reason = on_torch.get(node.name)
            real.on_torch.append((node.name, None if reason is None else reason.text))

    torch._dynamo.reset()
    before = compile_stats()["graph_breaks"]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(ENGINE, "submit", submitted)
        patch.setattr(graph_compiler, "_report", reported)
        patch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "0")  # traced again, whatever is stored
        with ENGINE.defer():
            try:
                torch.compile(function, backend=max_backend, **how)(*inputs)
            finally:
                ENGINE.drop_waiting()
    real.breaks = compile_stats()["graph_breaks"] - before
    return real


def assert_right(function: Callable[..., Any], *inputs: Any, **how: Any) -> Report:
    """`explain` says of each node what a real compile then does; returns the report."""
    torch._dynamo.reset()
    report = explain(function, *inputs, **how)
    real = real_compile(function, *inputs, **how)
    assert [part.name for part in report.parts] == [graph.name for graph in real.graphs]
    for part, graph in zip(report.parts, real.graphs, strict=True):
        assert [call.name for call in part.calls] == [call.name for call in graph.program.calls]
    told = [node for graph in report.graphs for node in graph.nodes if node.where == TORCH]
    assert [node.name for node in told] == [name for name, _ in real.on_torch]
    for node, (_, reason) in zip(told, real.on_torch, strict=True):
        assert node.reason == reason or (reason is None and "too few" in (node.reason or ""))
    assert len(report.breaks) == real.breaks
    for graph in report.graphs:
        compiled = {(part.name, call.name) for part in graph.parts for call in part.calls}
        for node in graph.nodes:
            if node.where == MAX:  # somebody computes it
                assert (node.part, node.call) in compiled, (node.name, node.op, node.by_pass)
            else:
                assert node.where in (TORCH, NOWHERE) and node.part is node.call is None
    return report
