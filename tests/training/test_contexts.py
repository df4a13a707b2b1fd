"""What users put around and into compiled code: autocast, hooks, checkpoints, exported programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.training.models import Block, Mlp
from torch_max_backend import compile_stats, compile_together, max_backend, reset_compile_stats

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("training-contexts")]

Compile = Callable[[Any], Any]
Scene = Callable[[Compile], Any]
"""Called with `torch.compile` or with nothing in its place; what it returns must be the same."""


def gradients(module: nn.Module, loss: torch.Tensor) -> list[torch.Tensor]:
    loss.backward()
    return [loss.detach(), *(p.grad for p in module.parameters() if p.grad is not None)]


def autocast(compiled: Compile) -> Any:
    model = Mlp()
    run = compiled(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = run(torch.randn(5, 8))
    assert result.dtype is torch.bfloat16
    return gradients(model, result.float().square().mean())


def inference_mode(compiled: Compile) -> Any:
    run = compiled(Mlp())
    with torch.inference_mode():
        return run(torch.randn(5, 8)).clone()


def no_grad_inside(compiled: Compile) -> Any:
    model = Mlp()

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = model(x).sum()
        return (model(x) * scale).sum()

    return gradients(model, compiled(function)(torch.randn(5, 8)))


def compiled_part_of_an_eager_model(compiled: Compile) -> Any:
    inner = Mlp()
    outer = nn.Sequential(nn.Linear(8, 8), compiled(inner), nn.Linear(4, 2))
    return gradients(outer, outer(torch.randn(5, 8)).square().mean())


def hooks(compiled: Compile) -> Any:
    model, seen = Mlp(), []
    model.hidden.register_forward_hook(lambda module, args, result: result * 2)
    model.out.weight.register_hook(lambda grad: grad * 3)
    model.out.register_full_backward_hook(lambda module, grads, results: seen.append(results[0]))
    result = gradients(model, compiled(model)(torch.randn(5, 8)).square().mean())
    assert len(seen) == 1
    return [*result, *seen]


def exported_and_compiled_again(compiled: Compile) -> Any:
    exported = torch.export.export(Mlp(), (torch.randn(5, 8),)).module()
    return gradients(exported, compiled(exported)(torch.randn(5, 8)).square().mean())


def checkpointed(compiled: Compile) -> Any:
    """With dropout: the backward draws the forward's masks again."""
    block = Block(8, 2, 0.3, True)

    def function(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, x, use_reentrant=False).square().mean()

    return gradients(block, compiled(function)(torch.randn(2, 5, 8)))


def functional_gradient(compiled: Compile) -> Any:
    model = Mlp()
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(parameters: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(torch.func.functional_call(model, parameters, (x,)), y)

    return compiled(torch.func.grad(loss))(parameters, torch.randn(5, 8), torch.randn(5, 4))


def gradient_of_each_sample(compiled: Compile) -> Any:
    model = Mlp()
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(parameters: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(torch.func.functional_call(model, parameters, (x,)), y)

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    return compiled(each)(parameters, torch.randn(5, 8), torch.randn(5, 4))


def accumulated(compiled: Compile) -> Any:
    model = Mlp()

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.mse_loss(model(x), y) / 2
        loss.backward()
        return loss

    run = compiled(step)
    losses = [run(torch.randn(5, 8), torch.randn(5, 4)).detach() for _ in range(2)]
    return [*losses, *(p.grad for p in model.parameters())]


SCENES: list[Scene] = [
    autocast,
    inference_mode,
    no_grad_inside,
    compiled_part_of_an_eager_model,
    hooks,
    exported_and_compiled_again,
    checkpointed,
    functional_gradient,
    gradient_of_each_sample,
    accumulated,
]


def _play(scene: Scene, compiled: Compile) -> Any:
    torch.manual_seed(0)
    return scene(compiled)


def _on_max(function: Any) -> Any:
    return torch.compile(function, backend=max_backend)


@pytest.fixture(scope="module")
def compiled() -> None:
    """Every scene once on PyTorch: their graphs become one Module, and the next run finds them."""
    torch._dynamo.reset()
    with compile_together():
        for scene in SCENES:
            _play(scene, _on_max)
    torch._dynamo.reset()  # what was compiled is found again by its content


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_scene(scene: Scene, compiled: None) -> None:
    reset_compile_stats()
    actual = _play(scene, _on_max)
    counted = compile_stats()
    assert counted["graphs"] == counted["cache_hits"] > 0
    expected = _play(scene, lambda function: function)
    tolerance = 3e-2 if scene is autocast else 1e-4
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance / 10)
