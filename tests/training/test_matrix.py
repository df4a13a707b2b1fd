"""Models whose forwards hand their own parameters or masks to the backward, in each way to compile.

Right, and on MAX: a backward that stays on PyTorch gives the same gradients, and nobody notices.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.engine import empty_caches
from tests.testing.observed import ops_on_torch
from torch_max_backend import (
    compile_stats,
    compile_together,
    max_backend,
    reset_compile_stats,
    wait_for_compiles,
)
from torch_max_backend.engine.queue import ENGINE

pytestmark = pytest.mark.xdist_group("training-matrix")
WIDTH, STEPS = 12, 4


class Tied(nn.Module):
    """Both layers read one Parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


class Transposed(Tied):
    """The second layer's weight is the first one's, transposed, in the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self.second.weight = nn.Parameter(self.first.weight.detach().t())


def around(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), *layers, nn.Tanh(), nn.Linear(WIDTH, 3))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "layer norm": lambda: around(nn.LayerNorm(WIDTH)),
    "RMS norm": lambda: around(nn.RMSNorm(WIDTH)),
    "dropout": lambda: around(nn.Dropout(0.4)),
    # A forward in parts hands on the Parameter itself; one that is whole gives a copy of it.
    "layer norm, dropout": lambda: around(nn.LayerNorm(WIDTH), nn.Dropout(0.4)),
    "RMS norm, dropout": lambda: around(nn.RMSNorm(WIDTH), nn.Dropout(0.4)),
    "tied": Tied,
    "transposed": Transposed,
}
WAYS = ("compile_together", "plain", "tiered")

MEMORY = {
    f"aten::{name}"
    for name in (
        *("as_strided", "detach", "permute", "resolve_neg"),
        *("clone", "copy_", "empty", "empty_like", "empty_strided", "fill_", "ones_like"),
    )
}
"""What PyTorch runs around a call of MAX: views, copies, the gradient of a loss by itself."""
DRAWN = {"aten::bernoulli", "aten::bernoulli_"}
"""A seed gives the masks that it gives in eager, so PyTorch draws them."""


@dataclass
class Step:
    """What one step of training gave, and which ops PyTorch ran in it."""

    loss: torch.Tensor
    gradients: dict[str, torch.Tensor]
    forward: set[str]
    backward: set[str]


class Trained:
    """A model and the function that computes its loss, compiled or not."""

    def __init__(self, name: str, way: str | None = None) -> None:
        torch.manual_seed(0)
        self.model = MODELS[name]()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.loss: Callable[[torch.Tensor], torch.Tensor] = self._loss
        if way is not None:
            options = {"tiered": way == "tiered"}
            self.loss = torch.compile(
                self._loss, backend=max_backend, dynamic=False, options=options
            )

    def _loss(self, x: torch.Tensor) -> torch.Tensor:
        result = self.model(x)
        return F.mse_loss(result, result.detach().cos())

    def step(self, number: int) -> Step:
        torch.manual_seed(100 + number)
        x = torch.randn(7, WIDTH)
        losses: list[torch.Tensor] = []
        self.optimizer.zero_grad()
        forward = ops_on_torch(lambda: losses.append(self.loss(x)))
        backward = ops_on_torch(losses[0].backward)
        gradients = {name: p.grad.clone() for name, p in self.model.named_parameters()}  # type: ignore[union-attr]
        self.optimizer.step()
        return Step(losses[0].detach(), gradients, forward, backward)


def run(way: str, trained: dict[str, Trained]) -> dict[str, list[Step]]:
    """Train every model; in the first step, where the way allows it, MAX is not ready."""
    with compile_together() if way == "compile_together" else contextlib.nullcontext():
        first = {name: one.step(0) for name, one in trained.items()}
    wait_for_compiles()
    return {
        name: [first[name], *(one.step(number) for number in range(1, STEPS))]
        for name, one in trained.items()
    }


@dataclass
class Results:
    steps: dict[tuple[str, str], list[Step]]
    """By way and model."""
    modules: dict[str, float]
    """By way: the Modules that MAX compiled."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """Every model in every way: one Module for `compile_together`, the same again for tiers."""
    environment = empty_caches.environment(tmp_path_factory.mktemp("matrix"))
    found = Results({}, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", environment["TORCH_MAX_BACKEND_CACHE_DIR"])
        for way in WAYS:
            if way == "tiered":
                patch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "0")  # what is found does not wait
                # Until the wait: the background would begin with the first model alone.
                patch.setattr(ENGINE, "flush_in_background", lambda: None)
            torch._dynamo.reset()
            gc.collect()  # an equal graph shares its model while it lives
            reset_compile_stats()
            steps = run(way, {name: Trained(name, way) for name in MODELS})
            found.steps.update({(way, name): steps[name] for name in MODELS})
            found.modules[way] = compile_stats()["modules"]
        yield found
    torch._dynamo.reset()


@functools.cache
def eager(name: str) -> list[Step]:
    trained = Trained(name)
    return [trained.step(number) for number in range(STEPS)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_eager(way: str, name: str, results: Results) -> None:
    for actual, expected in zip(results.steps[way, name], eager(name), strict=True):
        torch.testing.assert_close(actual.loss, expected.loss)
        torch.testing.assert_close(actual.gradients, expected.gradients, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_both_directions_run_on_max(way: str, name: str, results: Results) -> None:
    first, *later = results.steps[way, name]
    assert "aten::mm" in eager(name)[0].backward, "what PyTorch computes is seen"
    if way == "plain":
        assert first.backward <= MEMORY
    else:
        assert "aten::mm" in first.backward, "MAX was ready too early"
    for step in later:
        drawn = DRAWN if "dropout" in name else set()
        assert step.forward <= MEMORY | drawn
        assert step.backward <= MEMORY


def test_few_modules(results: Results) -> None:
    assert results.modules == {"compile_together": 1, "plain": 0, "tiered": 1}
