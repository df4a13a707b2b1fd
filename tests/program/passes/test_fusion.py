"""Compositions that are one kernel: found as models write them, left alone where they differ."""

from __future__ import annotations

import math

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from torch_max_backend.frontend.fx_importer import import_fx
from torch_max_backend.program.passes.fusion import fuse
from torch_max_backend.program.passes.pack_weights import pack_weights

X, WEIGHT = torch.randn(2, 3, 8), torch.randn(8)


def ops_of(function, *args: torch.Tensor) -> list[str]:
    graph = make_fx(lambda *args: [function(*args)], tracing_mode="fake")(*args)
    return [str(call.op) for call in fuse(import_fx(graph)).calls]


def llama_norm(x, weight, eps=1e-6):
    variance = x.pow(2).mean(-1, keepdim=True)
    return weight * (x * torch.rsqrt(variance + eps))


def squares_norm(x, weight):
    return torch.rsqrt((x * x).mean(2, keepdim=True) + 1e-6) * x * weight


def gpt2_gelu(x, factor=0.044715):
    inner = math.sqrt(2.0 / math.pi) * (x + factor * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


@pytest.mark.parametrize("norm", [llama_norm, squares_norm])
def test_rms_norm_is_one_op(norm) -> None:
    assert ops_of(norm, X, WEIGHT) == ["torch_max_backend.rms_norm.default"]


def test_a_weight_of_another_shape_stays_outside() -> None:
    found = ops_of(llama_norm, X, torch.randn(3, 8))
    assert found == ["torch_max_backend.rms_norm.default", "aten.mul.Tensor"]


def test_gelu_is_one_op() -> None:
    assert ops_of(gpt2_gelu, X) == ["aten.gelu.default"]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: gpt2_gelu(x, 0.05), (X,)),
        (gpt2_gelu, (X.half(),)),
        (lambda x, y: y * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6), (X, X + 1)),
        (lambda x: x * torch.rsqrt(x.pow(2).mean(1, True) + 1e-6), (X,)),
        (lambda x: x * torch.rsqrt(x.pow(3).mean(-1, True) + 1e-6), (X,)),
    ],
)
def test_what_differs_is_left_alone(function, args) -> None:
    found = ops_of(function, *args)
    assert not {"aten.gelu.default", "torch_max_backend.rms_norm.default"} & set(found)


def test_products_of_one_row_are_one_op() -> None:
    def project(x, *weights):
        return [torch.mm(x.view(1, 8), weight.t()) for weight in weights]

    weights = [torch.randn(n, 8) for n in (4, 2, 6, 3, 5, 7, 1)]
    graph = make_fx(project, tracing_mode="fake")(torch.randn(8), *weights)
    packed = pack_weights(import_fx(graph, range(1, 8)))
    found = [str(call.op).removeprefix("torch_max_backend.") for call in packed.calls]
    assert found.count("matvec_group.default") == 2  # of three each
    assert found.count("matvec.default") == 1
    slices = [call.args[2:] for call in packed.calls if call.op is torch.ops.aten.slice.Tensor]
    assert slices == [(0, 4), (4, 6), (6, 12), (0, 3), (3, 8), (8, 15)]
