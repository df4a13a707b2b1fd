"""Amounts: numbers of bytes and operations that may contain dynamic sizes."""

from __future__ import annotations

import sympy

from torch_ir.amounts import ZERO, Amount, largest, number
from torch_ir.symbols import symbol_of

N, M = symbol_of("n"), symbol_of("m")


def test_sums_stay_exact() -> None:
    total = Amount.of(3 * N + 4) + Amount.of(N**2) - Amount.of(3 * N)
    assert sympy.simplify(total.value - (N**2 + 4)) == 0
    assert (Amount.of(5) - Amount.of(5)).value == 0 and ZERO.value == 0
    assert type((Amount.of(2) + Amount.of(3)).value) is int


def test_one_covers_another_if_it_is_larger_for_all_sizes() -> None:
    assert Amount.of(N * M + N).covers(Amount.of(N))
    assert not Amount.of(100 * N).covers(Amount.of(N * M)), "m may be large"
    assert not Amount.of(N * M).covers(Amount.of(100 * N)), "m may be small"


def test_the_largest_are_those_that_can_be_the_maximum() -> None:
    amounts = [Amount.of(e) for e in (N, 3 * N, N * M, 2 * N, N * M + 1, 7)]
    assert {str(amount.value) for amount in largest(amounts)} == {"3*n", "m*n + 1", "7"}


def test_numbers_for_given_sizes() -> None:
    assert number(7, {}) == 7
    assert number(N * M, {"n": 2}) == 2 * M
    result = number(sympy.Max(N, M), {"n": 2, "m": 5})
    assert result == 5 and type(result) is int
