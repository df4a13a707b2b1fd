"""Ops whose result is one number everywhere: PyTorch's results are that number."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torch_max_backend.compat.torch import OpOverload
from torch_max_backend.program import Call
from torch_max_backend.program.filled_ops import BROADCASTS, FILLED, number_of

aten = torch.ops.aten
X = torch.full((2, 3), 5.0)

CALLS: list[tuple[OpOverload, tuple[Any, ...]]] = [
    (aten._efficientzerotensor.default, ([2, 3],)),
    (aten.empty.memory_format, ([2, 3],)),
    (aten.empty_like.default, (X,)),
    (aten.empty_permuted.default, ([2, 3], [1, 0])),
    (aten.empty_strided.default, ([2, 3], [3, 1])),
    (aten.new_empty.default, (X, [2, 3])),
    (aten.new_empty_strided.default, (X, [2, 3], [3, 1])),
    (aten.new_ones.default, (X, [2, 3])),
    (aten.new_zeros.default, (X, [2, 3])),
    (aten.ones.default, ([2, 3],)),
    (aten.ones_like.default, (X,)),
    (aten.zeros.default, ([2, 3],)),
    (aten.zeros_like.default, (X,)),
    (aten.fill.Scalar, (X, 7)),
    (aten.full_like.default, (X, 7)),
    (aten.new_full.default, (X, [2, 3], 7)),
]


def call(op: OpOverload, args: tuple[Any, ...]) -> Call:
    return Call("call", op, args, {}, (), True, frozenset({0}))


@pytest.mark.parametrize(("op", "args"), CALLS, ids=[str(op) for op, _ in CALLS])
def test_the_number_is_pytorchs(op: OpOverload, args: tuple[Any, ...]) -> None:
    number = number_of(call(op, args))
    assert number is not None
    if "empty" not in str(op):
        assert torch.equal(op(*args) + torch.zeros(2, 3), torch.full((2, 3), float(number)))
    else:
        assert number == 0  # PyTorch leaves the memory as it was


def test_every_op_of_the_table_is_here() -> None:
    packets = {op for op, _ in CALLS} | {op.overloadpacket for op, _ in CALLS}
    assert set(FILLED) <= packets


def test_other_ops_have_no_number() -> None:
    assert number_of(call(aten.add.Tensor, (X, 1))) is None
    assert number_of(call(aten.fill.Tensor, (X, torch.tensor(7.0)))) is None
    assert number_of(call(aten.full_like.default, (X,))) is None  # given by keyword, if at all


@pytest.mark.parametrize("op", sorted(BROADCASTS, key=str), ids=str)
def test_broadcasts_have_no_tensor_to_read(op: OpOverload) -> None:
    kinds = [str(argument.type) for argument in op._schema.arguments]
    assert "Tensor" not in kinds or op is aten.lift_fresh_copy.default
