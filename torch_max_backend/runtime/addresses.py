"""Arguments that a kernel reaches by their addresses, to read and to write them where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_max_backend.runtime.buffers import dense, is_dense, to_buffer

_data_ptr = torch.Tensor.data_ptr


@dataclass(frozen=True)
class Reached:
    """One argument: where it is in the list of arguments, the order of its dims in memory."""

    position: int
    order: tuple[int, ...] | None
    written: bool


@dataclass
class Held:
    """What a call must keep until it has run."""

    tensors: list[torch.Tensor]
    """All tensors whose addresses were handed over."""
    written: list[torch.Tensor]
    copies: list[tuple[torch.Tensor, torch.Tensor]]
    """Arguments that are not dense, and the copy that is written in place of each."""


class Addresses:
    """The addresses that one call of a kernel takes, as a buffer of int64."""

    def __init__(self, slot: int, arguments: Sequence[Reached]) -> None:
        self.slot = slot
        self.arguments = arguments

    def begin(self, args: list[Any], buffers: list[Any]) -> Held:
        """Fill in the buffer of addresses."""
        held = Held([], [], [])
        for argument in self.arguments:
            tensor = args[argument.position]
            if argument.written:
                held.written.append(tensor)
            ordered = tensor if argument.order is None else tensor.permute(argument.order)
            if not is_dense(ordered):
                copy = dense(ordered)
                if argument.written:
                    held.copies.append((ordered, copy))
                ordered = copy
            held.tensors.append(ordered)
        # A new tensor each time: calls of several threads may overlap.
        addresses = torch.tensor(list(map(_data_ptr, held.tensors)), dtype=torch.int64)
        buffers[self.slot] = to_buffer(addresses)
        return held

    def end(self, held: Held) -> None:
        """Copy back what was written to copies, and count up the versions of what was written.

        Autograd and packed weights detect a change by a tensor's version.
        """
        with torch.no_grad():
            for tensor, copy in held.copies:
                tensor.copy_(copy)
        torch.autograd.graph.increment_version(held.written)
