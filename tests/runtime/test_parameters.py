"""Kept buffers of parameters, and arguments that are written in place."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch

from torch_max_backend.runtime import parameters as runtime_parameters
from torch_max_backend.runtime.buffers import to_tensor
from torch_max_backend.runtime.parameters import Parameters, Writes


def addresses(buffers: list[Any]) -> list[int | None]:
    return [None if buffer is None else to_tensor(buffer).data_ptr() for buffer in buffers]


def test_a_buffer_is_kept_while_the_memory_stays() -> None:
    weight, bias, x = torch.ones(2, 3), torch.ones(3), torch.ones(5)
    # Slots 2 and 0 of four are the arguments 0 and 2.
    parameters = Parameters([(2, 0, None), (0, 2, None)], 4)
    first = parameters.fill([weight, x, bias])
    assert addresses(first) == [bias.data_ptr(), None, weight.data_ptr(), None]
    weight.mul_(2)  # in place: the same memory
    second = parameters.fill([weight, x, bias])
    assert second[2] is first[2] and second[0] is first[0]
    assert torch.equal(to_tensor(second[2]), weight)
    assert second is not first, "a call fills in its own arguments"


def test_a_replaced_parameter_is_followed() -> None:
    weight, bias = torch.ones(2, 3), torch.ones(3)
    parameters = Parameters([(0, 0, None), (1, 1, None)], 2)
    first = parameters.fill([weight, bias])
    other = torch.full((2, 3), 7.0)
    second = parameters.fill([other, bias])
    assert torch.equal(to_tensor(second[0]), other) and second[1] is first[1]
    assert torch.equal(to_tensor(parameters.fill([weight, bias])[0]), weight)


def test_the_old_memory_is_not_reused_meanwhile() -> None:
    """A kept buffer owns its memory, so a new parameter cannot have its address."""
    parameters = Parameters([(0, 0, None)], 1)
    parameters.fill([torch.ones(1000)])
    new = torch.full((1000,), 2.0)
    assert torch.equal(to_tensor(parameters.fill([new])[0]), new)


def test_a_parameter_with_gaps_is_copied_when_it_changes() -> None:
    memory = torch.ones(6)
    parameters = Parameters([(0, 0, None)], 1)
    strided = memory[::2]
    first = parameters.fill([strided])
    assert parameters.fill([strided])[0] is first[0]
    strided.mul_(3)
    assert to_tensor(parameters.fill([strided])[0]).tolist() == [3, 3, 3]
    dense = torch.full((3,), 5.0)
    assert to_tensor(parameters.fill([dense])[0]).data_ptr() == dense.data_ptr()
    assert not parameters.known.copied


def test_a_copy_that_failed_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    strided = torch.ones(6)[::2]
    parameters = Parameters([(0, 0, None)], 1)
    parameters.fill([strided])
    strided.mul_(3)
    with monkeypatch.context() as patch:
        patch.setattr(runtime_parameters, "to_buffer", mock.Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            parameters.fill([strided])
    assert to_tensor(parameters.fill([strided])[0]).tolist() == [3, 3, 3]


def test_a_permuted_parameter_needs_no_copy() -> None:
    memory = torch.arange(6.0).reshape(2, 3)
    parameters = Parameters([(0, 0, (1, 0))], 1)
    (buffer,) = parameters.fill([memory.t()])
    assert to_tensor(buffer).data_ptr() == memory.data_ptr()
    assert torch.equal(to_tensor(buffer), memory)


def test_writes_in_place() -> None:
    x = torch.zeros(3)
    writes = Writes([(0, 0, None)])
    buffers: list[Any] = ["the argument's own"]
    written = writes.begin([x], buffers)
    assert buffers == ["the argument's own"]
    version = x._version
    writes.end(written)
    assert x._version > version


def test_writes_to_an_argument_with_gaps() -> None:
    memory = torch.zeros(2, 4)
    x = memory[:, ::2]
    writes = Writes([(1, 0, None)])
    buffers: list[Any] = [None, None]
    written = writes.begin([x], buffers)
    copy = to_tensor(buffers[1])
    assert copy.is_contiguous() and copy.data_ptr() != x.data_ptr()
    copy.fill_(7)  # as MAX would
    version = x._version
    writes.end(written)
    assert memory.tolist() == [[7, 0, 7, 0]] * 2 and x._version > version


def test_writes_to_a_permuted_argument() -> None:
    memory = torch.zeros(2, 3)
    writes = Writes([(0, 0, (1, 0))])
    buffers: list[Any] = ["the argument's own"]
    written = writes.begin([memory.t()], buffers)
    assert buffers == ["the argument's own"]
    version = memory._version
    writes.end(written)
    assert memory._version > version
