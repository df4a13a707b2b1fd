"""The sizes of an IR as PyTorch's symbolic ones: a new `ShapeEnv` with the IR's symbols in it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torch_ir.compat import FakeTensorMode, NamedSizes, export_fake_mode
from torch_ir.errors import ConversionError
from torch_ir.ir import Symbol, TensorMeta
from torch_ir.symbols import evaluate, free_symbols, to_sympy

__all__ = ["Sizes"]

_FIRST_HINT = 5
_UNBOUNDED = 2**62


class Sizes:
    """Symbols, and the sizes made of them."""

    def __init__(self, symbols: Mapping[str, Symbol], inputs: Sequence[TensorMeta]) -> None:
        self.mode: FakeTensorMode = export_fake_mode()
        self._env = NamedSizes(self.mode)
        self._symbols = symbols
        self._known: dict[str, Any] = {}
        self._hints: dict[str, int] = {}
        backed = {
            name
            for meta in inputs
            for text in (*meta.shape, meta.expr)
            if isinstance(text, str)
            for name in free_symbols(text)
        }
        for name in sorted(backed):
            self._add_backed(name)

    def without_guards(self) -> contextlib.AbstractContextManager[Any]:
        """Inside, a decision about example sizes is not recorded as a condition on the inputs."""
        return self._env.without_guards()

    def _add_backed(self, name: str) -> None:
        symbol = self._symbols.get(name, Symbol(name))
        upper = _UNBOUNDED if symbol.max is None else symbol.max
        if upper < max(symbol.min, 2):  # PyTorch traces the sizes 0 and 1 as numbers
            raise ConversionError(
                f"the size {name!r:.60} is between {symbol.min} and {upper}; a symbolic size "
                "needs a range that contains a number of at least 2"
            )
        # Examples that differ: PyTorch takes two sizes that are equal for one.
        hint = max(symbol.min, _FIRST_HINT + 2 * len(self._hints))
        self._hints[name] = min(hint, upper)
        self._known[name] = self._env.add(name, symbol.min, symbol.max, self._hints[name])

    def shape(self, shape: Sequence[int | str]) -> list[Any]:
        """A shape with its symbolic sizes."""
        return [size if isinstance(size, int) else self._size(size) for size in shape]

    def number(self, meta: TensorMeta) -> Any:
        """A value that is a Python number: an input, or a result of a higher-order op."""
        if meta.dtype != "SymInt" or not meta.expr:
            return self._env.any_number(meta.dtype)
        return self._size(meta.expr)

    def _size(self, text: str) -> Any:
        names = free_symbols(text)
        for name in names:
            if name not in self._known:
                self._known[name] = self._env.add_unbacked()
        try:
            expression = to_sympy(text, self._known)
        except ValueError as error:
            raise ConversionError(f"the size {text!r} cannot be converted: {error}") from error
        hint = evaluate(text, self._hints) if names <= self._hints.keys() else None
        return self._env.size(expression, hint)

    def ranges(self) -> dict[Any, Any]:
        """The range of each symbol, as an exported program has them."""
        known = {**self._env.symbols(), **self._known}
        return {
            known[name]: self._env.range_of(symbol.min, symbol.max)
            for name, symbol in self._symbols.items()
            if name in known
        }

    def example(self, value: Any) -> Any:
        """A real value of the example sizes in place of one without memory."""
        if isinstance(value, torch.Tensor):
            shape = [self._env.hint(size) for size in value.shape]
            return torch.zeros(shape, dtype=value.dtype)
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return self._env.hint(value)
        return value
