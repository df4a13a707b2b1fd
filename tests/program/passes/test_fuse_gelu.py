"""GELU by tanh: found as models write it, left alone where it differs."""

from __future__ import annotations

import math

import pytest
import torch

from tests.testing.programs import op_names, outputs, program

X = torch.randn(2, 3, 8)


def gpt2_gelu(x, factor=0.044715):
    inner = math.sqrt(2.0 / math.pi) * (x + factor * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def turned_gelu(x):
    inner = (torch.pow(x, 3) * 0.044715 + x) * math.sqrt(2.0 / math.pi)
    return (torch.tanh(inner) + 1) * (x * 0.5)


@pytest.mark.parametrize("gelu", [gpt2_gelu, turned_gelu])
def test_gelu_is_one_op(gelu) -> None:
    fused = program(outputs(gelu), X)
    assert op_names(fused) == ["aten.gelu.default"]
    assert fused.calls[0].kwargs == {"approximate": "tanh"}


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: gpt2_gelu(x, 0.05), X),
        (gpt2_gelu, X.half()),
        (lambda x: 0.5 * x * (1 + torch.tanh(0.7 * (x + 0.044715 * x**3))), X),
        (lambda x: 0.4 * x * (1 + torch.tanh(x)), X),
    ],
)
def test_what_differs_is_left_alone(function, x: torch.Tensor) -> None:
    found = op_names(program(outputs(function), x))
    assert "aten.tanh.default" in found and "aten.gelu.default" not in found
