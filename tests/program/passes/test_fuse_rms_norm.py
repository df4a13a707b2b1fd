"""RMS norm: found as models write it, left alone where it differs."""

from __future__ import annotations

import pytest
import torch

from tests.testing.programs import op_names, outputs, program

X, WEIGHT = torch.randn(2, 3, 8), torch.randn(8)
RMS_NORM = "torch_max_backend.rms_norm.default"


def ops_of(function, *args: torch.Tensor) -> list[str]:
    return op_names(program(outputs(function), *args))


def llama_norm(x, weight, eps=1e-6):
    variance = x.pow(2).mean(-1, keepdim=True)
    return weight * (x * torch.rsqrt(variance + eps))


def squares_norm(x, weight):
    return torch.rsqrt((x * x).mean(2, keepdim=True) + 1e-6) * x * weight


@pytest.mark.parametrize("norm", [llama_norm, squares_norm])
def test_rms_norm_is_one_op(norm) -> None:
    assert ops_of(norm, X, WEIGHT) == [RMS_NORM]


@pytest.mark.parametrize("weight", [torch.randn(3, 8), torch.randn(1), torch.randn(8).double()])
def test_another_weight_stays_outside(weight: torch.Tensor) -> None:
    assert ops_of(llama_norm, X, weight) == [RMS_NORM, "aten.mul.Tensor"]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (llama_norm, (X.half(), WEIGHT.half())),
        (lambda x, y: y * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6), (X, X + 1)),
        (lambda x: x * torch.rsqrt(x.pow(2).mean(1, True) + 1e-6), (X,)),
        (lambda x: x * torch.rsqrt(x.pow(3).mean(-1, True) + 1e-6), (X,)),
        (lambda x: x * torch.rsqrt(x.pow(2).mean([-1, -2], True) + 1e-6), (X,)),
    ],
)
def test_what_differs_is_left_alone(function, args) -> None:
    assert RMS_NORM not in ops_of(function, *args)


def test_a_sum_of_squares_that_is_read_elsewhere_is_kept() -> None:
    def both(x):
        mean = x.pow(2).mean(-1, True)
        return [x * torch.rsqrt(mean + 1e-6), mean]

    found = op_names(program(both, X))
    assert found == ["aten.pow.Tensor_Scalar", "aten.mean.dim", RMS_NORM]
