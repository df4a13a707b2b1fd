"""Sequences that share a static cache: each has a slot of it, and one call adds a token to all.

A package generates if it has these two entries, which change the same buffers:

    prefill(ids [prompt], length [], slot [])  -> logits [vocabulary], after ids[length - 1]
    decode(ids [slots], positions [slots])     -> logits [slots, vocabulary]

A sequence can join or end at any step, whatever the others do. The largest prompt that `prefill`
takes is the size of a slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from examples.serving.messages import End, Generate, Token
from examples.serving.runner import call_flat
from torch_max_backend import InputError

if TYPE_CHECKING:
    from torch_ir import IR
    from torch_max_backend import Package

ENTRIES = {"prefill": ["ids", "length", "slot"], "decode": ["ids", "positions"]}


def generates(package: Package) -> bool:
    """Whether a package has the entries that generation needs."""
    irs = package.irs
    return all(
        entry in irs and [meta.name for meta in irs[entry].graph_inputs] == names
        for entry, names in ENTRIES.items()
    )


@dataclass
class _Sequence:
    request: Generate
    tokens: list[int] = field(default_factory=list)
    """New ones."""

    @property
    def length(self) -> int:
        return len(self.request.tokens) + len(self.tokens)


class Generator:
    """The slots of one process."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._smallest, self.limit = _prompt_sizes(package.irs["prefill"])
        (slots,) = package.irs["decode"].graph_inputs[0].shape
        self.slots = int(slots)
        self._sequences: dict[int, _Sequence] = {}

    @property
    def active(self) -> bool:
        """Whether there is a sequence to continue."""
        return bool(self._sequences)

    def admit(self, request: Generate) -> list[Token | End]:
        """Start a sequence; returns its first token."""
        slot = min(set(range(self.slots)) - set(self._sequences))
        tokens = request.tokens
        padding = [0] * (self._smallest - len(tokens))
        try:
            logits = self._call("prefill", tokens + padding, len(tokens), slot)
        except (InputError, IndexError) as error:
            return [End(request.id, "error", str(error))]
        sequence = self._sequences[slot] = _Sequence(request)
        return self._next(slot, sequence, logits)

    def step(self) -> list[Token | End]:
        """One more token of every sequence."""
        if not self._sequences:
            return []
        # A free slot runs along, with a token at its beginning that the next prompt overwrites.
        ids, positions = [0] * self.slots, [0] * self.slots
        for slot, sequence in self._sequences.items():
            ids[slot], positions[slot] = sequence.tokens[-1], sequence.length - 1
        logits = self._call("decode", ids, positions)
        told: list[Token | End] = []
        for slot, sequence in list(self._sequences.items()):
            told += self._next(slot, sequence, logits[slot])
        return told

    def cancel(self, id: int) -> None:
        """Free the slot of a sequence, if it still has one."""
        self._sequences = {s: q for s, q in self._sequences.items() if q.request.id != id}

    def _call(self, entry: str, *inputs: int | list[int]) -> torch.Tensor:
        tensors = [torch.tensor(value) for value in inputs]
        result: torch.Tensor = call_flat(self._package, entry, tensors)
        return result

    def _next(self, slot: int, sequence: _Sequence, logits: torch.Tensor) -> list[Token | End]:
        request = sequence.request
        token = choose(logits, request.temperature, request.seed, sequence.length)
        if token in request.stop:
            del self._sequences[slot]
            return [End(request.id, "stop")]
        sequence.tokens.append(token)
        told: list[Token | End] = [Token(request.id, token)]
        if len(sequence.tokens) == request.count or sequence.length == self.limit:
            del self._sequences[slot]
            told.append(End(request.id, "length"))
        return told


def choose(logits: torch.Tensor, temperature: float, seed: int, position: int) -> int:
    """The most likely token, or a random one that depends on the seed and the position alone.

    So a sequence goes on with the same tokens in another process.
    """
    if temperature == 0:
        return int(logits.argmax())
    generator = torch.Generator().manual_seed((seed << 32) + position)
    weights = torch.softmax(logits.double() / temperature, -1)
    return int(torch.multinomial(weights, 1, generator=generator))


def _prompt_sizes(ir: IR) -> tuple[int, int]:
    """The smallest and the largest prompt."""
    (size,) = ir.graph_inputs[0].shape
    if isinstance(size, int):
        return size, size
    symbol = ir.symbols[size]
    if symbol.max is None:
        raise ValueError("the prompt of the entry prefill needs a largest size: Dim(..., max=...)")
    return symbol.min, symbol.max
