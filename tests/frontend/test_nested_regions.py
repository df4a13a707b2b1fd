"""`nested_compile_region`: what it marks runs on MAX with the rest."""

from __future__ import annotations

import pytest
import torch

from tests.testing.joined import joined
from tests.testing.table import Compiled, Table

pytestmark = joined("frontend")
TABLE = Table()
WEIGHT = torch.randn(6, 6)


@torch.compiler.nested_compile_region
def layer(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ WEIGHT) + x


@torch.compiler.nested_compile_region
def two_layers(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = layer(x)
    return layer(y), y * 2


@TABLE.add(torch.randn(4, 6))
def stack(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = layer(x)
    return x.sum(0)


@TABLE.add(torch.randn(5, 6))
def nested(x: torch.Tensor) -> torch.Tensor:
    first, second = two_layers(x)
    return first - two_layers(second)[1]


@TABLE.add(lambda: torch.randn(4, 6, requires_grad=True))
def trained(x: torch.Tensor) -> torch.Tensor:
    return layer(layer(x)).square()


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compiled]:
    return TABLE.compile()  # fails if a node runs on PyTorch


@pytest.mark.parametrize(("name", "rows"), [("stack", 4), ("nested", 5)])
def test_results(compiled: dict[str, Compiled], name: str, rows: int) -> None:
    x = torch.randn(rows, 6)
    torch.testing.assert_close(compiled[name](x), compiled[name].eager(x))


def test_gradients(compiled: dict[str, Compiled]) -> None:
    x = torch.randn(4, 6)
    gradients = []
    for function in (compiled["trained"], compiled["trained"].eager):
        leaf = x.clone().requires_grad_()
        function(leaf).sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)
