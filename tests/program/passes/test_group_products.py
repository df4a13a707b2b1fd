"""Products of the same rows with several weights: one kernel, gated or for up to three of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from tests.testing.programs import op_names, outputs, program
from torch_max_backend.program.passes.pack_weights import panel_columns

aten = torch.ops.aten
GATED, GROUP = "torch_max_backend.matvec_gated.default", "torch_max_backend.matvec_group.default"
MATVEC, PACKED = "torch_max_backend.matvec.default", "torch_max_backend.packed_mm.default"
PACKED_GROUP = "torch_max_backend.packed_mm_group.default"
PACKED_GATED = "torch_max_backend.packed_mm_gated.default"
WIDE = panel_columns()


def without_views(found: list[str]) -> list[str]:
    return [name for name in found if "view" not in name]


def test_products_of_one_row_are_one_op() -> None:
    def project(x, *weights):
        return [torch.mm(x.view(1, 8), weight.t()) for weight in weights]

    weights = [torch.randn(n, 8) for n in (4, 2, 6, 3, 5, 7, 1)]
    grouped = program(project, torch.randn(8), *weights, static=range(1, 8))
    found = op_names(grouped)
    assert found.count(GROUP) == 2  # of three each
    assert found.count(MATVEC) == 1
    widths = [[spec.shape[1] for spec in call.outputs] for call in grouped.calls if not call.single]
    assert widths == [[4, 2, 6], [3, 5, 7]]


@pytest.mark.parametrize("rows", [1, 4])
def test_other_rows_are_not_grouped(rows: int) -> None:
    def project(x, y, one, other):
        return [functional.linear(x, one), functional.linear(y, other)]

    args = [torch.randn(rows, 8) for _ in range(2)], [torch.randn(4, 8) for _ in range(2)]
    found = op_names(program(project, *args[0], *args[1], static=(2, 3)))
    assert found == [MATVEC if rows == 1 else PACKED] * 2


def test_products_of_many_rows_share_their_panels() -> None:
    def project(x, *weights):
        return [functional.linear(x, weight) for weight in weights]

    weights = [torch.randn(n, 8) for n in (40, 5, 64)]
    grouped = program(project, torch.randn(2, 3, 8), *weights, static=(1, 2, 3))
    assert without_views(op_names(grouped)) == [PACKED_GROUP]
    (item,) = grouped.packed
    assert [part.n for part in item.layout.parts] == [40, 5, 64]
    assert len(item.sources) == 3


@pytest.mark.parametrize("rows", [1, 4])
def test_products_with_biases_are_grouped(rows: int) -> None:
    def project(x, one, other, first, second):
        return [functional.linear(x, one, first), functional.linear(x, other, second)]

    tensors = torch.randn(6, 8), torch.randn(9, 8), torch.randn(6), torch.randn(9)
    grouped = program(project, torch.randn(rows, 8), *tensors, static=range(1, 5))
    assert op_names(grouped) == [GROUP if rows == 1 else PACKED_GROUP]
    if rows > 1:
        assert len(grouped.packed[0].sources) == 4
    else:
        assert len(grouped.calls[0].args[2]) == 2


@pytest.mark.parametrize("rows", [1, 4])
def test_a_bias_on_one_side_only(rows: int) -> None:
    def project(x, one, other, bias):
        return [functional.linear(x, one, bias), functional.linear(x, other)]

    tensors = torch.randn(6, 8), torch.randn(6, 8), torch.randn(6)
    found = op_names(program(project, torch.randn(rows, 8), *tensors, static=range(1, 4)))
    assert found == [MATVEC if rows == 1 else PACKED] * 2


def _gated(activation: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda x, gate, up: activation(functional.linear(x, gate)) * functional.linear(x, up)


@pytest.mark.parametrize("activation", [functional.silu, functional.gelu, torch.relu])
@pytest.mark.parametrize("rows", [1, 4])
def test_gate_and_up_are_one_op(rows: int, activation: Callable[..., torch.Tensor]) -> None:
    weights = torch.randn(6, 8), torch.randn(6, 8)
    args = torch.randn(1, rows, 8), *weights
    found = program(outputs(_gated(activation)), *args, static=(1, 2))
    assert without_views(op_names(found)) == [GATED if rows == 1 else PACKED_GATED]
    if rows > 1:
        (item,) = found.packed
        assert item.layout.alternating and len(item.sources) == 2


def test_a_gate_that_is_read_elsewhere_is_kept() -> None:
    def mlp(x, gate, up):
        active = functional.silu(functional.linear(x, gate))
        return [active * functional.linear(x, up), active]

    found = program(mlp, torch.randn(4, 8), torch.randn(6, 8), torch.randn(6, 8), static=(1, 2))
    assert op_names(found) == [PACKED_GROUP, "aten.silu.default", "aten.mul.Tensor"]


def test_a_gate_that_is_broadcast_is_kept() -> None:
    args = torch.randn(4, 8), torch.randn(1, 8), torch.randn(6, 8)
    found = op_names(program(outputs(_gated(functional.silu)), *args, static=(1, 2)))
    assert PACKED_GATED not in found and "aten.mul.Tensor" in found


def test_16_bits_are_rounded_before_the_gate() -> None:
    args = [torch.randn(*shape).bfloat16() for shape in ((1, 8), (6, 8), (6, 8))]
    found = op_names(program(outputs(_gated(functional.silu)), *args, static=(1, 2)))
    assert found == [GROUP, "aten.silu.default", "aten.mul.Tensor"]


def _split(x, weight, bias, parts):
    return list(torch.addmm(bias, x, weight).view(2, 2, -1).split(parts, -1))


@pytest.mark.parametrize(
    ("parts", "op"),
    [
        ([WIDE, WIDE, 2 * WIDE], PACKED_GROUP),
        ([WIDE, 2 * WIDE, WIDE // 2], PACKED_GROUP),
        ([WIDE, WIDE // 2, WIDE], PACKED),
        ([WIDE] * 4, PACKED),
    ],
)
def test_a_split_of_a_product_is_stored_in_parts(parts: list[int], op: str) -> None:
    n = sum(parts)
    args = torch.randn(4, 8), torch.randn(8, n), torch.randn(n)
    found = program(lambda *args: _split(*args, parts), *args, static=(1, 2))
    assert op in op_names(found)
    assert ("split" in " ".join(op_names(found))) == (op == PACKED)
    assert len(found.packed) == 1


def test_a_product_that_is_also_read_whole_is_not_split() -> None:
    def both(x, weight):
        product = x @ weight
        return [*product.split(WIDE, 1), product]

    found = op_names(program(both, torch.randn(4, 8), torch.randn(8, 2 * WIDE), static=(1,)))
    assert found[0] == PACKED and PACKED_GROUP not in found
