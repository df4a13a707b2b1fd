"""An error in any step of a call is raised, and the next call is right."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from tests.testing.joined import joined
from torch_max_backend import max_backend
from torch_max_backend.runtime import call, packed_weights, parameters

pytestmark = joined("others")


class InjectedError(RuntimeError):
    """What a step of a call raises."""


class Layer(nn.Module):
    """A packed weight, a parameter with gaps in its memory, a buffer that MAX writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(24, 24)
        self.offset = nn.Parameter(torch.ones(48)[::2])
        self.register_buffer("count", torch.zeros(24))
        self.count: torch.Tensor

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.count.add_(1)
        y = self.linear(x) + self.offset
        return y * 2, y.t() + self.count.sum()

    @torch.no_grad()
    def change(self) -> None:
        """What a call has kept of the parameters is outdated."""
        self.linear.weight.mul_(0.75)
        self.linear.bias.data = self.linear.bias + 1
        self.offset.add_(1)


class Steps:
    """The steps of a call, one of which may raise."""

    def __init__(self) -> None:
        self.fails_at: int | None = None
        self.done: list[str] = []

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any) -> Any:
            self.done.append(name)
            if len(self.done) == self.fails_at:
                raise InjectedError(name)
            return function(*args)

        return step


@pytest.fixture(scope="module")
def steps() -> Iterator[Steps]:
    steps = Steps()
    with pytest.MonkeyPatch.context() as patch:
        for module in (call, parameters, packed_weights):
            name = f"{module.__name__}.to_buffer"
            patch.setattr(module, "to_buffer", steps.wrap(name, module.to_buffer))
        patch.setattr(call, "to_tensor", steps.wrap("to_tensor", call.to_tensor))
        pack = steps.wrap("packed_weight", packed_weights.packed_weight)
        patch.setattr(packed_weights, "packed_weight", pack)
        executor = call.executor
        patch.setattr(call, "executor", lambda model: steps.wrap("execute", executor(model)))
        yield steps


@torch.no_grad()
def compile_all() -> tuple[Layer, Callable[..., Any]]:
    torch.manual_seed(0)
    layer = Layer()
    compiled = torch.compile(layer, backend=max_backend, dynamic=False)
    compiled(torch.ones(3, 24))
    return layer, compiled


@torch.no_grad()
def test_the_call_after_one_that_failed_is_right(steps: Steps) -> None:
    layer, compiled = compile_all()
    failed = set()
    for at in range(1, 100):
        layer.change()
        x = torch.randn(3, 24)
        steps.fails_at, steps.done = at, []
        try:
            compiled(x)
        except InjectedError as error:
            failed.add(str(error))
        else:
            break  # it had fewer steps
        steps.fails_at = None
        expected = copy.deepcopy(layer)(x)
        torch.testing.assert_close(compiled(x), expected, rtol=1e-4, atol=1e-4)
    assert failed == {
        "execute",
        "packed_weight",
        "to_tensor",
        "torch_max_backend.runtime.call.to_buffer",
        "torch_max_backend.runtime.packed_weights.to_buffer",
        "torch_max_backend.runtime.parameters.to_buffer",
    }
