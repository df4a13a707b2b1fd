"""Runs architectures of the zoo: compiled together, compared with eager PyTorch, counted."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch._dynamo.utils import counters

from tests.testing.dynamo import many_models
from tests.zoo.spec import Architecture
from torch_max_backend import compile_stats, compile_together, max_backend
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.errors import FallbackWarning
from torch_max_backend.frontend import graph_compiler

VANISHING = 1e-4
"""Outputs below it say nothing: what a wrong model gives would be as near to them."""


@dataclass
class Result:
    """A line of the report."""

    name: str
    family: str
    step: str
    """`inference` or `training`."""
    on_max: int = 0
    on_torch: int = 0
    graphs: int = 0
    graph_breaks: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why nodes run on PyTorch, one line per op."""
    error: float | None = None
    """Largest absolute error, relative to the largest absolute value of the same result."""
    together: int = 0
    """How many lines were compiled in the same Module, and in how many seconds."""
    seconds: float = 0.0
    compiled_again: int = 0
    """Graphs that the second call compiled."""


@dataclass
class Case:
    """An architecture beside its compiled self."""

    result: Result
    expected: Callable[[], Any]
    actual: Callable[[], Any]
    graphs: list[CompiledGraph] = field(default_factory=list)
    """Those that wait for the compiler."""


def run(architectures: Sequence[Architecture], *, training: bool = False) -> list[Result]:
    """Compile all of them as one Module, then compare them one by one."""
    cases = []
    before = compile_stats()["compile_seconds"]
    with many_models():
        with compile_together():
            for architecture in architectures:
                cases.append(make_case(architecture, training))
                count(cases[-1])
        seconds = compile_stats()["compile_seconds"] - before
        for case in cases:
            case.result.together, case.result.seconds = len(cases), seconds
            count_refused(case)
            compare(case)
    return [case.result for case in cases]


def trace(architectures: Sequence[Architecture], *, training: bool = False) -> Iterator[Result]:
    """Trace and lower, but compile nothing: what would run where, in seconds."""
    with mock.patch.object(ENGINE, "flush"), many_models(), compile_together():
        for architecture in architectures:
            case = make_case(architecture, training)
            count(case)
            ENGINE.drop_waiting()
            torch._dynamo.reset()
            yield case.result


def compare(case: Case) -> None:
    """Run the compiled model on MAX; a run that compiles again is counted, not hidden."""
    before = compile_stats()
    actual = case.actual()  # first: an eager run may register what Dynamo guards on
    after = compile_stats()
    expected = case.expected()
    refuse_vanishing(case.result, expected)
    case.result.error = largest_error(actual, expected)
    # Modules, not graphs: models that share transformers' wrapper (5.23) are traced again by
    # Dynamo, with any backend, and found compiled.
    case.result.compiled_again = int(after["modules"] - before["modules"])


def make_case(architecture: Architecture, training: bool = False) -> Case:
    result = Result(
        architecture.model, architecture.family, "training" if training else "inference"
    )
    torch.manual_seed(1)
    inputs = architecture.inputs()
    step = training_step if training else inference
    model, twin = architecture.build(), architecture.build()
    compiled = torch.compile(twin, backend=max_backend)

    def seeded(model: torch.nn.Module, call: Any) -> dict[str, Any]:
        torch.manual_seed(2)  # ViLT draws the patches that it looks at
        return step(model, call, inputs)

    return Case(result, lambda: seeded(model, model), lambda: seeded(twin, compiled))


