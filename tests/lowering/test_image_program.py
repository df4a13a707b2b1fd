"""Image programs on MAX: all small networks as one program, and single ones as users call them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.testing.image_networks import NETWORKS, All, make
from tests.testing.table import Compiled, Table

pytestmark = pytest.mark.xdist_group("image-program")
TABLE = Table()
MODELS = [make(name) for name in NETWORKS if name != "two phases"]
EVERYTHING = All([model for model, _ in MODELS]).eval()


def _without_grad(model: nn.Module):
    def run(*inputs: torch.Tensor):
        with torch.no_grad():
            return model(*inputs)

    return run


TABLE.rows["everything"] = (
    _without_grad(EVERYTHING),
    tuple(x for _, x in MODELS),
    {"dynamic": False},
)
POOLED = nn.Sequential(nn.Conv2d(3, 40, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)).eval()
IMAGE = torch.randn(1, 3, 16, 16)
TABLE.rows["pooled"] = (_without_grad(POOLED), (IMAGE,), {"dynamic": False})
LAST = IMAGE.contiguous(memory_format=torch.channels_last)
TABLE.rows["channels last"] = (_without_grad(POOLED), (LAST,), {"dynamic": False})


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compiled]:
    return TABLE.compile()


def test_every_network_is_right(compiled: dict[str, Compiled]) -> None:
    inputs = [torch.randn_like(x) for _, x in MODELS]
    expected = compiled["everything"].eager(*inputs)
    results = compiled["everything"](*inputs)
    names = [name for name in NETWORKS if name != "two phases"]
    for name, result, value in zip(names, results, expected, strict=True):
        torch.testing.assert_close(
            result, value, rtol=2e-5, atol=2e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_values_that_are_no_numbers(compiled: dict[str, Compiled], value: float) -> None:
    x = torch.randn(1, 3, 16, 16)
    x[0, 1, 3, 4] = value
    function = compiled["pooled"]
    torch.testing.assert_close(function(x), function.eager(x), equal_nan=True)


@pytest.mark.parametrize("name", ["pooled", "channels last"])
def test_other_weights(compiled: dict[str, Compiled], name: str) -> None:
    function = compiled[name]
    x = LAST if name == "channels last" else IMAGE
    torch.testing.assert_close(function(x), function.eager(x))
    with torch.no_grad():
        POOLED[0].weight.mul_(-1)
    torch.testing.assert_close(function(x), function.eager(x))
    POOLED[0].weight.data += 0.5
    torch.testing.assert_close(function(x), function.eager(x))


def test_results_are_not_the_memory_of_a_later_call(compiled: dict[str, Compiled]) -> None:
    function = compiled["pooled"]
    first, second = torch.randn(2, 1, 3, 16, 16)
    kept = function(first)
    copy = kept.clone()
    function(second)
    assert torch.equal(kept, copy)
