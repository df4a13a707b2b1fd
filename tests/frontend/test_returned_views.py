"""Results that are views of arguments at symbolic places: AOTAutograd makes them from ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.testing.joined import joined
from tests.testing.table import Compiled, Table

pytestmark = joined("frontend")
TABLE = Table(falls_back=True)


def rows() -> torch.Tensor:
    return torch.arange(24.0).reshape(6, 4)


def rows_with_gaps() -> torch.Tensor:
    """Every second number of a memory: in one dim, too, with strides of 2."""
    return torch.arange(48.0).as_strided((6, 4), (8, 2))


def complex_rows() -> torch.Tensor:
    return torch.complex(rows(), rows() + 1)


def trained_rows() -> torch.Tensor:
    return rows().requires_grad_()


@TABLE.add(rows, dynamic=True)
def second_half(x: torch.Tensor) -> Any:
    return x[x.shape[0] // 2 :], x + 1


@TABLE.add(rows, dynamic=True)
def transposed_half(x: torch.Tensor) -> Any:
    return x[:, x.shape[1] // 2 :].t(), x + 2


@TABLE.add(rows, dynamic=True)
def half_of_a_changed_argument(x: torch.Tensor) -> Any:
    return x.mul_(2)[x.shape[0] // 2 :]


@TABLE.add(rows_with_gaps, dynamic=True)
def flat_of_a_changed_argument_with_gaps(x: torch.Tensor) -> Any:
    flat = x.reshape(-1)
    flat.mul_(2)
    return flat[3:], flat.unsqueeze(0)


@TABLE.add(rows_with_gaps, dynamic=True)
def flat_of_an_argument_changed_in_steps(x: torch.Tensor) -> Any:
    flat = x.reshape(-1)
    flat[::2] = 1
    return flat, x.sin()


@TABLE.add(complex_rows, dynamic=True)
def conjugated_half(x: torch.Tensor) -> Any:
    return x.conj()[x.shape[0] // 2 :], x.imag[x.shape[0] // 2 :], x * 2


@TABLE.add(trained_rows, dynamic=True)
def half_of_a_product(x: torch.Tensor) -> Any:
    return (x * 3)[x.shape[0] // 2 :]


@TABLE.add(rows)
def the_same_twice(x: torch.Tensor) -> Any:
    y = x.sin()
    return y, y.contiguous()


@TABLE.add(trained_rows)
def the_same_twice_when_trained(x: torch.Tensor) -> Any:
    y = x.sin()
    return y, y.contiguous()


@TABLE.add(rows, dynamic=True)
def beside_a_fallback(x: torch.Tensor) -> Any:
    return x[x.shape[0] // 2 :], torch.linalg.svdvals(x)


MAKE = {
    "conjugated_half": complex_rows,
    "half_of_a_product": trained_rows,
    "the_same_twice_when_trained": trained_rows,
    "flat_of_a_changed_argument_with_gaps": rows_with_gaps,
    "flat_of_an_argument_changed_in_steps": rows_with_gaps,
}


@pytest.mark.parametrize("name", TABLE.rows)
def test_a_returned_view_is_at_its_place(name: str, functions: dict[str, Compiled]) -> None:
    make: Callable[[], torch.Tensor] = MAKE.get(name, rows)
    with torch.set_grad_enabled(make is trained_rows):
        arguments = [make() for _ in range(2)]
        got = torch.utils._pytree.tree_leaves(functions[name](arguments[0]))
        want = torch.utils._pytree.tree_leaves(functions[name].eager(arguments[1]))
    for actual, expected in zip(got, want, strict=True):
        torch.testing.assert_close(actual, expected)
        shared = [
            value.untyped_storage()._cdata == argument.untyped_storage()._cdata
            for value, argument in zip((actual, expected), arguments, strict=True)
        ]
        assert shared[0] == shared[1]
        if shared[0]:
            assert actual.stride() == expected.stride()
            assert actual.storage_offset() == expected.storage_offset()
            assert actual.is_conj() == expected.is_conj()
    torch.testing.assert_close(*arguments)
    if len(got) > 1:
        assert (got[0] is got[1]) == (want[0] is want[1])
    if make is trained_rows:
        for argument, value in zip(arguments, (got[0], want[0]), strict=True):
            (value * value).sum().backward()
            assert argument.grad is not None
        torch.testing.assert_close(arguments[0].grad, arguments[1].grad)
