"""MAX's outputs to the program's results: strides, complex numbers, ints from sizes."""

from __future__ import annotations

import pytest
import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Max, Mod

from torch_max_backend.program import (
    OpaqueInput,
    Program,
    Ref,
    SymbolInput,
    SymbolOutput,
    TensorInput,
    TensorOutput,
    TensorSpec,
    ValueOutput,
)
from torch_max_backend.runtime.results import HELD, finisher, returns_late, size_reader

S, T = sympy.symbols("s0 s1", integer=True, positive=True)
X = Ref("x")


def with_outputs(*outputs: object) -> Program:
    spec = TensorSpec((T, 4), torch.float32, torch.device("cpu"))
    given = [SymbolInput("s", S), OpaqueInput("nothing"), TensorInput("x", spec)]
    return Program(given, [], list(outputs))  # type: ignore[arg-type]


def test_plain_tensors_need_nothing() -> None:
    assert finisher(with_outputs(TensorOutput(X), TensorOutput(X))) is None
    assert size_reader(with_outputs(TensorOutput(X))) is None


def test_each_kind_of_result() -> None:
    finish = finisher(
        with_outputs(
            ValueOutput(None),
            TensorOutput(X, order=(2, 0, 1)),
            SymbolOutput(S),
            TensorOutput(X, is_complex=True),
            ValueOutput(7),
            TensorOutput(X),
            SymbolOutput(T),
        )
    )
    assert finish is not None
    permuted, pairs, plain = torch.randn(5, 3, 4), torch.randn(3, 2), torch.randn(2)
    nothing, first, s, second, seven, third, t = finish([permuted, pairs, plain], (11, 12))
    assert (nothing, s, seven, t) == (None, 11, 7, 12)
    assert first.shape == (3, 4, 5) and torch.equal(first.permute(2, 0, 1), permuted)
    assert torch.equal(second, torch.complex(pairs[:, 0], pairs[:, 1]))
    assert third is plain


@pytest.mark.parametrize(
    ("shape", "late"),
    [((4,), True), ((HELD // 8,), True), ((HELD // 8 + 1,), False), ((S,), False), ((0,), False)],
)
def test_memory_of_small_results_returns_late(shape: tuple[object, ...], late: bool) -> None:
    def returns(device: str) -> bool:
        spec = TensorSpec(shape, torch.float32, torch.device(device))  # type: ignore[arg-type]
        return returns_late(Program([TensorInput("x", spec)], [], [TensorOutput(X)] * 2))

    assert returns("cpu") is late, "both results count"
    assert not returns("cuda:0")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (S, 7),
        (T, 3),
        (2 * S + T - 1, 16),
        (FloorDiv(S - 10, 2), -2),
        (Mod(S, 4), 3),
        (Max(S, 9) * T, 27),
        (S**2, 49),
        (5, 5),
    ],
    ids=str,
)
def test_ints_from_sizes(expr: sympy.Expr, expected: int) -> None:
    read = size_reader(with_outputs(TensorOutput(X), SymbolOutput(expr), SymbolOutput(T)))
    assert read is not None
    result = read([7, None, torch.empty(3, 4)])
    assert result == (expected, 3) and all(type(value) is int for value in result)
