"""Sizes and dims: symbolic arithmetic, negative dims, broadcasting, folding."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import sympy
import torch
from max.graph import Dim, SymbolicDim, ops
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.functions import (
    CleanDiv,
    FloorDiv,
    Identity,
    Max,
    Min,
    Mod,
    ModularIndexing,
    PythonMod,
)

from tests.lowering.max_graph import inputs
from torch_max_backend.lowering import shapes
from torch_max_backend.lowering.shapes import SymbolicSizeError
from torch_max_backend.lowering.types import MaxTensor

S, T = sympy.symbols("s0 s1", integer=True, positive=True)


def test_a_static_size_is_an_int() -> None:
    assert type(shapes.size(Dim(3))) is int and shapes.size(Dim(3)) == 3
    assert shapes.size(Dim("n")) == SymbolicDim("n")
    with inputs([2, "n"]) as (x,):
        assert shapes.sizes(x) == [2, SymbolicDim("n")]
        assert shapes.static_size(x.shape[0], "a window") == 2
        with pytest.raises(SymbolicSizeError, match=r"a window \(dimension 1\) needs .* is n"):
            shapes.static_sizes(x, "a window")


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_dim_is_pytorchs(rank: int) -> None:
    tensor = torch.empty([1] * rank)
    for index in range(-5, 5):
        try:
            torch.sum(tensor, index)
        except IndexError:
            with pytest.raises(IndexError, match="out of range"):
                shapes.dim(index, rank)
        else:
            assert shapes.dim(index, rank) == (
                index + rank if index < 0 and rank else max(index, 0)
            )


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, [0, 1, 2]), ([], [0, 1, 2]), (-1, [2]), ([2, 0], [0, 2]), ([-1, 2], [2])],
)
def test_dims_of_a_reduction(given: object, expected: list[int]) -> None:
    assert shapes.dims(given, 3) == expected  # type: ignore[arg-type]


STATIC = [(), (1,), (3,), (2, 1), (2, 3), (1, 1, 3), (4, 2, 3), (0,), (2, 0), (4,)]


@pytest.mark.parametrize(("left", "right"), list(itertools.product(STATIC, STATIC)))
def test_static_shapes_broadcast_as_in_pytorch(
    left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    try:
        expected = list(torch.broadcast_shapes(left, right))
    except RuntimeError:
        with pytest.raises(ValueError, match="do not broadcast"):
            shapes.broadcast_shapes(left, right)
    else:
        assert shapes.broadcast_shapes(left, right) == expected


def test_symbolic_shapes_broadcast() -> None:
    n, m = Dim("n"), Dim("m")
    assert shapes.broadcast_shapes([n, 1], [3]) == [n, 3]
    assert shapes.broadcast_shapes([1], [n]) == [n]
    # Different spellings: PyTorch has proved the sizes equal, and a static one says more.
    assert shapes.broadcast_shapes([n], [4]) == [4] == shapes.broadcast_shapes([4], [n])
    assert shapes.broadcast_shapes([n], [m]) in ([n], [m])
    assert shapes.broadcast_shapes() == []


def test_nothing_is_emitted_for_a_shape_that_fits() -> None:
    with inputs([2, "n"], [1, "n"]) as (x, y):
        assert shapes.broadcast_to(x, [2, Dim("n")]) is x
        wide = shapes.broadcast_to(y, [2, Dim("n")])
        assert wide is not y and shapes.sizes(wide) == [2, Dim("n")]
        assert [shapes.sizes(t) for t in shapes.broadcast_tensors(x, y)] == [[2, Dim("n")]] * 2


def test_sizes_of_operands_are_spelled_alike() -> None:
    with inputs(["n", 3], ["m", 1], ["n", 3]) as (x, y, z):
        first, second = map(shapes.sizes, shapes.unify_sizes(x, y))
        assert first[0] == second[0] and (first[1], second[1]) == (3, 1)
        unchanged = shapes.unify_sizes(x, z)
        assert unchanged[0] is x and unchanged[1] is z


@pytest.mark.parametrize(
    ("reduced", "expected"),
    [
        ([0], [1, 2, 60]),
        ([1], [2, 3, 20]),
        ([3], [24, 5, 1]),
        ([1, 2], [2, 12, 5]),
        ([0, 2], [15, 8, 1]),
        ([0, 1, 2, 3], [1, 120, 1]),
        ([], [120, 1, 1]),
    ],
)
def test_fold(reduced: list[int], expected: list[int]) -> None:
    with inputs([2, 3, 4, 5]) as (x,):
        assert shapes.sizes(shapes.fold(x, reduced)) == expected
        for keepdim in (True, False):
            theirs = (
                torch.empty(2, 3, 4, 5).sum(reduced, keepdim)
                if reduced
                else torch.empty(2, 3, 4, 5)
            )
            assert shapes.reduced_shape(x, reduced, keepdim) == list(theirs.shape)


def test_fold_moves_reduced_dims_behind_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = []
    permute = ops.permute

    def spy(tensor: MaxTensor, order: list[int]) -> MaxTensor:
        orders.append(order)
        return permute(tensor, order)

    monkeypatch.setattr(ops, "permute", spy)
    with inputs([2, 3, 4, 5]) as (x,):
        shapes.fold(x, [1, 2])
        assert not orders, "neighbours merge where they are"
        shapes.fold(x, [0, 2])
    assert orders == [[1, 3, 0, 2]]


# Static sizes stand for the symbols. Negative quotients are in test_symbolic_shapes: there MAX
# rounds down, as PyTorch does, but a quotient of static sizes it rounds toward zero.
EXPRESSIONS: list[tuple[sympy.Expr, Callable[[int, int], int]]] = [
    (sympy.Integer(5), lambda s, t: 5),
    (S + T - 3, lambda s, t: s + t - 3),
    (2 * S * T, lambda s, t: 2 * s * t),
    (S**3, lambda s, t: s**3),
    (FloorDiv(S + 1, 2), lambda s, t: (s + 1) // 2),
    (CleanDiv(6 * S, 3), lambda s, t: 2 * s),
    (Mod(S, 4), lambda s, t: s % 4),
    (ModularIndexing(S, 2, 3), lambda s, t: s // 2 % 3),
    (PythonMod(S, 4) + FloorDiv(S - 1, 2), lambda s, t: s % 4 + (s - 1) // 2),
    (Identity(S * T), lambda s, t: s * t),
]


@pytest.mark.parametrize(("expr", "value"), EXPRESSIONS, ids=[str(e) for e, _ in EXPRESSIONS])
def test_expressions_of_sizes(expr: sympy.Expr, value: Callable[[int, int], int]) -> None:
    assert shapes.is_expressible(expr)
    for s, t in [(7, 2), (24, 1), (2, 5)]:
        assert shapes.from_sympy(expr, {"s0": Dim(s), "s1": Dim(t)}) == value(s, t)
    symbolic = shapes.from_sympy(expr, {"s0": Dim("a"), "s1": Dim("b")})
    assert isinstance(symbolic, int if not expr.free_symbols else Dim)


def test_what_max_has_no_size_for() -> None:
    assert not shapes.is_expressible(Max(S, 3)) and shapes.is_computable(Max(S, 3) + Min(S, T))
    assert not shapes.is_computable(sympy.sin(S))
    with pytest.raises(SymbolicSizeError, match=r"no symbolic size for Max\(.*mark_static"):
        shapes.from_sympy(Max(S, 3), {"s0": Dim("a")})
    with pytest.raises(SymbolicSizeError, match=r"no input of the graph determines .* s1"):
        shapes.from_sympy(S + T, {"s0": Dim("a")})


def test_a_size_that_depends_on_data_says_so() -> None:
    unbacked = ShapeEnv().create_unbacked_symint().node.expr
    with pytest.raises(SymbolicSizeError, match=r"the size u0 .*depends on data"):
        shapes.from_sympy(unbacked, {})
