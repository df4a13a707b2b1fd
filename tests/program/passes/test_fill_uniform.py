"""Uniform tensors: what is one number everywhere, or has no elements, is a call of `full`."""

from __future__ import annotations

import torch

from tests.testing.programs import op_names, outputs, program


def test_uninitialised_memory_is_not_kept() -> None:
    folded = program(outputs(lambda x: x + torch.empty(4)), torch.randn(4))
    assert not folded.captured


def test_what_has_no_elements_is_computed_from_nothing() -> None:
    def both(x):
        values, places = x[:0].exp().max(1)
        return [values, places, torch.cat([x, x[2:2]])]

    folded = program(both, torch.randn(4, 3))
    full = "aten.full.default"
    assert op_names(folded) == [full, full, full, "aten.cat.default"]


def test_an_empty_argument_is_a_constant() -> None:
    folded = program(lambda x: [x.sum() + 1, *x.new_ones(2).max(0)], torch.randn(0, 3))
    assert not folded.calls
    torch.testing.assert_close(
        folded.captured, [torch.tensor(1.0), torch.tensor(1.0), torch.tensor(0)]
    )


def test_an_argument_that_gives_its_shape_alone_is_not_read() -> None:
    folded = program(lambda x: [torch.zeros_like(x), x.new_full([2], 3)], torch.randn(4))
    assert [(call.op, call.args) for call in folded.calls] == [
        (torch.ops.aten.full.default, ([4], 0)),
        (torch.ops.aten.full.default, ([2], 3)),
    ]
