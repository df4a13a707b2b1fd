"""Image programs on MAX: all small networks as one program, and single ones as users call them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.testing.image_networks import NETWORKS, All, make, one_convolution
from tests.testing.joined import joined
from tests.testing.table import Compiled, Table
from torch_max_backend import compile_stats
from torch_max_backend.program import image_program, own_ops

pytestmark = joined("others")
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
SWISH = nn.Sequential(nn.Conv2d(3, 40, 1), nn.SiLU(), nn.Conv2d(40, 33, 1), nn.Hardswish()).eval()
TABLE.rows["swish"] = (_without_grad(SWISH), (IMAGE,), {"dynamic": False})


MANY = nn.Sequential(
    nn.Conv2d(20, 40, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(40, 17, 1)
).eval()
IMAGES = torch.randn(3, 20, 24, 25)
torch._dynamo.mark_dynamic(IMAGES, 0)
TABLE.rows["any batch"] = (_without_grad(MANY), (IMAGES,), {})
TIMED = one_convolution(torch.randn(2, 30, 40, 7), torch.randn(21, 30, 1, 1))


@TABLE.add(TIMED[0], TIMED[1], dynamic=False)
def timed(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    program, outputs = image_program.timed(TIMED[2], TIMED[6])
    return own_ops.image_program(x, weights, program, *TIMED[3:6], outputs, TIMED[7])


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


@pytest.mark.parametrize("name", ["pooled", "swish"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e4, -1e4])
def test_values_that_are_no_numbers(compiled: dict[str, Compiled], value: float, name: str) -> None:
    x = torch.randn(1, 3, 16, 16)
    x[0, 1, 3, 4] = value
    function = compiled[name]
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


def test_instructions_are_timed(compiled: dict[str, Compiled]) -> None:
    result = compiled["timed"](TIMED[0], TIMED[1])
    values, times = result[:, : TIMED[6]], result[0, TIMED[6] :]
    torch.testing.assert_close(values, own_ops.image_program(*TIMED))
    assert times.shape == (3,) and times.min() >= 0 and times.sum() > 0


@pytest.mark.parametrize("images", [2, 3, 8])
def test_any_number_of_images(compiled: dict[str, Compiled], images: int) -> None:
    function = compiled["any batch"]
    x = torch.randn(images, *IMAGES.shape[1:])
    before = compile_stats()["graphs"]
    torch.testing.assert_close(function(x), function.eager(x), rtol=1e-5, atol=1e-5)
    assert compile_stats()["graphs"] == before, "it was compiled again"
