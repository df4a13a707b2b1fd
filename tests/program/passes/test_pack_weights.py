"""Packed weights: which products take panels, which stream the weight, which stay as they are."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tests.testing.programs import op_names, outputs, program
from torch_max_backend.flags import Options
from torch_max_backend.program import Kind
from torch_max_backend.program.passes.pack_weights import panel_columns

X, WEIGHT, BIAS = torch.randn(5, 8), torch.randn(6, 8), torch.randn(6)
PACKED, MATVEC = "torch_max_backend.packed_mm.default", "torch_max_backend.matvec.default"


def test_a_linear_takes_panels_with_its_bias() -> None:
    packed = program(outputs(functional.linear), X, WEIGHT, BIAS, static=(1, 2))
    assert op_names(packed) == [PACKED]
    (item,) = packed.packed
    assert (packed.inputs[1].name, packed.inputs[2].name) == item.sources
    layout = item.layout
    assert (layout.k, layout.n, layout.transposed, layout.biased) == (8, 6, True, True)
    assert item.spec.shape == (-(-6 // panel_columns()), 9, panel_columns())


@pytest.mark.parametrize("bias", [BIAS, torch.randn(1, 6), torch.randn(5, 1)])
def test_another_bias_is_added_after_the_product(bias: torch.Tensor) -> None:
    # Not a parameter, or not one number per column.
    static = (1,) if bias is BIAS else (1, 2)
    packed = program(
        outputs(lambda x, weight, bias: torch.addmm(bias, x, weight.t())),
        X,
        WEIGHT,
        bias,
        static=static,
    )
    assert op_names(packed) == [PACKED, "aten.add.Tensor"]
    assert not packed.packed[0].layout.biased


def test_one_row_adds_any_bias_of_its_columns() -> None:
    packed = program(outputs(functional.linear), X[:1], WEIGHT, BIAS, static=(1,))
    assert op_names(packed) == [MATVEC]
    assert set(packed.calls[0].kwargs) == {"bias"}


def test_a_weight_that_is_not_transposed() -> None:
    packed = program(outputs(torch.mm), X, WEIGHT.t().contiguous(), static=(1,))
    assert op_names(packed) == [PACKED]
    assert not packed.packed[0].layout.transposed


def test_one_layout_is_packed_once() -> None:
    packed = program(lambda x, w: [x @ w, (x + 1) @ w], X, torch.randn(8, 6), static=(1,))
    assert op_names(packed).count(PACKED) == 2
    assert len(packed.packed) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_one_row_streams_a_transposed_weight(dtype: torch.dtype) -> None:
    packed = program(outputs(functional.linear), X[:1].to(dtype), WEIGHT.to(dtype), static=(1,))
    assert op_names(packed) == [MATVEC]
    assert not packed.packed


def test_a_row_that_is_one_of_several_results() -> None:
    def project(x, weight):
        return [functional.linear(x.split(1)[1], weight)]

    packed = program(project, torch.randn(2, 8), WEIGHT, static=(1,))
    assert op_names(packed)[-1] == MATVEC


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (torch.mm, (X.double(), WEIGHT.t().contiguous().double())),
        (torch.mm, (X[:0], WEIGHT.t().contiguous())),
        (torch.mm, (X.bfloat16(), WEIGHT.t().contiguous().bfloat16())),
        (lambda x, w: torch.addmm(x, x, w, beta=2), (torch.randn(8, 8), torch.randn(8, 8))),
    ],
)
def test_what_is_left_alone(function, args) -> None:
    packed = program(outputs(function), *args, static=(1,))
    assert not packed.packed and PACKED not in op_names(packed)


@pytest.mark.parametrize(
    ("static", "kind", "options"),
    [
        ((), Kind.INFERENCE, Options()),
        ((1,), Kind.FORWARD, Options()),
        ((1,), Kind.INFERENCE, Options(pack_weights=False)),
    ],
)
def test_only_parameters_of_inference_graphs_are_packed(static, kind, options) -> None:
    packed = program(
        outputs(functional.linear), X, WEIGHT, static=static, kind=kind, options=options
    )
    assert not packed.packed and "torch_max_backend.product.default" in op_names(packed)
