"""Evaluates symbolic sizes such as `2*s0 + 1`, and finds the symbols from the input shapes.

Expressions come from files, so they are parsed to a tree of known node types, never `eval`ed.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence

import sympy

from torch_ir.compat import SIZE_FUNCTIONS
from torch_ir.errors import ExecutionError
from torch_ir.ir import Symbol, TensorMeta

__all__ = ["bind_symbols", "evaluate", "free_symbols", "symbol_of", "to_sympy"]

MAX_EXPRESSION = 4096
_MAX_EXPONENT = 64
_MAX_SIZE = 2**128
"""Larger than any size, and a limit for hostile expressions."""

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "CeilToInt": math.ceil,
    "CleanDiv": operator.floordiv,
    "FloorDiv": operator.floordiv,
    "Max": max,
    "Min": min,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "TruncToInt": math.trunc,
}


@functools.lru_cache(maxsize=4096)
def _parse(expression: str) -> ast.expr:
    if len(expression) > MAX_EXPRESSION:
        raise ValueError(f"a size expression is longer than {MAX_EXPRESSION} characters")
    try:
        return ast.parse(expression, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{expression!r} is not a size expression") from error


def _evaluate(node: ast.expr, values: Mapping[str, int]) -> int:
    number = _number(node, values)
    if abs(number) > _MAX_SIZE:
        raise OverflowError
    return number


def _number(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, values)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            exponent = _evaluate(right, values)
            if not 0 <= exponent <= _MAX_EXPONENT:
                raise ValueError(f"a size expression has the exponent {exponent}")
            return _evaluate(left, values) ** exponent
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_evaluate(left, values), _evaluate(right, values))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_evaluate(argument, values) for argument in arguments))
    raise ValueError(f"the inputs do not determine the size {ast.unparse(node)!r}")


def evaluate(expression: str, values: Mapping[str, int]) -> int:
    """The value of an expression. Raises ValueError.

    >>> evaluate("2*s0 + Max(1, s1)", {"s0": 3, "s1": 4})
    10
    """
    try:
        return _evaluate(_parse(expression), values)
    except (ZeroDivisionError, OverflowError, TypeError, RecursionError) as error:
        raise ValueError(f"{expression!r} has no value for {dict(values)}") from error


def to_sympy(expression: str, symbols: Mapping[str, sympy.Symbol] | None = None) -> sympy.Expr:
    """The expression in sympy's form, of `symbols` or of `symbol_of` each name. Raises ValueError.

    >>> 4 * to_sympy("2*s0 + 1")
    8*s0 + 4
    """
    return _to_sympy(_parse(expression), symbols)


def symbol_of(name: str) -> sympy.Symbol:
    """The symbol of that name in the expressions of `to_sympy`."""
    return sympy.Symbol(name, integer=True, positive=True)


def _to_sympy(node: ast.expr, symbols: Mapping[str, sympy.Symbol] | None) -> sympy.Expr:
    made = _sympy_node(node, symbols)
    # sympy computes powers and products of numbers at once, however large they become.
    if abs(made.as_coeff_Mul()[0]) > _MAX_SIZE:
        raise ValueError(f"{ast.unparse(node)[:60]!r} has a number larger than any size")
    return made


def _sympy_node(node: ast.expr, symbols: Mapping[str, sympy.Symbol] | None) -> sympy.Expr:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return sympy.sympify(value)
        case ast.Name(id=name) if symbols is None or name in symbols:
            return symbol_of(name) if symbols is None else symbols[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_to_sympy(operand, symbols)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as exponent)):
            nested = any(isinstance(inner, ast.Pow) for inner in ast.walk(left))
            if 0 <= exponent <= _MAX_EXPONENT and not nested:
                return _to_sympy(left, symbols) ** exponent
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            return _BINARY[type(op)](_to_sympy(left, symbols), _to_sympy(right, symbols))
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod() as op, right=right):
            name = "FloorDiv" if isinstance(op, ast.FloorDiv) else "PythonMod"
            return SIZE_FUNCTIONS[name](_to_sympy(left, symbols), _to_sympy(right, symbols))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            if name in SIZE_FUNCTIONS:
                return SIZE_FUNCTIONS[name](*(_to_sympy(item, symbols) for item in arguments))
    raise ValueError(f"{ast.unparse(node)!r} is not a size expression")


def free_symbols(expression: str) -> set[str]:
    """The symbols in an expression."""
    return {
        node.id
        for node in ast.walk(_parse(expression))
        if isinstance(node, ast.Name) and node.id not in _FUNCTIONS
    }


def solve(expression: str, size: int, values: Mapping[str, int]) -> dict[str, int]:
    """Solve `expression = size` for the one symbol that `values` lacks; {} without a solution.

    Only linear expressions (`2*s0 + 1`) are solved: PyTorch lets a user write no others.

    >>> solve("2*s0 + 1", 7, {}), solve("2*s0", 7, {}), solve("s0*s1", 6, {"s0": 2})
    ({'s0': 3}, {}, {'s1': 3})
    """
    unknown = free_symbols(expression) - values.keys()
    if len(unknown) != 1:
        return {}
    (name,) = unknown
    try:
        first, second = (evaluate(expression, {**values, name: at}) for at in (0, 1))
    except ValueError:
        return {}
    slope = second - first
    if slope == 0 or (size - first) % slope:
        return {}
    return {name: (size - first) // slope}


def bind_symbols(
    symbols: Mapping[str, Symbol],
    inputs: Sequence[TensorMeta],
    shapes: Sequence[Sequence[int]],
    numbers: Mapping[str, int],
) -> dict[str, int]:
    """Find the values of the symbols, and check every size of the inputs against them.

    `shapes` are the actual shapes of `inputs`; `numbers` are the values of inputs that are Python
    numbers, by expression. Raises an `ExecutionError` that names the input and the dimension.
    """
    values: dict[str, int] = dict(numbers)
    for meta, shape in zip(inputs, shapes, strict=True):
        for expected, size in zip(meta.shape, shape, strict=True):
            if isinstance(expected, str) and expected.isidentifier():
                values.setdefault(expected, size)
    for meta, shape in zip(inputs, shapes, strict=True):
        for expected, size in zip(meta.shape, shape, strict=True):
            if isinstance(expected, str) and not expected.isidentifier():
                values |= solve(expected, size, values)
    for name, size in values.items():
        symbol = symbols.get(name)
        if symbol is None:
            continue
        if size < symbol.min or (symbol.max is not None and size > symbol.max):
            upper = "" if symbol.max is None else f" and at most {symbol.max}"
            raise ExecutionError(f"the size {name} = {size} must be at least {symbol.min}{upper}")
    for meta, shape in zip(inputs, shapes, strict=True):
        for dim, (expected, size) in enumerate(zip(meta.shape, shape, strict=True)):
            if isinstance(expected, int):
                wanted = expected
            else:
                try:
                    wanted = evaluate(expected, values)
                except ValueError as error:
                    raise ExecutionError(
                        f"input {meta.name}: dimension {dim} is {size}, which does not match "
                        f"{expected} ({error}); expected {meta.describe()}, got {list(shape)}"
                    ) from error
            if size != wanted:
                said = "" if str(wanted) == str(expected) else f" ({expected})"
                raise ExecutionError(
                    f"input {meta.name}: dimension {dim} is {size}, the IR expects {wanted}{said}; "
                    f"expected {meta.describe()}, got {list(shape)}"
                )
    return values
