"""An index that is out of bounds raises an error, as in eager PyTorch: no memory is touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from tests.testing.joined import joined
from tests.testing.programs import program
from tests.testing.table import Compiled, Table
from torch_max_backend import IndexBoundsError, MaxCompilerError
from torch_max_backend.runtime.failures import index_error

pytestmark = joined("others")
TABLE = Table()
Functions = dict[str, Compiled]
COUNTS_FROM_THE_END = ("index_add", "index_copy", "write_in_place")
"""PyTorch's decompositions of these are `index_put`, which accepts a negative index."""
X, FIRST = torch.arange(40.0).reshape(10, 4), torch.tensor([1, 0])


@TABLE.add(X, FIRST)
def embedding(x, i):
    return F.embedding(i, x)


@TABLE.add(X, FIRST)
def embedding_bag(x, i):
    return F.embedding_bag(i, x, torch.tensor([0]))


@TABLE.add(X, FIRST)
def gather(x, i):
    return torch.gather(x, 1, i[:, None])


@TABLE.add(X, FIRST)
def index(x, i):
    return x[i % 2, i] + x[i % 3, i]


@TABLE.add(X, FIRST)
def index_one_dim(x, i):
    return x[:, i]


@TABLE.add(X, FIRST)
def index_select(x, i):
    return x.index_select(1, i)


@TABLE.add(X, FIRST)
def take(x, i):
    return torch.take(x.flatten()[:4], i)


@TABLE.add(X, FIRST)
def index_add(x, i):
    return x.index_add(1, i, x[:, :2])


@TABLE.add(X, FIRST)
def index_copy(x, i):
    return x.index_copy(1, i, x[:, :2])


@TABLE.add(X, FIRST)
def index_put(x, i):
    return x.index_put((i % 2, i), x[0, :2], accumulate=True)


@TABLE.add(X, FIRST)
def scatter(x, i):
    return x.scatter(1, i[:, None], 5.0)


@TABLE.add(X, FIRST)
def scatter_add(x, i):
    return x.scatter_add(1, i[:, None], x)


@TABLE.add(X, FIRST)
def scatter_reduce(x, i):
    return x.scatter_reduce(1, i[:, None], x, "amax", include_self=False)


@TABLE.add(lambda: X.clone(), FIRST)
def write_in_place(x, i):
    x.index_copy_(1, i, torch.ones(10, 2))
    return x.sum()


@TABLE.add(X[:2].clone(), FIRST)
def cross_entropy(x, i):
    return F.cross_entropy(x, i)


def _outcome(function: Callable[..., torch.Tensor], *args: torch.Tensor) -> torch.Tensor | None:
    """The result; None if PyTorch raises an error for these arguments."""
    try:
        return function(*(arg.clone() for arg in args))
    except (IndexError, RuntimeError):
        return None


@pytest.mark.parametrize("position", [3, -1, 4, -5, 2**31, 2**40, -(2**40), 2**62])
@pytest.mark.parametrize("name", TABLE.rows)
def test_an_index_out_of_bounds_raises(functions: Functions, name: str, position: int) -> None:
    function = functions[name]
    first = X[:2].clone() if name == "cross_entropy" else X
    given = (first, torch.tensor([0, position]))
    seen = position % 4 if position == -1 and name in COUNTS_FROM_THE_END else position
    expected = _outcome(function.eager, first, torch.tensor([0, seen]))
    if expected is None:
        with pytest.raises(IndexBoundsError, match=r"test_failures\.py"):
            function(*(arg.clone() for arg in given))
    else:
        torch.testing.assert_close(function(*(arg.clone() for arg in given)), expected)


def test_the_next_call_is_right(functions: Functions) -> None:
    function = functions["scatter"]
    with pytest.raises(IndexError):
        function(X, torch.tensor([0, 10**9]))
    torch.testing.assert_close(function(X, FIRST), function.eager(X, FIRST))


def test_other_errors_are_told_as_they_are() -> None:
    found = program(lambda x, i: [x[i]], X, FIRST)
    assert index_error(found, ValueError("out of memory")) is None
    told = index_error(found, ValueError("gather index 9 is out of bounds"))
    assert isinstance(told, MaxCompilerError) and "aten.index.Tensor" in str(told)
