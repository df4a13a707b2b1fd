"""Interleaving slices that are concatenated: one permutation, with the same elements."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.testing.programs import op_names, outputs, program
from torch_max_backend.runtime.interpreter import interpreted

IMAGE = torch.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3)


def patches(x: torch.Tensor) -> torch.Tensor:
    """As Swin merges its patches: rows change first."""
    parts = [x[:, row::2, column::2, :] for column in range(2) for row in range(2)]
    return torch.cat(parts, -1)


def focus(x: torch.Tensor) -> torch.Tensor:
    """Space to depth, channels first."""
    return torch.cat([x[..., row::2, column::2] for row in range(2) for column in range(2)], 1)


def thirds(x: torch.Tensor) -> torch.Tensor:
    """One dim, another step, concatenated outside of it."""
    return torch.cat([x[:, :, start::3] for start in range(3)])


def three_dims(x: torch.Tensor) -> torch.Tensor:
    offsets = itertools.product(range(2), range(2), range(3))
    return torch.cat([x[a::2, b::2, c::3] for a, b, c in offsets], 3)


JOINED = ["aten.reshape.default", "aten.permute.default", "aten.reshape.default"]


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (patches, IMAGE),
        (patches, IMAGE.transpose(1, 2)),
        (focus, IMAGE.permute(0, 3, 1, 2)),
        (thirds, IMAGE),
        (three_dims, IMAGE),
    ],
)
def test_they_are_one_permutation_of_the_same_elements(function, x: torch.Tensor) -> None:
    found = program(outputs(function), x)
    assert op_names(found) == JOINED
    (result,) = interpreted(found)([x])
    assert torch.equal(result, function(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cat([x[:, 0::2], x[:, 0::2]], -1),  # an offset twice
        lambda x: torch.cat([x[:, 1::2], x[:, 0::2]], -1),  # in another order
        lambda x: torch.cat([x[:, 0::2], x[:, 1::2]], 1),  # along the sliced dim
        lambda x: torch.cat([x[:, 0::2], (x + 1)[:, 1::2]], -1),  # of two values
        lambda x: torch.cat([x[:, :2], x[:, 2:]], -1),  # halves
        lambda x: torch.cat([x[:, :, 0:5:2], x[:, :, 1:6:2], x[:, :, :3]], -1),
    ],
)
def test_other_slices_are_concatenated(function) -> None:
    found = op_names(program(outputs(function), IMAGE))
    assert "aten.cat.default" in found and "aten.permute.default" not in found


def test_a_size_that_is_no_multiple_of_the_step_is_kept() -> None:
    def odd(x):
        return torch.cat([x[:, :, 0:4:2], x[:, :, 1:5:2]], -1)

    assert "aten.cat.default" in op_names(program(outputs(odd), torch.randn(2, 4, 5, 3)))


def test_slices_that_something_else_reads_stay() -> None:
    def also(x):
        first, second = x[:, 0::2], x[:, 1::2]
        return [torch.cat([first, second], -1), first + 1]

    found = program(also, IMAGE)
    assert op_names(found).count("aten.slice.Tensor") == 1
    joined, other = interpreted(found)([IMAGE])
    expected, first = also(IMAGE)
    assert torch.equal(joined, expected) and torch.equal(other, first)
