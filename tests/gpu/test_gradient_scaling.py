"""`torch.amp.GradScaler` around a compiled model. On the CPU, where it works as on a GPU."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch

from torch_max_backend import compile_stats, max_backend


def _train(
    model: torch.nn.Module, outputs: Callable[..., torch.Tensor], batches: list[torch.Tensor]
) -> float:
    """Steps of SGD on scaled losses, skipped where a gradient overflows; returns the last scale."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for batch in batches:
        optimizer.zero_grad()
        scaler.scale(outputs(batch).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    return float(scaler.get_scale())


def test_scaled_gradients_are_those_of_eager_mode() -> None:
    """A step whose gradients overflow is skipped, and halves the scale."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    twin = copy.deepcopy(model)
    batches = [torch.randn(4, 8), torch.full((4, 8), torch.inf), torch.randn(4, 8)]
    before = compile_stats()["nodes_on_torch"]
    ours = _train(model, torch.compile(model, backend=max_backend), batches)
    theirs = _train(twin, twin, batches)
    assert ours == theirs == 32.0
    assert compile_stats()["nodes_on_torch"] == before
    for parameter, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(parameter, expected)
