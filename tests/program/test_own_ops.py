"""Ops of our own: what PyTorch computes for them, and the shapes that fake tensors have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from tests.testing.image_networks import one_convolution
from torch_max_backend.program import own_ops
from torch_max_backend.program.packed_layout import JoinedLayout, Layout
from torch_max_backend.program.update_program import (
    Instance,
    Kind,
    Line,
    Operand,
    Operation,
    encode,
)

OFFSETS = torch.tensor([2, 5])
WEIGHTS = [torch.randn(4, 8), torch.randn(1, 8), torch.randn(3, 8)]
MATRIX = torch.randn(8, 21)
ROW, ROWS = torch.randn(1, 8), torch.randn(6, 8)
LAYOUT = Layout(8, 21, False, 16)
PANELS = LAYOUT.pack(MATRIX)
BIASED = Layout(8, 21, False, 16, biased=True).pack(MATRIX, MATRIX[0])
IMAGE, FILTER = torch.randn(1, 4, 2, 3), torch.randn(5, 4, 1, 1)

CLASSES = torch.tensor([3, 0, -100, 20, 5, 5])
LOGITS = torch.randn(6, 21, requires_grad=True)


def entropy_gradient() -> torch.Tensor:
    """By autograd."""
    loss = functional.cross_entropy(LOGITS, CLASSES, reduction="sum")
    return torch.autograd.grad(3 * loss, LOGITS)[0]


def halved(places: list[int]) -> list[int]:
    """The code of an update that halves some tensors of six numbers."""
    to, half = Operand(Kind.TENSOR, 0), Operand(Kind.SCALAR, 0)
    scalars = (Line(Operation.COPY, half, *[Operand(Kind.CONSTANT, 0)] * 2),)
    vectors = (Line(Operation.MUL, to, to, half),)
    return encode([Instance(6, place, scalars, vectors) for place in places])


CASES: dict[str, tuple[tuple[Any, ...], Callable[[], Any]]] = {
    "cross_entropy_backward": (
        (torch.tensor(3.0), LOGITS.detach().log_softmax(1), CLASSES, None, 2, -100, torch.ones([])),
        entropy_gradient,
    ),
    "grouped_mm": (
        (ROWS, torch.stack([MATRIX, 2 * MATRIX]), OFFSETS, False),
        lambda: torch.cat([ROWS[:2] @ MATRIX, ROWS[2:5] @ (2 * MATRIX), torch.zeros(1, 21)]),
    ),
    "image_program": (
        one_convolution(IMAGE, FILTER),
        lambda: functional.conv2d(IMAGE, FILTER).relu().reshape(1, -1),
    ),
    "matvec": ((ROW, WEIGHTS[0]), lambda: functional.linear(ROW, WEIGHTS[0])),
    "matvec_gated": (
        (ROW, WEIGHTS[0], 2 * WEIGHTS[0], "silu"),
        lambda: functional.silu(ROW @ WEIGHTS[0].t()) * (ROW @ WEIGHTS[0].t()) * 2,
    ),
    "matvec_group": ((ROW, WEIGHTS, []), lambda: [ROW @ weight.t() for weight in WEIGHTS]),
    "packed_mm": ((ROWS, PANELS, 21), lambda: ROWS @ MATRIX),
    "packed_mm_gated": (
        (ROWS, JoinedLayout((LAYOUT, LAYOUT), True).pack(MATRIX, -MATRIX), 21, "gelu"),
        lambda: functional.gelu(ROWS @ MATRIX) * (ROWS @ -MATRIX),
    ),
    "packed_mm_group": (
        (ROWS, JoinedLayout((LAYOUT, LAYOUT)).pack(MATRIX, -MATRIX), [21, 20]),
        lambda: [ROWS @ MATRIX, ROWS @ -MATRIX[:, :20]],
    ),
    "product": ((ROWS, MATRIX), lambda: ROWS @ MATRIX),
    "rms_norm": (
        (ROWS, MATRIX[:, 0], 1e-5),
        lambda: functional.rms_norm(ROWS, [8], MATRIX[:, 0], 1e-5),
    ),
    "update": (
        ([ROWS[:, 0].clone(), ROWS[:, 1].clone(), ROWS[:, 2].clone()], [], halved([2, 0]), [0.5]),
        lambda: [ROWS[:, 2] / 2, ROWS[:, 0] / 2],
    ),
    "write_lines": (
        (ROWS, 0, torch.tensor([-1, 2]), 2 * ROWS[:2]),
        lambda: torch.cat([ROWS[:2], 2 * ROWS[1:2], ROWS[3:5], 2 * ROWS[:1]]),
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
    assert torch.utils._pytree.tree_map(_kind, traced) == torch.utils._pytree.tree_map(
        _kind, actual
    )


def _kind(tensor: torch.Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_a_product_reads_its_operands_as_they_are_stored(left: bool, right: bool) -> None:
    stored = ROWS.t() if left else ROWS, MATRIX.t() if right else MATRIX
    how = {"left_transposed": left, "right_transposed": right}
    found = own_ops.product(*stored, bias=MATRIX[0], **how)
    torch.testing.assert_close(found, ROWS @ MATRIX + MATRIX[0])


OTHER = torch.randn(6, 21)
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
}


@pytest.mark.parametrize("multiply", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_follows_a_product(activation: str, multiply: bool) -> None:
    active = ACTIVATIONS[activation](ROWS @ MATRIX + MATRIX[0])
    expected = active * OTHER if multiply else active + OTHER
    how = {"activation": activation, "multiply": multiply}
    found = own_ops.packed_mm(ROWS, BIASED, 21, other=OTHER, **how)
    torch.testing.assert_close(found, expected)
    weight = MATRIX.t().contiguous()
    row = own_ops.matvec(ROWS[:1], weight, bias=MATRIX[0], other=OTHER[:1], **how)
    torch.testing.assert_close(row, expected[:1])


def test_every_activation_is_here() -> None:
    assert list(ACTIVATIONS) == list(own_ops.ACTIVATIONS)


def test_groups_with_biases() -> None:
    biases = [torch.randn(len(weight)) for weight in WEIGHTS]
    pairs = zip(WEIGHTS, biases, strict=True)
    expected = [functional.linear(ROW, weight, bias) for weight, bias in pairs]
    torch.testing.assert_close(own_ops.matvec_group(ROW, WEIGHTS, biases), expected)


def test_transposed_matrices_of_groups() -> None:
    plain = own_ops.grouped_mm(ROWS, torch.stack([MATRIX, MATRIX]), OFFSETS, False)
    stored = torch.stack([MATRIX, MATRIX]).mT.contiguous()
    torch.testing.assert_close(own_ops.grouped_mm(ROWS, stored, OFFSETS, True), plain)
    with FakeTensorMode() as mode:
        fake = map(mode.from_tensor, (ROWS, stored, OFFSETS))
        assert own_ops.grouped_mm(*fake, True).shape == plain.shape


def test_rms_norm_without_a_weight() -> None:
    expected = functional.rms_norm(ROWS, [8], None, 1e-5)
    torch.testing.assert_close(own_ops.rms_norm(ROWS, None, 1e-5), expected)
