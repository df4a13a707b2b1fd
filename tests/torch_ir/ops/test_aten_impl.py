"""Functions outside ATen: arithmetic on sizes, and nothing else."""

from __future__ import annotations

import math
import operator

import pytest
import torch

from torch_ir import IR, ExecutionError, OpNode, TensorMeta, execute_ir
from torch_ir.ir import TensorRef
from torch_ir.ops.aten_impl import PYTHON_OPS
from torch_ir.ops.aten_ops import op_type_of


def run(op_type: str, *arguments: object) -> object:
    n = TensorMeta("n", (), "SymInt")
    out = TensorMeta("out", (), "SymInt", "out")
    node = OpNode(
        "out", op_type, [], [out], arguments={f"arg{i}": a for i, a in enumerate(arguments)}
    )
    return execute_ir(IR([node], [n], [out]), (5,))


@pytest.mark.parametrize(
    ("op_type", "arguments", "expected"),
    [
        ("operator.mul", (3,), 15),
        ("operator.floordiv", (2,), 2),
        ("operator.truediv", (2,), 2.5),
        ("operator.ge", (5,), True),
        ("math.ceil", (), 5),
        ("torch.sym_max", (7,), 7),
        ("torch.sym_float", (), 5.0),
        ("torch._sym_sqrt", (), math.sqrt(5)),
    ],
)
def test_arithmetic_on_a_size(op_type: str, arguments: tuple[int, ...], expected: object) -> None:
    assert run(op_type, TensorRef("n"), *arguments) == expected


def test_every_function_has_its_own_name() -> None:
    for op_type, function in PYTHON_OPS.items():
        assert PYTHON_OPS[op_type_of(function)] is function, op_type  # some have a second name
    assert PYTHON_OPS["getitem"] is operator.getitem
    assert PYTHON_OPS["torch.sym_sum"] is torch.sym_sum


@pytest.mark.parametrize("op_type", ["operator.call", "operator.attrgetter", "math.factorial"])
def test_other_python_functions_cannot_be_called(op_type: str) -> None:
    assert op_type not in PYTHON_OPS
    with pytest.raises(ExecutionError, match=f"cannot run {op_type}"):
        run(op_type, TensorRef("n"))
