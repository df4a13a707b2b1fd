"""Ops that stay on PyTorch by design: each has a reason and no lowering of ours."""

from __future__ import annotations

import pytest
import torch

from torch_max_backend.lowering import on_torch
from torch_max_backend.lowering.registry import decomposition_table, is_mapped

aten = torch.ops.aten


@pytest.mark.parametrize("op", on_torch.ON_TORCH, ids=str)
def test_an_op_on_pytorch_is_not_lowered_and_not_decomposed(op: torch._ops.OpOverload) -> None:
    assert on_torch.reason(op) == on_torch.ON_TORCH[op]
    assert not is_mapped(op)
    assert op not in decomposition_table()


@pytest.mark.parametrize(
    "op",
    [aten.rand.default, aten.bernoulli.p, aten.multinomial.default, aten.normal_functional.default],
    ids=str,
)
def test_random_numbers_are_drawn_by_pytorch(op: torch._ops.OpOverload) -> None:
    assert on_torch.is_random(op) and on_torch.reason(op) == on_torch.RANDOM
    assert op not in decomposition_table()


@pytest.mark.parametrize(
    "op",
    [
        aten.add.Tensor,
        aten.native_dropout.default,  # its decomposition draws, and MAX multiplies
        aten._scaled_dot_product_flash_attention_for_cpu.default,
        torch.ops.torch_max_backend.rms_norm.default,
    ],
    ids=str,
)
def test_what_may_run_on_max(op: torch._ops.OpOverload) -> None:
    if op is not aten.native_dropout.default:
        assert not on_torch.is_random(op)
        assert on_torch.reason(op) is None


@pytest.mark.parametrize("op", on_torch.SYMBOLIC, ids=str)
def test_ops_on_sizes_return_no_tensor(op: torch._ops.OpOverload) -> None:
    assert all(str(result.type) != "Tensor" for result in op._schema.returns)
