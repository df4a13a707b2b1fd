"""The layout of a packed weight: panels of columns, zeros at the end, nothing lost."""

from __future__ import annotations

import pytest
import torch

from torch_max_backend.program.packed_layout import Layout


@pytest.mark.parametrize("columns", [16, 32])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (7, 32), (300, 70), (5000, 3)])
def test_packing_loses_nothing(k: int, n: int, transposed: bool, columns: int) -> None:
    weight = torch.randn(n, k) if transposed else torch.randn(k, n)
    layout = Layout(k, n, transposed, columns)
    panels = layout.pack(weight)
    assert panels.shape == layout.shape == (-(-n // columns), k, columns)
    matrix = panels.transpose(0, 1).reshape(k, -1)
    assert matrix[:, :n].equal(weight.t() if transposed else weight)
    assert not matrix[:, n:].any()


def test_a_parameter_is_packed_without_its_gradient() -> None:
    weight = torch.nn.Parameter(torch.randn(4, 5))
    packed = Layout(4, 5, False, 16).pack(weight)
    assert not packed.requires_grad and packed.data_ptr() != weight.data_ptr()
