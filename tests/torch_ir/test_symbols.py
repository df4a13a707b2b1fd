"""Size expressions: evaluated, solved and bound to input shapes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from torch_ir import IR, ExecutionError, TensorMeta, execute_ir, extract_ir
from torch_ir.ir import Symbol

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
