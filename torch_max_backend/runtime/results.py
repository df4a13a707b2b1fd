"""From MAX's outputs to the program's results: strides, complex dtypes, ints from sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from torch_max_backend.compat.torch import PythonPrinter
from torch_max_backend.program import (
    Input,
    Program,
    SymbolInput,
    SymbolOutput,
    SymSize,
    TensorInput,
    TensorOutput,
    inverse,
)

HELD = 1 << 20
"""Bytes of the results of a graph that may outlive the user's tensors."""


def returns_late(program: Program) -> bool:
    """Whether the memory of results goes back to MAX at the next call, not as soon as it is free.

    MAX wakes a thread to take memory back, which then spins for 200 us on a core that the caller
    may need. Before an execution the thread has to wake up anyway (docs/performance.md).
    """
    known = program.specs()
    size = 0
    for output in program.outputs:
        if isinstance(output, TensorOutput):
            spec = known[output.ref.name][output.ref.index or 0]
            if spec is None or not spec.is_static or spec.device.type != "cpu":
                return False
            size += math.prod(map(int, spec.shape)) * spec.dtype.itemsize
    return 0 < size <= HELD


def finisher(program: Program) -> Callable[[list[Any], Any], list[Any]] | None:
    """A function from MAX's outputs to the program's results; None if they are the same."""
    if all(
        isinstance(o, TensorOutput) and o.order is None and not o.is_complex
        for o in program.outputs
    ):
        return None
    steps: list[tuple[str, Any]] = []
    tensor_index = number_index = 0
    for output in program.outputs:
        if isinstance(output, TensorOutput):
            restore = None if output.order is None else inverse(output.order)
            if output.is_complex:
                restore = restore and restore[:-1]  # without the dim of the two parts
            steps.append(("complex" if output.is_complex else "tensor", (tensor_index, restore)))
            tensor_index += 1
        elif isinstance(output, SymbolOutput):
            steps.append(("number", number_index))
            number_index += 1
        else:
            steps.append(("value", output.value))

    def finish(tensors: list[Any], numbers: Any) -> list[Any]:
        results = []
        for kind, what in steps:
            if kind in ("tensor", "complex"):
                index, restore = what
                tensor = tensors[index]
                if kind == "complex":
                    tensor = torch.view_as_complex(tensor)
                results.append(tensor if restore is None else tensor.permute(restore))
            else:
                results.append(numbers[what] if kind == "number" else what)
        return results

    return finish


def size_reader(program: Program) -> Callable[[list[Any]], tuple[int, ...]] | None:
    """A function from the arguments to the program's int results; None if it has none."""
    wanted = [output.expr for output in program.outputs if isinstance(output, SymbolOutput)]
    return number_reader(program.inputs, wanted) if wanted else None


def number_reader(
    inputs: Sequence[Input], wanted: Sequence[SymSize]
) -> Callable[[list[Any]], tuple[int, ...]]:
    """A function from the arguments to the values of expressions of their sizes."""
    places: dict[str, str] = {}
    for position, item in enumerate(inputs):
        if isinstance(item, SymbolInput) and isinstance(item.expr, sympy.Symbol):
            places[item.expr.name] = f"args[{position}]"
        elif isinstance(item, TensorInput):
            for i, size in enumerate(item.spec.shape):
                if isinstance(size, sympy.Symbol):
                    places.setdefault(size.name, f"args[{position}].shape[{i}]")
    names = sorted({str(s) for expr in wanted for s in _symbols(expr)})
    printer = PythonPrinter()
    results = "".join(f"{printer.doprint(sympy.sympify(expr))}, " for expr in wanted)
    bindings = ", ".join(f"{name}={places[name]}" for name in names)
    # Printed as Python code once; evaluating the expression tree at each call is slow.
    source = f"lambda args: (lambda {', '.join(names)}: ({results}))({bindings})"
    return eval(source, {"math": __import__("math")})


def _symbols(expr: SymSize) -> set[sympy.Symbol]:
    return expr.free_symbols if isinstance(expr, sympy.Expr) else set()
