"""The queue: lowered once, compiled together, failures apart, nothing kept of what is dropped."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.engine.any_graph import SIZE, function
from tests.engine.fake_compiler import FakeCompiler
from tests.testing.programs import program_of
from torch_max_backend import compile_stats, max_backend
from torch_max_backend.engine.graph import CompiledGraph, State
from torch_max_backend.engine.queue import ENGINE, Engine
from torch_max_backend.errors import EngineError, LoweringError
from torch_max_backend.lowering import graph_builder, mojo_kernels
from torch_max_backend.lowering.registry import MAPPING_TORCH_ATEN_TO_MAX

pytestmark = pytest.mark.xdist_group("engine-queue")
aten = torch.ops.aten


def _never(args: list[Any]) -> list[Any]:
    raise AssertionError("it must not run on PyTorch")


def graph_of(function: Any, size: int = 3) -> CompiledGraph:
    gm = make_fx(lambda x: (function(x),))(torch.ones(size))
    return CompiledGraph(program_of(gm), _never, mojo_kernels.packages())


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "0")  # no store
    monkeypatch.setattr(CompiledGraph, "ready", _ready)
    return FakeCompiler()


def _ready(graph: CompiledGraph, model: Any, artifact: Any = None) -> None:
    graph._expect(State.QUEUED)
    graph.model, graph.state = model, State.READY


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the graphs that are lowered meanwhile."""
    names: list[str] = []
    build = graph_builder.build

    def counted(program: Any, table: Any, module: Any, name: str, kernels: Any) -> Any:
        names.append(name)
        return build(program, table, module, name, kernels)

    monkeypatch.setattr(graph_builder, "build", counted)
    yield names


def test_each_graph_is_lowered_once(compiler: FakeCompiler, builds: list[str]) -> None:
    engine = Engine(compiler)
    first, second = graph_of(torch.exp), graph_of(torch.sin)
    engine.submit([first])
    engine.submit([second, graph_of(torch.exp)])
    engine.flush()
    assert builds == [f"graph_{graph.key[:24]}" for graph in (first, second)]
    assert [len(graphs) for graphs in compiler.compiled] == [2]
    assert first.state is State.READY and engine.waiting == ()


def test_an_equal_graph_shares_the_model(compiler: FakeCompiler) -> None:
    engine = Engine(compiler)
    first = graph_of(torch.exp)
    engine.submit([first])
    engine.flush()
    twin = graph_of(torch.exp)
    engine.submit([twin])
    assert twin.state is State.READY and len(compiler.compiled) == 1


