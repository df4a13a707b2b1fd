"""Steps of optimizers, whose update of all parameters is one kernel: as in eager, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from torch import optim

from tests.testing.joined import joined
from torch_max_backend import compile_together, max_backend

pytestmark = joined("others")
Parameters = Sequence[torch.Tensor]

OPTIMIZERS: dict[str, Callable[[Parameters], optim.Optimizer]] = {
    "adamw": lambda p: optim.AdamW(p, lr=1e-2, foreach=True),
    "adamw one by one": lambda p: optim.AdamW(p, lr=torch.tensor(1e-2), foreach=False),
    "amsgrad": lambda p: optim.Adam(
        p, lr=1e-2, foreach=True, amsgrad=True, maximize=True, weight_decay=0.1
    ),
    "sgd": lambda p: optim.SGD(
        p, lr=1e-2, momentum=0.9, nesterov=True, weight_decay=0.01, foreach=True
    ),
    "rmsprop one by one": lambda p: optim.RMSprop(p, lr=1e-2, foreach=False),
    "rmsprop": lambda p: optim.RMSprop(p, lr=1e-2, momentum=0.5, centered=True, foreach=True),
    "groups": lambda p: optim.AdamW(
        [{"params": p[:2], "lr": 1e-3}, {"params": p[2:], "weight_decay": 0.0}], foreach=True
    ),
}


def parameters() -> list[torch.Tensor]:
    """Of several sizes, one of them a number, one with its channels last, one in float64."""
    made = torch.Generator().manual_seed(0)
    sizes = [(33, 7), (5,), (), (2, 3, 4, 5), (1100,)]
    tensors = [torch.randn(size, generator=made) for size in sizes]
    tensors[3] = tensors[3].contiguous(memory_format=torch.channels_last)
    tensors.append(torch.randn(6, generator=made, dtype=torch.float64))
    return [tensor.requires_grad_() for tensor in tensors]


def gradients(step: int) -> list[torch.Tensor]:
    """Some of which are not finite."""
    grads = [torch.sin(p.detach() * (step + 3)) for p in parameters()]
    grads[0][0, 0], grads[0][1, 1] = math.nan, math.inf
    grads[4][3:700] = 0
    return grads


@dataclass
class Training:
    """Parameters, their optimizer, and its step."""

    parameters: list[torch.Tensor]
    optimizer: optim.Optimizer
    update: Callable[[], object]
    steps: int = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            for parameter, grad in zip(self.parameters, gradients(self.steps), strict=True):
                parameter.grad = grad
            self.update()
            self.steps += 1

    def state(self) -> list[torch.Tensor]:
        own = [p.detach() for p in self.parameters]
        for parameter in self.parameters:
            own += [v for v in self.optimizer.state[parameter].values() if torch.is_tensor(v)]
        return own


def training(name: str, *, compiled: bool) -> Training:
    tensors = parameters()
    optimizer = OPTIMIZERS[name](tensors)

    def step() -> None:
        optimizer.step()

    # A code object of its own: Dynamo limits how often one is compiled.
    step.__code__ = step.__code__.replace(co_name=f"step_{list(OPTIMIZERS).index(name)}")
    update = torch.compile(step, backend=max_backend) if compiled else step
    return Training(tensors, optimizer, update)


def compile_all() -> dict[str, Training]:
    """All optimizers after two steps, compiled as one Module; states appear in the first one."""
    torch._dynamo.reset()
    found = {name: training(name, compiled=True) for name in OPTIMIZERS}
    with compile_together():
        for one in found.values():
            one.run(2)
    return found


@pytest.fixture(scope="module")
def compiled() -> dict[str, Training]:
    return compile_all()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_five_steps_are_as_in_eager(name: str, compiled: dict[str, Training]) -> None:
    one, other = compiled[name], training(name, compiled=False)
    one.run(3)
    other.run(5)
    for actual, expected in zip(one.state(), other.state(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def test_versions_of_parameters_are_counted(compiled: dict[str, Training]) -> None:
    """Autograd and packed weights detect a change by them."""
    one = compiled["adamw"]
    before = [parameter._version for parameter in one.parameters]
    one.run(1)
    assert all(p._version > v for p, v in zip(one.parameters, before, strict=True))
