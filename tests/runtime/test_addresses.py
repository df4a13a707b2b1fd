"""Arguments that are reached by their addresses."""

from __future__ import annotations

import torch

from torch_max_backend.runtime.addresses import Addresses, Reached
from torch_max_backend.runtime.buffers import to_tensor


def test_dense_arguments_are_reached_where_they_are() -> None:
    x, y = torch.randn(3, 4), torch.randn(4, 3).t()
    addresses = Addresses(1, [Reached(1, (1, 0), True), Reached(0, None, False)])
    buffers: list[object] = [None, None]
    held = addresses.begin([x, y], buffers)
    assert to_tensor(buffers[1]).tolist() == [y.data_ptr(), x.data_ptr()]  # type: ignore[arg-type]
    versions = x._version, y._version
    addresses.end(held)
    assert (x._version - versions[0], y._version - versions[1]) == (0, 1)


def test_what_is_not_dense_is_copied_and_copied_back() -> None:
    whole = torch.zeros(3, 8)
    part = whole[:, ::2]
    addresses = Addresses(0, [Reached(0, None, True)])
    buffers: list[object] = [None]
    held = addresses.begin([part], buffers)
    (copy,) = held.tensors
    assert to_tensor(buffers[0]).tolist() == [copy.data_ptr()] != [part.data_ptr()]  # type: ignore[arg-type]
    copy.fill_(2)
    addresses.end(held)
    assert part.eq(2).all() and whole[:, 1::2].eq(0).all()
    assert part._version > 0
