"""Arguments that outlive a call: kept buffers of parameters, and arguments written in place."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from max.driver import Buffer

from torch_max_backend.runtime.buffers import dense, is_dense, to_buffer
from torch_max_backend.runtime.watch import Watch, version_of

_data_ptr = torch.Tensor.data_ptr


@dataclass(frozen=True)
class _Kept:
    """What belongs together: the state of the parameters, and the buffers made in that state."""

    addresses: list[int]
    buffers: list[Buffer | None]
    """All buffers of a call, those of the parameters filled in."""
    copied: dict[int, tuple[int, Watch]]
    """The index of each parameter that had to be copied, and its state at that time."""

    def is_stale(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether a parameter has changed since it was copied."""
        return any(
            version_of(tensors[index]) != version or watch.changed()
            for index, (version, watch) in self.copied.items()
        )


class Parameters:
    """Buffers of parameters, kept while the parameter's memory stays where it is.

    A kept buffer owns a reference to the memory, so an equal address is the same memory and an
    in-place update is seen. A parameter that is not dense is copied; its version is compared too.
    """

    def __init__(
        self, static: Sequence[tuple[int, int, tuple[int, ...] | None]], count: int
    ) -> None:
        self.slots = [slot for slot, _, _ in static]
        self.orders = [order for _, _, order in static]
        positions = [position for _, position, _ in static]
        many = len(positions) > 1
        self.pick: Callable[[list[Any]], Sequence[torch.Tensor]] = (
            operator.itemgetter(*positions) if many else lambda args: [args[p] for p in positions]
        )
        # Replaced as a whole: another thread, and the call after one that failed, read what
        # belongs together.
        self.known = _Kept([-1] * len(positions), [None] * count, {})

    def fill(self, args: list[Any]) -> list[Any]:
        """The list of a call's buffers, those of the parameters filled in."""
        tensors = self.pick(args)
        addresses = list(map(_data_ptr, tensors))
        known = self.known
        if addresses != known.addresses or (known.copied and known.is_stale(tensors)):
            known = self.known = self._refreshed(known, tensors, addresses)
        return known.buffers.copy()

    def _refreshed(
        self, known: _Kept, tensors: Sequence[torch.Tensor], addresses: list[int]
    ) -> _Kept:
        buffers, copied = known.buffers.copy(), known.copied.copy()
        for index, tensor in enumerate(tensors):
            if addresses[index] == known.addresses[index] and index not in copied:
                continue
            order = self.orders[index]
            ordered = tensor if order is None else tensor.permute(order)
            if is_dense(ordered):
                copied.pop(index, None)
            else:
                copied[index] = (version_of(tensor), Watch([tensor]))
            buffers[self.slots[index]] = to_buffer(dense(ordered))
        return _Kept(addresses, buffers, copied)


class Writes:
    """Arguments that MAX writes to: in place, or by way of a copy if they are not dense."""

    def __init__(self, arguments: Sequence[tuple[int, int, tuple[int, ...] | None]]) -> None:
        self.arguments = arguments

    def begin(
        self, args: list[Any], buffers: list[Any]
    ) -> list[tuple[torch.Tensor, torch.Tensor | None]]:
        """Each argument in memory order, and the copy that MAX writes to, if any."""
        written: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        for slot, position, order in self.arguments:
            tensor = args[position]
            ordered = tensor if order is None else tensor.permute(order)
            if is_dense(ordered):
                written.append((tensor, None))
                continue
            copy = dense(ordered)
            buffers[slot] = to_buffer(copy)
            written.append((ordered, copy))
        return written

    def end(self, written: list[tuple[torch.Tensor, torch.Tensor | None]]) -> None:
        """Copy the copies back and count up the versions of the other tensors.

        Autograd and packed weights detect a change by a tensor's version.
        """
        with torch.no_grad():
            for tensor, copy in written:
                if copy is not None:
                    tensor.copy_(copy)
        torch.autograd.graph.increment_version([t for t, copy in written if copy is None])
