"""Functions for ops outside ATen: `getitem`, and the arithmetic on sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from torch_ir.compat import SYMBOLIC_MATH

__all__ = ["PYTHON_OPS"]

# fmt: off
_OPERATOR = (
    "abs", "add", "and_", "eq", "floordiv", "ge", "gt", "le", "lshift", "lt", "mod", "mul", "ne",
    "neg", "not_", "or_", "pos", "pow", "rshift", "sub", "truediv", "xor",
)
_MATH = (
    "acos", "asin", "atan", "ceil", "cos", "cosh", "exp", "floor", "log2", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
)
_TORCH = (
    "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
    *SYMBOLIC_MATH,
)
# fmt: on


def _functions(module: ModuleType, prefix: str, names: tuple[str, ...]) -> dict[str, Any]:
    return {f"{prefix}.{name}": getattr(module, name) for name in names if hasattr(module, name)}


PYTHON_OPS: dict[str, Callable[..., Any]] = {
    "getitem": operator.getitem,
    **_functions(operator, "operator", _OPERATOR),
    **_functions(math, "math", _MATH),
    **_functions(torch, "torch", _TORCH),
}
"""All of them; an IR cannot call any other Python function."""
