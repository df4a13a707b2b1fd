"""Torch tensors as MAX buffers and back: no copies, every dtype, memory that stays."""

from __future__ import annotations

import gc

import pytest
import torch

from torch_max_backend.lowering.devices import TORCH_TO_MAX
from torch_max_backend.runtime.buffers import to_buffer, to_tensor


@pytest.mark.parametrize("dtype", TORCH_TO_MAX, ids=str)
def test_there_and_back_without_a_copy(dtype: torch.dtype) -> None:
    x = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    buffer = to_buffer(x)
    assert buffer.dtype == TORCH_TO_MAX[dtype] and tuple(buffer.shape) == (2, 3)
    back = to_tensor(buffer)
    assert back.dtype is dtype and torch.equal(back, x)
    assert back.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 1, 3)])
def test_shapes(shape: tuple[int, ...]) -> None:
    assert to_tensor(to_buffer(torch.ones(shape))).shape == shape


def test_a_tensor_that_requires_grad() -> None:
    x = torch.ones(3, requires_grad=True)
    back = to_tensor(to_buffer(x))
    assert back.data_ptr() == x.data_ptr() and not back.requires_grad


def test_a_buffer_keeps_the_memory() -> None:
    x = torch.arange(1000.0)
    expected = x.clone()
    buffer = to_buffer(x)
    del x
    gc.collect()
    others = [torch.full((1000,), -1.0) for _ in range(50)]
    back = to_tensor(buffer)
    del buffer
    gc.collect()
    others += [torch.full((1000,), -2.0) for _ in range(50)]
    assert torch.equal(back, expected) and len(others) == 100
