"""Runs a `Program` call by call on PyTorch: where there is no graph of PyTorch's own to run.

A graph that was found in AOTAutograd's cache is a program and nothing else. It normally runs on
MAX; in a forked child, where MAX cannot run, it runs here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from torch_max_backend.program import (
    BoxedCall,
    Call,
    Program,
    Ref,
    Sym,
    SymbolInput,
    SymbolOutput,
    TensorInput,
    TensorOutput,
)
from torch_max_backend.runtime.returned_views import view_restorer

aten = torch.ops.aten


def interpreted(program: Program) -> BoxedCall:
    """A function that computes `program` with PyTorch's kernels."""
    views = view_restorer(program.inputs, [getattr(o, "view", None) for o in program.outputs])

    def run(args: list[Any]) -> list[Any]:
        arguments = [*args, *program.captured]
        args.clear()
        with torch.no_grad():
            results = _run(program, arguments)
            return results if views is None else views(arguments)(results)

    return run


@dataclass
class Values:
    """What is known while a program runs: the value of each name, and the symbolic sizes."""

    by_name: dict[str, Any]
    symbols: dict[sympy.Symbol, int]

    def resolve(self, value: Any) -> Any:
        """An argument of a call, with the values that it refers to."""
        return _resolve(value, self.by_name, self.symbols)

    def compute(self, call: Call) -> Any:
        """The result of a call, on PyTorch."""
        # A `view` was traced with the strides of a fake, which PyTorch's kernels need not give.
        op = aten.reshape.default if call.op is aten.view.default else call.op
        args, kwargs = self.resolve((call.args, call.kwargs))
        return op(*args, **kwargs)


def values_of(program: Program, arguments: Sequence[Any]) -> Values:
    """The values of a program's inputs, those that it captured and those packed from them."""
    values: dict[str, Any] = {}
    symbols: dict[sympy.Symbol, int] = {}
    for item, argument in zip(program.inputs, arguments, strict=True):
        if isinstance(item, SymbolInput) and isinstance(item.expr, sympy.Symbol):
            symbols[item.expr] = argument
        elif isinstance(item, TensorInput):
            tensor = _real(argument) if item.is_complex else argument
            values[item.name] = tensor
            for size, actual in zip(item.spec.shape, tensor.shape, strict=True):
                if isinstance(size, sympy.Symbol):
                    symbols.setdefault(size, actual)
    for packed in program.packed:
        values[packed.name] = packed.layout.pack(*(values[source] for source in packed.sources))
    return Values(values, symbols)


def _run(program: Program, arguments: list[Any]) -> list[Any]:
    values = values_of(program, arguments)
    for call in program.calls:
        values.by_name[call.name] = values.compute(call)
    results: list[Any] = []
    for output in program.outputs:
        if isinstance(output, TensorOutput):
            value = values.resolve(output.ref)
            results.append(
                torch.view_as_complex(value.contiguous()) if output.is_complex else value
            )
        elif isinstance(output, SymbolOutput):
            results.append(_number(output.expr, values.symbols))
        else:
            results.append(output.value)
    for mutation in program.mutations:
        position = next(i for i, item in enumerate(program.inputs) if item.name == mutation.name)
        argument = arguments[position]
        target = torch.view_as_real(argument) if argument.is_complex() else argument
        target.copy_(values.resolve(mutation.ref))
    return results


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())


def _number(expr: sympy.Expr | int, symbols: Mapping[sympy.Symbol, int]) -> int:
    return expr if isinstance(expr, int) else int(expr.subs(symbols))


def _resolve(value: Any, values: Mapping[str, Any], symbols: Mapping[sympy.Symbol, int]) -> Any:
    if isinstance(value, Ref):
        result = values[value.name]
        return result if value.index is None else result[value.index]
    if isinstance(value, Sym):
        return _number(value.expr, symbols)
    if isinstance(value, (list, tuple)):
        return type(value)(_resolve(item, values, symbols) for item in value)
    if isinstance(value, dict):
        return {key: _resolve(item, values, symbols) for key, item in value.items()}
    return value
