"""Constant folding: what depends on no argument is computed while compiling, and only that."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from tests.testing.graph_of_call import OpCall, lowered
from tests.testing.programs import op_names, outputs, program, program_of
from torch_max_backend.lowering.registry import decomposition_table


def test_a_mask_is_computed_once() -> None:
    def attend(x):
        row = torch.arange(4).unsqueeze(1)
        return torch.where(row >= torch.arange(4), x, 0.0)

    folded = program(outputs(attend), torch.randn(4, 4))
    assert [tuple(value.shape) for value in folded.captured] == [(4, 4)]
    torch.testing.assert_close(folded.captured[0], torch.ones(4, 4).tril().bool())
    assert "aten.arange.default" not in op_names(folded)


def test_a_number_stays_a_constant_of_the_graph() -> None:
    folded = program(outputs(lambda x: x + torch.full((4,), 2.0)), torch.randn(4))
    assert not folded.captured and "aten.full.default" in op_names(folded)


def test_random_numbers_are_not_constants() -> None:
    folded = program(outputs(lambda x: x + torch.rand(4) * 2), torch.randn(4))
    assert not folded.captured and "aten.rand.default" in op_names(folded)


def test_a_part_of_uninitialised_memory_is_zeros() -> None:
    # MAX would compile a program of its own to fold the slice: 30 s for `pad(mode="circular")`.
    folded = program(outputs(lambda x: x + torch.empty(4)[1:3]), torch.randn(2))
    torch.testing.assert_close(folded.captured, [torch.zeros(2)])


def test_a_number_that_would_be_cut_to_pieces_is_a_tensor() -> None:
    def padded(x):
        return functional.pad(x, (1, 2), mode="circular")

    gm, _ = OpCall(padded, (torch.randn(2, 3, 3),), {}).trace(decomposition_table())
    folded = program_of(gm)
    assert any(torch.equal(value, torch.zeros(2, 3, 6)) for value in folded.captured)


def test_a_constant_result_is_returned() -> None:
    folded = program(lambda x: [x + 1, torch.arange(3) * 2], torch.randn(4))
    torch.testing.assert_close(folded.captured[0], torch.tensor([0, 2, 4]))


def test_what_depends_on_an_argument_stays() -> None:
    folded = program(outputs(lambda x: (x + 1) * 2), torch.randn(4))
    assert not folded.captured and len(folded.calls) == 2


def batch_norm(x: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(x, torch.zeros(3), torch.ones(3), training=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / 3,
        lambda x: x.mean(1),
        lambda x: x.var(1),
        lambda x: x.round(decimals=2),
        lambda x: torch.func.grad(lambda x: functional.group_norm(x, 1).square().sum())(x),
        batch_norm,
    ],
)
def test_max_divides_nothing(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """MAX compiles a program of its own for each number that it divides by."""
    text = str(lowered(OpCall(function, (torch.randn(5, 3),), {})).mlir_module)
    assert "tmb_divide" in text and "mo.div" not in text
