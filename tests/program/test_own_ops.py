"""Ops of our own: what PyTorch computes for them, and the shapes that fake tensors have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.testing.image_networks import one_convolution
from torch_max_backend.program import own_ops
from torch_max_backend.program.packed_layout import Layout

OFFSETS = torch.tensor([2, 5])
WEIGHTS = [torch.randn(4, 8), torch.randn(1, 8), torch.randn(3, 8)]
MATRIX = torch.randn(8, 21)
ROW, ROWS = torch.randn(1, 8), torch.randn(6, 8)
IMAGE, FILTER = torch.randn(1, 4, 2, 3), torch.randn(5, 4, 1, 1)

CASES: dict[str, tuple[tuple[Any, ...], Callable[[], torch.Tensor]]] = {
    "grouped_mm": (
        (ROWS, torch.stack([MATRIX, 2 * MATRIX]), OFFSETS, False),
        lambda: torch.cat([ROWS[:2] @ MATRIX, ROWS[2:5] @ (2 * MATRIX), torch.zeros(1, 21)]),
    ),
    "image_program": (
        one_convolution(IMAGE, FILTER),
        lambda: torch.nn.functional.conv2d(IMAGE, FILTER).relu().flatten(),
    ),
    "matvec": ((ROW, WEIGHTS[0]), lambda: torch.nn.functional.linear(ROW, WEIGHTS[0])),
    "matvec_group": (
        (ROW, WEIGHTS),
        lambda: torch.nn.functional.linear(ROW, torch.cat(WEIGHTS)),
    ),
    "packed_mm": ((ROWS, Layout(8, 21, False, 16).pack(MATRIX), 21), lambda: ROWS @ MATRIX),
    "rms_norm": (
        (ROWS, MATRIX[:, 0], 1e-5),
        lambda: torch.nn.functional.rms_norm(ROWS, [8], MATRIX[:, 0], 1e-5),
    ),
}


def test_every_op_is_here() -> None:
    schemas = (name for name in torch._C._dispatch_get_all_op_names())
    ours = {name for name in schemas if name.startswith("torch_max_backend::")}
    assert ours == {f"torch_max_backend::{name}" for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_values_and_shapes(name: str) -> None:
    arguments, expected = CASES[name]
    op = getattr(own_ops, name)
    actual = op(*arguments)
    torch.testing.assert_close(actual, expected())
    with FakeTensorMode() as mode:
        fake = torch.utils._pytree.tree_map_only(torch.Tensor, mode.from_tensor, arguments)
        traced = op(*fake)
    assert (traced.shape, traced.dtype) == (actual.shape, actual.dtype)


def test_transposed_matrices_of_groups() -> None:
    plain = own_ops.grouped_mm(ROWS, torch.stack([MATRIX, MATRIX]), OFFSETS, False)
    stored = torch.stack([MATRIX, MATRIX]).mT.contiguous()
    torch.testing.assert_close(own_ops.grouped_mm(ROWS, stored, OFFSETS, True), plain)
    with FakeTensorMode() as mode:
        fake = map(mode.from_tensor, (ROWS, stored, OFFSETS))
        assert own_ops.grouped_mm(*fake, True).shape == plain.shape


def test_rms_norm_without_a_weight() -> None:
    expected = torch.nn.functional.rms_norm(ROWS, [8], None, 1e-5)
    torch.testing.assert_close(own_ops.rms_norm(ROWS, None, 1e-5), expected)
