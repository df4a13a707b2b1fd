"""Packed copies of weights: shared by graphs, and packed again when the parameter changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import torch

from torch_max_backend.program.packed_layout import Layout
from torch_max_backend.runtime.buffers import to_buffer


class PackedWeight:
    """A packed copy, and the memory that it was packed from.

    It keeps a reference to that memory, so that an equal address is the same parameter.
    """

    def __init__(self, source: torch.Tensor, layout: Layout) -> None:
        self.source = source.detach()
        self.packed = layout.pack(source)


_PACKED: WeakValueDictionary[tuple[int, int, Layout], PackedWeight] = WeakValueDictionary()


def packed_weight(tensor: torch.Tensor, version: int, layout: Layout) -> PackedWeight:
    """The packed copy of `tensor` as it is now, shared by all graphs that pack it alike."""
    key = (tensor.data_ptr(), version, layout)
    found = _PACKED.get(key)
    if found is None:
        found = _PACKED[key] = PackedWeight(tensor, layout)
    return found


class PackedParameters:
    """Buffers of packed weights, packed again when a parameter's address or version changes."""

    def __init__(self, packed: Sequence[tuple[int, int, Layout]]) -> None:
        self.slots = [slot for slot, _, _ in packed]
        self.layouts = [layout for _, _, layout in packed]
        self.positions = [position for _, position, _ in packed]
        # One tuple, replaced as a whole, so that another thread reads lists that belong together.
        self.known: tuple[list[Any], list[Any], list[PackedWeight]] = ([], [], [])

    def fill(self, args: list[Any], buffers: list[Any]) -> None:
        tensors = [args[position] for position in self.positions]
        state = [(tensor.data_ptr(), _version(tensor)) for tensor in tensors]
        known, kept, _ = self.known
        if state != known:
            weights = [
                packed_weight(tensor, version, layout)
                for tensor, (_, version), layout in zip(tensors, state, self.layouts, strict=True)
            ]
            kept = [to_buffer(weight.packed) for weight in weights]
            self.known = (state, kept, weights)
        for slot, buffer in zip(self.slots, kept, strict=True):
            buffers[slot] = buffer


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # inference tensors have no version