def inference(model: torch.nn.Module, call: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    with torch.no_grad():
        return tensors(call(**inputs))


def training_step(model: torch.nn.Module, call: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Forward in evaluation mode (no dropout), a loss over all outputs, and its gradients.

    Each element has a weight of its own: the squares of what a layer norm gives add up to the same
    whatever comes in, and all gradients would be zero.
    """
    model.zero_grad()
    outputs = [t for t in tensors(call(**inputs)).values() if t.requires_grad]
    loss = sum((t * torch.arange(t.numel()).cos().view_as(t)).square().mean() for t in outputs)
    assert isinstance(loss, torch.Tensor)
    loss.backward()
    parameters = dict(model.named_parameters())
    gradients = {f"{k}.grad": p.grad for k, p in parameters.items() if p.grad is not None}
    return {"loss": loss.detach(), **gradients}


def tensors(outputs: Any, prefix: str = "") -> dict[str, torch.Tensor]:
    """The tensors of a model's output by their path."""
    if isinstance(outputs, torch.Tensor):
        return {prefix: outputs}
    if isinstance(outputs, dict):
        items: Any = outputs.items()
    elif isinstance(outputs, (tuple, list)):
        items = enumerate(outputs)
    else:
        return {}
    return {
        path: tensor
        for key, value in items
        for path, tensor in tensors(value, f"{prefix}.{key}" if prefix else str(key)).items()
    }


def count(case: Case) -> None:
    """Trace the case (inside `compile_together()` it runs on PyTorch) and count what is where."""
    before, waiting = compile_stats(), len(ENGINE.waiting)
    counters.clear()
    graph_compiler._WARNED.clear()  # what another architecture was warned of counts here too
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        case.actual()
    after = compile_stats()
    case.graphs = list(ENGINE.waiting[waiting:])
    result = case.result
    result.on_max = int(after["nodes_on_max"] - before["nodes_on_max"])
    result.on_torch = int(after["nodes_on_torch"] - before["nodes_on_torch"])
    result.graphs = int(after["graphs"] - before["graphs"])
    breaks: Counter[str] = counters["graph_break"]
    result.graph_breaks = [reason.splitlines()[0] for reason in breaks]
    told = [w.message for w in caught if isinstance(w.message, FallbackWarning)]
    result.reasons = [str(message) for message in told]


def count_refused(case: Case) -> None:
    """A graph that MAX's compiler refused runs on PyTorch: right, but not on MAX."""
    for graph in case.graphs:
        if graph.error is not None:
            nodes = len(graph.program.calls)
            case.result.on_max -= nodes
            case.result.on_torch += nodes
            case.result.reasons.append(f"a graph runs on PyTorch: {graph.error}")


def refuse_vanishing(result: Result, expected: dict[str, Any]) -> None:
    """Of a training step only the loss counts: some gradients are zero by their nature."""
    counted = {"loss"} if result.step == "training" else expected.keys()
    small = [
        name for name in counted if expected[name].numel() and scale(expected[name]) < VANISHING
    ]
    assert not small, f"{result.name}: {small} vanish: give its config larger weights"


def scale(tensor: torch.Tensor) -> float:
    """The largest finite absolute value; 1 if there is none."""
    finite = tensor[tensor.isfinite()].double().abs()
    return float(finite.max()) if finite.numel() else 1.0


def _is_gradient(name: str) -> bool:
    return name.endswith(".grad")


def largest_error(actual: dict[str, Any], expected: dict[str, Any]) -> float:
    """Of all results, relative to the scale of each; other shapes and dtypes are an error."""
    assert actual.keys() == expected.keys(), (actual.keys(), expected.keys())
    largest = max((scale(want) for name, want in expected.items() if _is_gradient(name)), default=0)
    worst = 0.0
    for name, want in expected.items():
        got = actual[name]
        assert got.shape == want.shape and got.dtype == want.dtype, name
        if want.numel() == 0:
            continue
        got, want = got.double(), want.double()
        same = (got == want) | (got.isnan() & want.isnan())
        difference = (got - want).abs().where(~same, 0.0)
        # Some gradients are zero but for rounding: the bias of an attention's keys.
        least = 1e-3 * largest if _is_gradient(name) else 1e-6
        error = float(difference.max()) / max(scale(want), least)
        worst = max(worst, float("inf") if error != error else error)
    return worst
