"""Size expressions: evaluated, solved and bound to input shapes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from torch_ir import IR, ExecutionError, TensorMeta, execute_ir, extract_ir
from torch_ir.ir import Symbol
from torch_ir.symbols import (
    bind_symbols,
    evaluate,
    free_symbols,
    solve,
    symbol_of,
    to_sympy,
)

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def test_wrong_sizes_of_dynamic_inputs() -> None:
    n = torch.export.Dim("n", min=2, max=5)

    class Two(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a + b

    ir = extract_ir(Two(), (X, X), dynamic_shapes=({0: n}, {0: n}))
    with pytest.raises(ExecutionError, match="must be at least 2 and at most 5"):
        execute_ir(ir, (torch.ones(6, 4), torch.ones(6, 4)))
    with pytest.raises(ExecutionError, match="input b: dimension 0 is 3, the IR expects 4"):
        execute_ir(ir, (torch.ones(4, 4), torch.ones(3, 4)))
    with pytest.raises(ExecutionError, match="input b: dimension 1 is 5, the IR expects 4"):
        execute_ir(ir, (torch.ones(3, 4), torch.ones(3, 5)))


def test_a_size_expression_cannot_take_time_without_end() -> None:
    metas = [TensorMeta("x", ("s0",), "float32"), TensorMeta("y", ("((s0**64)**64)**64",), "int8")]
    ir = IR([], metas, metas[:1], symbols={"s0": Symbol("s0")})
    with pytest.raises(ExecutionError, match="input y: dimension 0 is 1"):
        execute_ir(ir, (torch.ones(9), torch.ones(1, dtype=torch.int8)))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("s0", 3),
        ("2*s0 + 1", 7),
        ("-s0 + 5", 2),
        ("s0**2 - s1", 5),
        ("(s0 + 4)//2", 3),
        ("Mod(s0, 2)", 1),
        ("FloorDiv(s1, 3)", 1),
        ("Max(s0, s1)", 4),
        ("Min(s0, 1)", 1),
        ("CeilToInt(s0)", 3),
    ],
)
def test_expressions_have_values(expression: str, value: int) -> None:
    assert evaluate(expression, {"s0": 3, "s1": 4}) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("s9", "the inputs do not determine the size 's9'"),
        ("s0 +", "is not a size expression"),
        ("s0.real", "do not determine"),
        ("__import__('os')", "do not determine"),
        ("open(s0)", "do not determine"),
        ("s0 % (s0 - 3)", "has no value for"),
        ("s0**65", "has the exponent 65"),
        ("s0**-1", "has the exponent -1"),
        ("Max(s0, key=s0)", "do not determine"),
        ("Max(s0)", "has no value for"),
        ("s0" + "+s0" * 2000, "longer than 4096 characters"),
        ("1" + "0" * 100, "has no value"),
        ("(" * 300 + "s0" + ")" * 300, "not a size expression"),
    ],
)
def test_expressions_without_a_value(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(expression, {"s0": 3})


def test_free_symbols() -> None:
    assert free_symbols("2*s0 + Max(s1, 3)") == {"s0", "s1"}


@pytest.mark.parametrize(
    ("expression", "size", "values", "solution"),
    [
        ("3*s0 - 1", 8, {}, {"s0": 3}),
        ("s0 + s1", 5, {"s0": 2}, {"s1": 3}),
        ("s0 + s1", 5, {}, {}),
        ("2*s0", 5, {}, {}),
        ("0*s0", 5, {}, {}),
        ("4//s0", 2, {}, {}),
        ("s0", 5, {"s0": 2}, {}),
    ],
)
def test_solutions(
    expression: str, size: int, values: dict[str, int], solution: dict[str, int]
) -> None:
    assert solve(expression, size, values) == solution


def test_symbols_are_bound() -> None:
    metas = [TensorMeta("a", ("s0", 4), "int8"), TensorMeta("b", ("s0 + 2*s1",), "int8")]
    symbols = {"s0": Symbol("s0", 2), "s1": Symbol("s1", 0, 9)}
    assert bind_symbols(symbols, metas, [(3, 4), (13,)], {}) == {"s0": 3, "s1": 5}
    assert bind_symbols(symbols, metas, [(3, 4), (13,)], {"n": 7})["n"] == 7
    with pytest.raises(ExecutionError, match=r"the size s0 = 1 must be at least 2$"):
        bind_symbols(symbols, metas, [(1, 4), (3,)], {})
    with pytest.raises(ExecutionError, match="s1 = 10 must be at least 0 and at most 9"):
        bind_symbols(symbols, metas, [(3, 4), (23,)], {})
    with pytest.raises(ExecutionError, match=r"input b: dimension 0 is 4, which does not match"):
        bind_symbols(symbols, metas, [(3, 4), (4,)], {})


@pytest.mark.parametrize(
    "expression",
    ["s0", "2*s0 + 1", "s0**2 - s0", "(s0 + 7)//4", "Max(3, s0)", "FloorDiv(s0, 2)", "Mod(s0, 4)",
     "s0 % 3", "-s0 + 20"],
)  # fmt: skip
def test_expressions_in_sympys_form_have_the_same_values(expression: str) -> None:
    for size in (1, 5, 9):
        expected = evaluate(expression, {"s0": size})
        assert int(to_sympy(expression).subs({symbol_of("s0"): size})) == expected


@pytest.mark.parametrize(
    "expression", ["__import__('os')", "((s0**64)**64)**64", "s0.real", "f(s0)", "s0**-1", "s0 < 2"]
)
def test_only_size_expressions_reach_sympy(expression: str) -> None:
    with pytest.raises(ValueError, match="not a size expression"):
        to_sympy(expression)
