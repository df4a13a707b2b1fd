"""What follows a product: which activations, sums and products become part of it."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.testing.programs import op_names, outputs, program
from torch_max_backend.program import Kind, Program

X, WEIGHT, BIAS = torch.randn(2, 3, 8), torch.randn(6, 8), torch.randn(6)
ROW = torch.randn(1, 1, 8)
PACKED, MATVEC = "torch_max_backend.packed_mm.default", "torch_max_backend.matvec.default"


def _only(found: Program) -> dict[str, object]:
    """What follows the one product of a program that computes nothing else."""
    names = [name for name in op_names(found) if "view" not in name]
    assert names in ([PACKED], [MATVEC])
    (product,) = (call for call in found.calls if str(call.op) == names[0])
    return product.kwargs


ACTIVATIONS = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("x", [X, ROW], ids=["rows", "row"])
def test_an_activation(x: torch.Tensor, activation: str) -> None:
    def layer(x, weight, bias):
        return ACTIVATIONS[activation](functional.linear(x, weight, bias))

    found = _only(program(outputs(layer), x, WEIGHT, BIAS, static=(1, 2)))
    assert found["activation"] == activation and "other" not in found


@pytest.mark.parametrize("x", [X, ROW], ids=["rows", "row"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_residual_sum(x: torch.Tensor, swapped: bool) -> None:
    def layer(x, residual, weight, bias):
        product = functional.linear(x, weight, bias)
        return residual + product if swapped else product + residual

    residual = torch.randn(*x.shape[:-1], 6)
    found = _only(program(outputs(layer), x, residual, WEIGHT, BIAS, static=(2, 3)))
    assert "other" in found and "multiply" not in found and "activation" not in found


def test_a_residual_sum_behind_a_dropout() -> None:
    def layer(x, residual, weight, bias):
        return torch.dropout(functional.linear(x, weight, bias), 0.1, train=False) + residual

    residual = torch.randn(2, 3, 6)
    found = _only(program(outputs(layer), X, residual, WEIGHT, BIAS, static=(2, 3)))
    assert "other" in found


def test_an_activation_and_a_product() -> None:
    def layer(x, other, weight):
        return functional.silu(functional.linear(x, weight)) * other

    found = _only(program(outputs(layer), X, torch.randn(2, 3, 6), WEIGHT, static=(2,)))
    assert found["activation"] == "silu" and found["multiply"] is True


def test_one_of_each_is_taken() -> None:
    def layer(x, other, weight):
        return torch.relu(functional.gelu(functional.linear(x, weight)) + other) + other

    found = op_names(program(outputs(layer), X, torch.randn(2, 3, 6), WEIGHT, static=(2,)))
    assert [name for name in found if "view" not in name] == [
        PACKED,
        "aten.relu.default",
        "aten.add.Tensor",
    ]


def test_a_sum_of_two_products() -> None:
    def layer(x, y, one, other):
        return functional.linear(x, one) + functional.linear(y, other)

    found = program(outputs(layer), X, torch.randn(2, 3, 8), WEIGHT, WEIGHT + 1, static=(2, 3))
    names = [name for name in op_names(found) if "view" not in name]
    assert names == [PACKED, PACKED]


def _broadcast(x, weight, other):
    return functional.linear(x, weight) + other


@pytest.mark.parametrize("shape", [(6,), (3, 6), (1, 3, 6), (4, 2, 3, 6), (2, 3, 1)])
def test_what_is_broadcast_is_left_alone(shape: tuple[int, ...]) -> None:
    found = op_names(program(outputs(_broadcast), X, WEIGHT, torch.randn(shape), static=(1,)))
    assert found[-1] == "aten.add.Tensor"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: [torch.relu(functional.linear(x, w)), functional.linear(x, w)],
        lambda x, w: [functional.linear(x, w).transpose(0, 1).relu()],
        lambda x, w: [functional.linear(x, w)[..., :3].relu()],
        lambda x, w: [torch.add(functional.linear(x, w), functional.linear(x, w), alpha=2)],
        lambda x, w: [torch.tanh(functional.linear(x, w))],
    ],
)
def test_what_is_left_alone(function) -> None:
    def twice(x, weight):
        results = function(x, weight)
        return [*results, *(result + 1 for result in results)]

    found = program(twice, X, WEIGHT, static=(1,))
    products = [call for call in found.calls if "torch_max_backend" in str(call.op)]
    assert products and not any(call.kwargs for call in products)


def test_a_value_that_is_read_twice_is_stored() -> None:
    def layer(x, weight):
        product = functional.linear(x, weight)
        return [torch.relu(product) + product]

    names = op_names(program(layer, X, WEIGHT, static=(1,)))
    assert names[-2:] == ["aten.relu.default", "aten.add.Tensor"]


def test_16_bits_are_rounded_in_between() -> None:
    def layer(x, weight):
        return torch.relu(functional.linear(x, weight))

    args = ROW.bfloat16(), WEIGHT.bfloat16()
    names = op_names(program(outputs(layer), *args, static=(1,)))
    assert MATVEC in names and "aten.relu.default" in names


def test_training_keeps_what_the_backward_reads() -> None:
    def layer(x, weight):
        return torch.relu(functional.linear(x, weight))

    names = op_names(program(outputs(layer), X, WEIGHT, static=(1,), kind=Kind.FORWARD))
    assert "aten.relu.default" in names and "torch_max_backend.product.default" in names
