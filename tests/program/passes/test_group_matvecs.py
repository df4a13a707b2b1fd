"""Products of one row with several weights: one kernel for up to three of one dtype."""

from __future__ import annotations

import torch
from torch.nn import functional

from tests.testing.programs import op_names, program

GROUP, MATVEC = "torch_max_backend.matvec_group.default", "torch_max_backend.matvec.default"


def test_products_of_one_row_are_one_op() -> None:
    def project(x, *weights):
        return [torch.mm(x.view(1, 8), weight.t()) for weight in weights]

    weights = [torch.randn(n, 8) for n in (4, 2, 6, 3, 5, 7, 1)]
    grouped = program(project, torch.randn(8), *weights, static=range(1, 8))
    found = op_names(grouped)
    assert found.count(GROUP) == 2  # of three each
    assert found.count(MATVEC) == 1
    slices = [call.args[2:] for call in grouped.calls if call.op is torch.ops.aten.slice.Tensor]
    assert slices == [(0, 4), (4, 6), (6, 12), (0, 3), (3, 8), (8, 15)]


def test_other_rows_are_not_grouped() -> None:
    def project(x, y, one, other):
        return [functional.linear(x, one), functional.linear(y, other)]

    rows, weights = [torch.randn(1, 8) for _ in range(2)], [torch.randn(4, 8) for _ in range(2)]
    assert op_names(program(project, *rows, *weights, static=(2, 3))) == [MATVEC, MATVEC]