def test_an_observer_sees_graphs_that_are_there_and_graphs_that_come(
    compiler: FakeCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed: list[tuple[CompiledGraph, bool]] = []
    monkeypatch.setattr(
        CompiledGraph, "observe", lambda graph, by: observed.append((graph, by is not None))
    )
    engine = Engine(compiler)
    there, later, equal = (graph_of(f) for f in (torch.sin, torch.cos, torch.cos))
    engine.submit([there])
    engine.flush()
    assert observed == []
    engine.observe(Observer())
    assert observed == [(there, True)]
    engine.submit([later])
    engine.flush()
    engine.submit([equal])
    assert observed[-1] == (equal, True) and (later, True) in observed
    observed.clear()
    engine.observe(None)
    assert {(id(graph), on) for graph, on in observed} == {
        (id(graph), False) for graph in (there, later, equal)
    }
    observed.clear()
    last = graph_of(torch.tan)
    engine.submit([last])
    engine.flush()
    assert observed == []


class Observer:
    def around_call(self, graph: CompiledGraph, run: Any) -> Any:
        return run

    def around_execute(self, graph: CompiledGraph, execute: Any) -> Any:
        return execute


def test_a_failed_lowering_queues_none_of_its_batch(compiler: FakeCompiler) -> None:
    engine = Engine(compiler)
    waiting = graph_of(torch.sin)
    engine.submit([waiting])
    before = dict(MAPPING_TORCH_ATEN_TO_MAX._entries)
    MAPPING_TORCH_ATEN_TO_MAX[aten.tan] = lambda self: self[0]
    try:
        with pytest.raises(LoweringError):
            engine.submit([graph_of(torch.exp), graph_of(torch.tan)])
    finally:
        MAPPING_TORCH_ATEN_TO_MAX._entries = before
    assert engine.waiting == (waiting,)
    engine.flush()
    assert len(compiler.compiled) == 1 and waiting.state is State.READY


@pytest.mark.parametrize("how", ["bad", "unverified", "deadly"])
def test_only_the_graph_that_max_rejects_fails(
    compiler: FakeCompiler, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path))
    engine = Engine(compiler)
    graphs = [graph_of(op) for op in (torch.exp, torch.sin, torch.cos, torch.tanh)]
    engine.submit(graphs)
    getattr(compiler, how).add(graphs[2].lowered)
    says = {
        "bad": "MAX says no",
        "unverified": "unverified",
        "deadly": "Segmentation fault; the report is in ",
    }[how]
    with pytest.raises(EngineError, match=says):
        engine.flush()
    states = [graph.state for graph in graphs]
    assert states == [State.READY, State.READY, State.FAILED, State.READY]
    if how == "deadly":
        (report,) = tmp_path.glob("crashes/*/report.txt")
        assert "Segmentation fault" in report.read_text() and "a stack" in report.read_text()
        assert len(list(report.parent.glob("*.mlirbc"))) == 1, "the graph that crashed it"


def test_graphs_of_an_interrupted_compile_wait_for_the_next(compiler: FakeCompiler) -> None:
    engine = Engine(compiler)
    graph = graph_of(torch.exp)
    engine.submit([graph])
    compiler.interrupted = True
    with pytest.raises(KeyboardInterrupt):
        engine.flush()
    compiler.interrupted = False
    assert engine.waiting == (graph,)
    engine.flush()
    assert graph.state is State.READY


def _alive() -> dict[int, CompiledGraph]:
    gc.collect()
    return {id(graph): graph for graph in gc.get_objects() if type(graph) is CompiledGraph}


def _compile_and_drop() -> tuple[Any, list[Any]]:
    """Weak references to a parameter and to the graphs of a function that was dropped."""
    before = _alive()
    weight = torch.nn.Parameter(torch.randn(64, 64))
    with torch.no_grad():
        compiled = torch.compile(lambda x: (x @ weight).relu(), backend=max_backend)
        compiled(torch.ones(2, 64))
    mine = [weakref.ref(graph) for key, graph in _alive().items() if key not in before]
    assert [graph().state for graph in mine] == [State.READY]
    return weakref.ref(weight), mine


def test_a_dropped_function_is_freed() -> None:
    """Its graph, its parameters and the artifact that was loaded for it."""
    torch._dynamo.reset()
    loaded = set(ENGINE._library._loaded)
    weight, graphs = _compile_and_drop()
    torch._dynamo.reset()
    gc.collect()
    assert weight() is None, "a parameter is still alive"
    assert all(graph() is None for graph in graphs), "a graph is still alive"
    assert set(ENGINE._library._loaded) <= loaded, "an artifact is still loaded"


def test_the_store_serves_a_graph_that_was_dropped() -> None:
    """The artifact is loaded again: nothing of it stayed, and nothing is compiled."""
    for _ in range(2):
        torch._dynamo.reset()
        torch.compile(function, backend=max_backend)(torch.ones(SIZE))
        gc.collect()
    torch._dynamo.reset()
    gc.collect()
    before = compile_stats()
    result = torch.compile(function, backend=max_backend)(torch.ones(SIZE))
    after = compile_stats()
    assert after["modules"] == before["modules"]
    assert after["cache_hits"] == before["cache_hits"] + 1
    torch.testing.assert_close(result, function(torch.ones(SIZE)))
