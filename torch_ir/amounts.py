"""Numbers of bytes and operations that may depend on dynamic sizes.

An `Amount` is a sum of terms such as `4096*s0**2`; adding and comparing many of them this way takes
microseconds, where sympy's own sums take milliseconds.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import sympy

from torch_ir.symbols import symbol_of

__all__ = ["Amount", "largest", "number"]


_MAX_TERMS = 256


def _count_terms(expression: sympy.Expr) -> int:
    """At most how many terms the expression has when it is expanded, up to `_MAX_TERMS` + 1."""
    if isinstance(expression, sympy.Add):
        return min(sum(map(_count_terms, expression.args)), _MAX_TERMS + 1)
    if isinstance(expression, sympy.Mul):
        count = 1
        for factor in expression.args:
            count = min(count * _count_terms(factor), _MAX_TERMS + 1)
        return count
    if isinstance(expression, sympy.Pow) and isinstance(expression.base, sympy.Add):
        return _MAX_TERMS + 1
    return 1


@functools.lru_cache(maxsize=65536)
def _terms(expression: sympy.Expr) -> tuple[tuple[sympy.Expr, int], ...]:
    if _count_terms(expression) > _MAX_TERMS:
        return ((expression, 1),)  # a file may contain a product of any number of sums
    found = sympy.expand(expression).as_coefficients_dict()
    return tuple((term, int(count)) for term, count in found.items())


class Amount:
    """A number that is known, or a sum of terms in the dynamic sizes.

    >>> s0 = symbol_of("s0")
    >>> (Amount.of(4 * s0) + Amount.of(2)).value
    4*s0 + 2
    >>> Amount.of(4 * s0).covers(Amount.of(3 * s0)), Amount.of(4 * s0).covers(Amount.of(5))
    (True, False)
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[sympy.Expr, int]) -> None:
        self.terms = {term: count for term, count in terms.items() if count}

    @classmethod
    def of(cls, expression: sympy.Expr | int) -> Amount:
        if isinstance(expression, int):
            return cls({sympy.S.One: expression})
        return cls(dict(_terms(expression)))

    def __add__(self, other: Amount) -> Amount:
        return self._plus(other, 1)

    def __sub__(self, other: Amount) -> Amount:
        return self._plus(other, -1)

    def _plus(self, other: Amount, sign: int) -> Amount:
        terms = dict(self.terms)
        for term, count in other.terms.items():
            terms[term] = terms.get(term, 0) + sign * count
        return Amount(terms)

    def covers(self, other: Amount) -> bool:
        """Whether this is at least `other` for all sizes, judged term by term."""
        return all(count >= 0 for count in (self - other).terms.values())

    @property
    def value(self) -> sympy.Expr | int:
        """An `int` if no size is involved, else sympy's expression."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and sympy.S.One in self.terms:
            return self.terms[sympy.S.One]
        return sympy.Add(*(count * term for term, count in self.terms.items()))


ZERO = Amount({})


def largest(amounts: Iterable[Amount]) -> list[Amount]:
    """Those that no other covers: their maximum is the maximum of all, for every size."""
    kept: list[Amount] = []
    for amount in amounts:
        if not any(other.covers(amount) for other in kept):
            kept = [other for other in kept if not amount.covers(other)]
            kept.append(amount)
    return kept


def number(value: sympy.Expr | int, sizes: Mapping[str, int]) -> sympy.Expr | int:
    """The value for these sizes: an `int` once all its symbols are given.

    >>> number(4 * symbol_of("s0"), {"s0": 3})
    12
    """
    if isinstance(value, int):
        return value
    left = value.xreplace({symbol_of(name): sympy.Integer(n) for name, n in sizes.items()})
    return left if left.free_symbols else int(left)
