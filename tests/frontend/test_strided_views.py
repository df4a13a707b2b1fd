"""`as_strided` of tensors that do not lie in memory in order, and of views; strides of results."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.testing.joined import joined
from tests.testing.table import Compiled, Table
from torch_max_backend.frontend.strided_views import read_whole_memory
from torch_max_backend.frontend.support import unsupported_nodes

aten = torch.ops.aten
TABLE = Table(falls_back=True)
pytestmark = joined("frontend")


def gaps() -> torch.Tensor:
    return torch.arange(48.0)[1:-1:2][3:].as_strided((4, 4), (10, 2), 1)


def transposed() -> torch.Tensor:
    return torch.arange(20.0).reshape(5, 4).t()


def plain() -> torch.Tensor:
    return torch.arange(20.0).reshape(5, 4)


def complex_transposed() -> torch.Tensor:
    return torch.complex(transposed(), transposed() + 1)


@TABLE.add(gaps)
def of_gaps(x: torch.Tensor) -> torch.Tensor:
    return x.as_strided((2, 3), (1, 2)) + 1


@TABLE.add(transposed)
def of_a_transposed_argument(x: torch.Tensor) -> torch.Tensor:
    return x.as_strided((2, 3), (1, 2)) + 2


@TABLE.add(plain)
def of_a_slice(x: torch.Tensor) -> torch.Tensor:
    return (x * 2)[1:, ::2].as_strided((2, 3), (3, 1)) + 3


@TABLE.add(plain)
def of_a_slice_with_an_offset(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).t()[1:].as_strided((2, 3), (3, 1), 2) + 4


@TABLE.add(complex_transposed)
def complex_strides(x: torch.Tensor) -> torch.Tensor:
    return x * 2


MAKE = {
    "of_gaps": gaps,
    "of_a_transposed_argument": transposed,
    "complex_strides": complex_transposed,
}


@pytest.mark.parametrize("name", TABLE.rows)
def test_values_and_strides(name: str, functions: dict[str, Compiled]) -> None:
    make = MAKE.get(name, plain)
    with torch.no_grad():
        actual, expected = functions[name](make()), functions[name].eager(make())
    torch.testing.assert_close(actual, expected)
    assert actual.stride() == expected.stride()


def test_a_view_is_read_on_max() -> None:
    """Of a tensor that lies in order, whatever view of it the graph reads."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return aten.as_strided(aten.slice(aten.mul(x, 2), 0, 1), [2, 3], [3, 1])

    gm = make_fx(function, tracing_mode="fake")(plain())
    assert unsupported_nodes(gm)
    read_whole_memory(gm)
    assert not unsupported_nodes(gm)
    assert torch.equal(gm(plain()), function(plain()))
