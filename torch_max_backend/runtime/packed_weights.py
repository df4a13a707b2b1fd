"""Packed copies of weights: shared by graphs, and packed again when the parameter changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import torch

from torch_max_backend.program import AnyLayout
from torch_max_backend.runtime.buffers import to_buffer
from torch_max_backend.runtime.watch import Watch, version_of, versions_of

_data_ptr = torch.Tensor.data_ptr


class PackedWeight:
    """A packed copy, and the memory that it was packed from.

    It keeps a reference to that memory, so that an equal address is the same parameter.
    """

    def __init__(
        self,
        sources: Sequence[torch.Tensor],
        layout: AnyLayout,
        packed: torch.Tensor | None = None,
    ) -> None:
        self.sources = [source.detach() for source in sources]
        self.watch = Watch(self.sources)
        self.packed = layout.pack(*sources) if packed is None else packed


Key = tuple[tuple[tuple[int, int, tuple[int, ...]], ...], AnyLayout]
_PACKED: WeakValueDictionary[Key, PackedWeight] = WeakValueDictionary()
_epoch = 0
"""Counts calls of `invalidate_weights`."""


def packed_weight(
    tensors: Sequence[torch.Tensor], versions: Sequence[int], layout: AnyLayout
) -> PackedWeight:
    """The packed copy of `tensors` as they are now, shared by all graphs that pack them alike."""
    key = _key(tensors, versions, layout)
    found = _PACKED.get(key)
    if found is None or found.watch.changed():
        found = _PACKED[key] = PackedWeight(tensors, layout)
    return found


def adopt_packed(
    tensors: Sequence[torch.Tensor], layout: AnyLayout, packed: torch.Tensor
) -> PackedWeight:
    """Use `packed`, which was packed from `tensors` before, while the result is held."""
    key = _key(tensors, [version_of(tensor) for tensor in tensors], layout)
    made = _PACKED[key] = PackedWeight(tensors, layout, packed)
    return made


def _key(tensors: Sequence[torch.Tensor], versions: Sequence[int], layout: AnyLayout) -> Key:
    # Two parameters may share their memory and differ in strides: a weight and its transpose.
    states = tuple(
        (tensor.data_ptr(), version, tensor.stride())
        for tensor, version in zip(tensors, versions, strict=True)
    )
    return states, layout


def invalidate_weights() -> None:
    """Pack every weight again before its next use.

    Needed after a write that goes unnoticed: one that bypasses PyTorch's version counter and
    changes few elements, such as `model.weight.data[3] = 0`.

    >>> import torch
    >>> from torch_max_backend import invalidate_weights
    >>> weight = torch.nn.Parameter(torch.ones(300, 300))
    >>> weight.data[3] = 0
    >>> invalidate_weights()
    """
    global _epoch
    _epoch += 1
    _PACKED.clear()


@dataclass(frozen=True)
class _Packed:
    """What belongs together: the state of the parameters, and the buffers packed in that state."""

    state: list[Any] = field(default_factory=list)
    epoch: int = -1
    watch: Watch | None = None
    buffers: list[Any] = field(default_factory=list)
    weights: list[PackedWeight] = field(default_factory=list)


class PackedParameters:
    """Buffers of packed weights, packed again when a parameter changes."""

    def __init__(self, packed: Sequence[tuple[int, Sequence[int], AnyLayout]]) -> None:
        self.slots = [slot for slot, _, _ in packed]
        self.layouts = [layout for _, _, layout in packed]
        self.counts = [len(positions) for _, positions, _ in packed]
        self.positions = [position for _, positions, _ in packed for position in positions]
        # Replaced as a whole, so that another thread reads what belongs together.
        self.known = _Packed()

    def fill(self, args: list[Any], buffers: list[Any]) -> None:
        tensors = [args[position] for position in self.positions]
        state = [*map(_data_ptr, tensors), *versions_of(tensors)]
        known = self.known
        if (
            state != known.state
            or known.epoch != _epoch
            or known.watch is None
            or known.watch.changed()
        ):
            known = self.known = self._pack(tensors, state)
        for slot, buffer in zip(self.slots, known.buffers, strict=True):
            buffers[slot] = buffer

    def _pack(self, tensors: Sequence[torch.Tensor], state: list[Any]) -> _Packed:
        epoch = _epoch
        watch = Watch([tensor.detach() for tensor in tensors])
        weights = []
        first = 0
        versions = state[len(tensors) :]
        for count, layout in zip(self.counts, self.layouts, strict=True):
            own = slice(first, first + count)
            weights.append(packed_weight(tensors[own], versions[own], layout))
            first += count
        kept = [to_buffer(weight.packed) for weight in weights]
        return _Packed(state, epoch, watch, kept, weights)
