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

    Outputs from `visible` on are read by the backward alone: parameters, values that were computed
    anyway. They may share memory with inputs and with each other, as they do in PyTorch. One in the
    memory of an input is returned as a view of it (`views`): autograd then notices a write to the
    input between forward and backward.
    """

    def __init__(self, visible: int | None = None) -> None:
        self.visible = visible
        self.pending = True
        self.indices: tuple[int, ...] = ()
        self.views: tuple[tuple[int, int], ...] = ()
        """Outputs in the memory of an input, and the slot of that input."""

    def probe(self, tensors: Sequence[torch.Tensor], buffers: Sequence[Buffer]) -> None:
        visible = len(tensors) if self.visible is None else self.visible
        inputs = [_extent(to_tensor(buffer)) for buffer in buffers]
        taken = list(inputs)
        shared: list[int] = []
        views: list[tuple[int, int]] = []
        for index, tensor in enumerate(tensors):
            start, end = _extent(tensor)
            others = taken if index < visible else taken[len(inputs) :]
            if any(start < other_end and other < end for other, other_end in others):
                shared.append(index)
            elif index < visible:
                taken.append((start, end))
            else:
                for slot, (low, high) in enumerate(inputs):
                    if start < high and low < end:
                        views.append((index, slot))
                        break
        self.indices, self.views = tuple(shared), tuple(views)
        # An empty tensor has no memory to compare: the next call has to be probed again.
        self.pending = any(start == end for start, end in (*inputs, *map(_extent, tensors)))


def as_view(tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """`tensor` as a view of `source`, with its version; unchanged if it is in other memory.

    It is in other memory if `source` was copied on its way into the graph.
    """
    storage = source.untyped_storage()
    offset = tensor.data_ptr() - storage.data_ptr()
    if tensor.dtype != source.dtype or not 0 <= offset < storage.nbytes():
        return tensor
    places = offset // tensor.itemsize
    return source.detach().as_strided(tensor.shape, tensor.stride(), places)


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    return start, start + tensor.numel() * tensor.element_size()
