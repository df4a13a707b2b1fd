"""The layout of a packed weight: panels of columns, zeros at the end, nothing lost."""

from __future__ import annotations

import pytest
import torch

from torch_max_backend.program.packed_layout import JoinedLayout, Layout


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


def test_a_bias_is_the_last_row_of_each_panel() -> None:
    weight, bias = torch.randn(20, 4), torch.randn(20)
    layout = Layout(4, 20, True, 16, biased=True)
    assert layout.source_shapes() == [(20, 4), (20,)]
    panels = layout.pack(weight, bias)
    assert panels.shape == layout.shape == (2, 5, 16)
    plain = Layout(4, 20, True, 16).pack(weight)
    assert panels[:, :4].equal(plain)
    assert panels[:, 4].flatten()[:20].equal(bias)
    assert not panels[1, 4, 4:].any()


def test_weights_one_after_the_other() -> None:
    parts = Layout(4, 20, True, 16), Layout(4, 33, False, 16)
    one, other = torch.randn(20, 4), torch.randn(4, 33)
    layout = JoinedLayout(parts)
    assert layout.source_shapes() == [(20, 4), (4, 33)]
    panels = layout.pack(one, other)
    assert panels.shape == layout.shape == (5, 4, 16)
    assert panels.equal(torch.cat([parts[0].pack(one), parts[1].pack(other)]))


def test_weights_whose_panels_take_turns() -> None:
    part = Layout(4, 20, True, 16, biased=True)
    sources = torch.randn(20, 4), torch.randn(20), torch.randn(20, 4), torch.randn(20)
    panels = JoinedLayout((part, part), alternating=True).pack(*sources)
    assert panels[::2].equal(part.pack(*sources[:2]))
    assert panels[1::2].equal(part.pack(*sources[2:]))
