"""Finds outputs that share memory in MAX where PyTorch promises separate memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from max.driver import Buffer

from torch_max_backend.runtime.buffers import to_tensor


class AliasProbe:
    """Finds, on the first run, which outputs share memory with an input or with each other.

    MAX folds `x + 0` or a reshape to the input itself, and equal results to one buffer. That is
    fixed at compile time but MAX does not report it, so the first run compares addresses.
    """

    def __init__(self) -> None:
        self.pending = True
        self.indices: tuple[int, ...] = ()

    def probe(self, tensors: Sequence[torch.Tensor], buffers: Sequence[Buffer]) -> None:
        taken = [_extent(to_tensor(buffer)) for buffer in buffers]
        shared = []
        for index, tensor in enumerate(tensors):
            start, end = _extent(tensor)
            if any(start < other_end and other < end for other, other_end in taken):
                shared.append(index)
            else:
                taken.append((start, end))
        self.indices = tuple(shared)
        # An empty tensor has no memory to compare: the next call has to be probed again.
        self.pending = any(start == end for start, end in taken)


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    return start, start + tensor.numel() * tensor.element_size()
