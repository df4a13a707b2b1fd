"""For a machine with a GPU: `pytest -m gpu`. Never run so far: docs/gpu.md."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

from torch_max_backend import compile_stats, get_accelerators, max_backend

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU"),
    pytest.mark.skipif(len(list(get_accelerators())) < 2, reason="MAX finds no GPU"),
]

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "pointwise": lambda x: torch.sin(x) * 2 + torch.exp(-x.abs()),
    "reduction": lambda x: x.sum(0) + x.amax(0) - x.mean(),
    "softmax": lambda x: torch.softmax(x, -1),
    "sort": lambda x: torch.sort(x, -1)[0],
    "scan": lambda x: torch.cumsum(x, 0),
    "index": lambda x: x[torch.tensor([3, 1, 4], device=x.device)],
    "product": lambda x: x @ x.T,
    "norm": lambda x: torch.nn.functional.layer_norm(x, [x.shape[-1]]),
    "image": lambda x: torch.nn.functional.max_pool2d(
        torch.nn.functional.conv2d(x.reshape(1, 1, 64, 65), x[:9, 0].reshape(1, 1, 3, 3)), 2
    ),
}


def _compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    torch._dynamo.reset()
    return torch.compile(function, backend=max_backend, options={"fallback": "error"})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_agrees_with_eager(name: str) -> None:
    x = torch.randn(64, 65, device="cuda")  # not a multiple of a block
    torch.testing.assert_close(
        _compiled(FUNCTIONS[name])(x), FUNCTIONS[name](x), atol=1e-3, rtol=1e-3
    )


def test_the_result_waits_for_what_pytorch_has_queued() -> None:
    """PyTorch's stream and MAX's: a result is read after it is written, and inputs before."""
    compiled = _compiled(lambda x: x * 2 + 1)
    x = torch.zeros(1 << 22, device="cuda")
    for _ in range(50):
        expected = float(x[-1]) * 2 + 1
        x = compiled(x) % 1000  # queued by PyTorch right behind
        assert float(x[-1]) == expected % 1000


def test_a_number_on_the_cpu_beside_a_gpu_tensor() -> None:
    x, number = torch.randn(8, device="cuda"), torch.tensor(3.0)
    torch.testing.assert_close(_compiled(lambda x, n: x * n)(x, number), x * number)


def test_training() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 4)
    ).cuda()
    twin = copy.deepcopy(model)
    x, y = torch.randn(8, 16, device="cuda"), torch.randint(4, (8,), device="cuda")
    before = compile_stats()["nodes_on_torch"]
    for net in (model, twin):
        step = torch.compile(net, backend=max_backend) if net is model else net
        torch.nn.functional.cross_entropy(step(x), y).backward()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-3, rtol=1e-3)
    assert compile_stats()["nodes_on_torch"] == before


def test_parameters_stay_where_they_are() -> None:
    layer = torch.nn.Linear(4, 4).cuda()
    compiled = torch.compile(layer, backend=max_backend)
    x = torch.randn(2, 4, device="cuda")
    with torch.no_grad():
        compiled(x)
        layer.weight.mul_(2)
        torch.testing.assert_close(compiled(x), layer(x), atol=1e-3, rtol=1e-3)
