"""Other lengths and batches without another compile, in inference and in training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import pytest
import torch
from torch.fx.experimental import _config as shape_config
from torch.nn import functional as F

from tests.training.models import Gpt
from torch_max_backend import compile_stats, compile_together, max_backend, reset_compile_stats

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dynamic-shapes")]
LENGTHS = [(2, length) for length in (7, 16, 33, 128, 200)]
BATCHES = [(batch, 16) for batch in (2, 1, 3, 4, 5, 6, 7, 8)]


def logits(model: Gpt, ids: torch.Tensor) -> torch.Tensor:
    return model(ids)


def loss(model: Gpt, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


@dataclass
class Case:
    name: str
    function: Callable[..., torch.Tensor]
    shapes: Sequence[tuple[int, int]]
    training: bool
    dims: tuple[int, ...] = ()
    """Marked as dynamic; if none, PyTorch finds them by itself (`dynamic=True` or automatic)."""
    dynamic: bool | None = None
    first: int = 1
    """Calls that compile."""
    traced: int = 0
    """How often PyTorch traces anew, and finds what MAX compiled."""
    model: Any = None
    compiled: Any = field(default=None, repr=False)

    def call(self, function: Callable[..., Any], model: Gpt, shape: tuple[int, int]) -> list[Any]:
        torch.manual_seed(sum(shape))
        ids = torch.randint(0, 48, shape)
        for dim in self.dims:
            torch._dynamo.mark_dynamic(ids, dim)
        model.zero_grad()
        with torch.set_grad_enabled(self.training):
            result = function(model, ids)
        if self.training:
            result.backward()
        return [result.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


CASES = [
    Case("length, inference", logits, LENGTHS, False, (1,)),
    Case("length, training", loss, LENGTHS, True, (1,)),
    Case("batch, inference", logits, BATCHES, False, (0,)),
    # Of a batch of one PyTorch notes that its slices are contiguous.
    Case("batch, training", loss, BATCHES, True, (0,), traced=1),
    Case("both, dynamic=True", loss, [*LENGTHS, (5, 9), (3, 40)], True, dynamic=True),
    Case("length, automatic", loss, LENGTHS, True, first=2),
]


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> dict[str, Case]:
    """All that run, in one Module: their first calls run on PyTorch, the others on MAX."""
    mine = [item for item in request.session.items if item.module is request.module]  # type: ignore[attr-defined]
    wanted = {item.callspec.params["name"] for item in mine}  # type: ignore[attr-defined]
    torch._dynamo.reset()
    # Otherwise PyTorch takes a size of 1 for a case of its own.
    with shape_config.patch(backed_size_oblivious=True), compile_together():
        for case in (case for case in CASES if case.name in wanted):
            torch.manual_seed(0)
            case.model = Gpt(layers=1).train(case.training)
            # Code of its own: Dynamo keeps what it compiled, and which sizes it saw, by code.
            code = case.function.__code__.replace(co_name=case.name)
            function = FunctionType(code, globals())
            case.compiled = torch.compile(function, backend=max_backend, dynamic=case.dynamic)
            reset_compile_stats()
            for shape in case.shapes[: case.first]:
                case.call(case.compiled, case.model, shape)
            assert compile_stats()["recompiles"] == case.first - 1, case.name
    return {case.name: case for case in CASES}


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_one_compile_for_all(name: str, cases: dict[str, Case]) -> None:
    case = cases[name]
    reset_compile_stats()
    with shape_config.patch(backed_size_oblivious=True):
        for shape in case.shapes:
            actual = case.call(case.compiled, case.model, shape)
            expected = case.call(case.function, case.model, shape)
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-5)
    counted = compile_stats()
    assert counted["graphs"] == counted["modules"] == 0
    assert counted["recompiles"] == case.traced
