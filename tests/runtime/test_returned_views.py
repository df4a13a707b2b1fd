"""Views that are put into the results of a call."""

from __future__ import annotations

import sympy
import torch

from torch_max_backend.program import ReturnedView, TensorInput, TensorSpec
from torch_max_backend.runtime.returned_views import view_restorer, with_views

S = sympy.Symbol("s0", integer=True)
INPUTS = [TensorInput("x", TensorSpec((S, 4), torch.float32, torch.device("cpu")))]
HALF = ReturnedView("x", (S - S // 2, 4), (4, 1), 4 * (S // 2))


def test_a_view_of_an_argument() -> None:
    for count in (6, 3):
        x = torch.arange(4.0 * (count + 1)).reshape(count + 1, 4)[1:]
        call = with_views(lambda args: [torch.zeros(3), torch.ones(1)], INPUTS, {0: HALF})
        half, other = call([x])
        assert torch.equal(half, x[count // 2 :])
        assert half.storage_offset() == x[count // 2 :].storage_offset()
        assert other.tolist() == [1]


def test_a_view_of_another_result() -> None:
    view = ReturnedView(1, (S - 1, 4), (4, 1), 4)
    prepare = view_restorer(INPUTS, [view, None])
    assert prepare is not None
    base = torch.arange(12.0).reshape(3, 4)
    view_of_base, same = prepare([torch.zeros(3, 4)])([torch.zeros(2, 4), base])
    assert same is base and torch.equal(view_of_base, base[1:])


def test_a_view_of_the_parts_of_complex_numbers() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    argument = torch.view_as_complex(x).unsqueeze(1)
    view = ReturnedView("x", (S,), (2,), 1, as_real=True)
    prepare = view_restorer(INPUTS, [view])
    assert prepare is not None
    assert prepare([argument])([None])[0].tolist() == [1, 3, 5]


def test_nothing_to_do() -> None:
    assert view_restorer(INPUTS, [None, None]) is None
    call = list
    assert with_views(call, INPUTS, {}) is call
