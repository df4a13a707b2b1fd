"""A graph is queued, then ready or failed: the transitions, and what a call runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.testing.programs import program_of
from torch_max_backend.engine import graph as graph_module
from torch_max_backend.engine.graph import CompiledGraph, State
from torch_max_backend.errors import EngineError
from torch_max_backend.program import Kind


def queued(kind: Kind = Kind.INFERENCE) -> CompiledGraph:
    """A graph of two outputs: a new tensor, and its second argument as it is."""
    gm = make_fx(lambda x, w: (x * w, w))(torch.ones(3), torch.ones(3))

    def eager(args: list[Any]) -> list[Any]:
        x, w = args
        args.clear()
        return [x * w, w]

    return CompiledGraph(program_of(gm, kind), eager, (), kind=kind)


WRAPPERS: list[Any] = []
"""What was put around the execution of models."""


@pytest.fixture(autouse=True)
def _max_adds_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of a model of MAX: results that PyTorch would not give."""
    monkeypatch.setattr(
        graph_module,
        "boxed_call",
        lambda program, model: (lambda args: [args[0] + 100, args[1]], WRAPPERS.append),
    )


def test_a_call_runs_on_pytorch_until_it_is_ready() -> None:
    graph = queued()
    assert graph.state is State.QUEUED and not graph.settled
    assert graph([torch.ones(3), torch.full((3,), 2.0)])[0].tolist() == [2, 2, 2]
    graph.ready("a model")  # type: ignore[arg-type]
    assert graph.state is State.READY and graph.settled and graph.model == "a model"
    assert graph([torch.ones(3), torch.ones(3)])[0].tolist() == [101, 101, 101]


def test_a_failed_graph_stays_on_pytorch() -> None:
    graph = queued()
    graph.fail(EngineError("no"))
    assert graph.state is State.FAILED and graph.settled and graph.model is None
    assert graph([torch.ones(3), torch.ones(3)])[0].tolist() == [1, 1, 1]


@pytest.mark.parametrize("again", ["queue", "ready", "fail"])
@pytest.mark.parametrize("end", ["ready", "fail"])
def test_an_end_is_final(end: str, again: str) -> None:
    graph = queued()
    moves = {
        "queue": lambda: graph.queue(called_meanwhile=True),
        "ready": lambda: graph.ready("a model"),  # type: ignore[arg-type]
        "fail": lambda: graph.fail(EngineError("no")),
    }
    moves[end]()
    with pytest.raises(AssertionError, match="not queued"):
        moves[again]()


def test_a_backward_runs_where_its_forward_ran() -> None:
    forward, backward = queued(Kind.FORWARD), queued(Kind.BACKWARD)
    for graph in (forward, backward):
        graph.queue(called_meanwhile=True)
    weight = torch.ones(3)
    saved_on_torch = forward([torch.ones(3), weight])
    for graph in (forward, backward):
        graph.ready("a model")  # type: ignore[arg-type]
    assert backward(list(saved_on_torch))[0].tolist() == [1, 1, 1]
    saved_on_max = forward([torch.ones(3), weight])
    assert backward(list(saved_on_max))[0].tolist() == [201, 201, 201]


def test_an_argument_that_a_forward_hands_on_is_not_marked() -> None:
    """A parameter that is saved for the backward would keep every later backward on PyTorch."""
    forward, backward = queued(Kind.FORWARD), queued(Kind.BACKWARD)
    for graph in (forward, backward):
        graph.queue(called_meanwhile=True)
    weight = torch.ones(3)
    forward([torch.ones(3), weight])
    for graph in (forward, backward):
        graph.ready("a model")  # type: ignore[arg-type]
    assert backward([torch.ones(3), weight])[0].tolist() == [101, 101, 101]


class Doubling:
    """An observer: every result is twice what it would be."""

    def around_call(self, graph: CompiledGraph, run: Any) -> Any:
        return lambda args: [2 * result for result in run(args)]

    def around_execute(self, graph: CompiledGraph, execute: Any) -> Any:
        return execute


def test_an_observer_is_around_the_calls_until_it_leaves() -> None:
    WRAPPERS.clear()
    graph = queued()
    graph.observe(Doubling())
    assert graph([torch.ones(3), torch.ones(3)])[0].tolist() == [1, 1, 1], "not ready yet"
    graph.ready("a model")  # type: ignore[arg-type]
    unobserved = graph.run
    graph.observe(Doubling())
    assert graph([torch.ones(3), torch.ones(3)])[0].tolist() == [202, 202, 202]
    graph.observe(Doubling())
    assert graph([torch.ones(3), torch.ones(3)])[0].tolist() == [202, 202, 202], "not around itself"
    graph.observe(None)
    assert graph.run is unobserved
    assert [wrapper is None for wrapper in WRAPPERS] == [False, False, True]


def test_a_forked_child_is_not_observed() -> None:
    graph = queued()
    graph.ready("a model")  # type: ignore[arg-type]
    graph.leave_max()
    graph.observe(Doubling())
    assert graph([torch.ones(3), torch.ones(3)])[0].tolist() == [1, 1, 1]
