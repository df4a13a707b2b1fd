"""Chains of calls in which each value is read once: what a fusion may compute in one place."""

from __future__ import annotations

from collections import Counter

import torch

from torch_max_backend.program.program import (
    Call,
    PackedInput,
    Program,
    Ref,
    Sym,
    TensorInput,
    TensorSpec,
)

aten = torch.ops.aten

VIEWS = frozenset(
    {
        aten._unsafe_view.default,
        aten.alias.default,
        aten.clone.default,
        aten.reshape.default,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.unsqueeze.default,
        aten.view.default,
    }
)
"""Ops that change the shape or the memory of a tensor, and not the order of its elements.

A dropout in inference is a clone.
"""


class Chains:
    """The calls of a program by name, and how often each value is read."""

    def __init__(self, program: Program) -> None:
        self.specs: dict[Ref, TensorSpec | None] = {
            Ref(item.name): item.spec
            for item in (*program.inputs, *program.packed)
            if isinstance(item, (TensorInput, PackedInput))
        }
        self.calls: dict[str, Call] = {}
        self.reads: Counter[Ref] = Counter(program.results())
        for call in program.calls:
            self.add(call)
            self.reads.update(call.reads())

    def add(self, call: Call) -> None:
        """Know a call, also one that takes the place of another."""
        self.calls[call.name] = call
        for index, spec in enumerate(call.outputs):
            self.specs[Ref(call.name, None if call.single else index)] = spec

    def spec(self, ref: Ref) -> TensorSpec | None:
        return self.specs.get(ref)

    def base(self, ref: object) -> Ref | None:
        """What `ref` is a view of, or itself; None if a value on the way is read elsewhere too."""
        while isinstance(ref, Ref) and self.reads[ref] == 1:
            call = self.calls.get(ref.name)
            if call is None or call.op not in VIEWS:
                return ref
            ref = call.args[0]
        return None

    def whole(self, ref: Ref) -> Ref:
        """What `ref` is a view of, whoever else reads it."""
        while (call := self.calls.get(ref.name)) is not None and call.op in VIEWS:
            ref = call.args[0]
        return ref


def sizes(spec: TensorSpec) -> list[int | Sym]:
    """The shape as an argument of a call."""
    return [size if isinstance(size, int) else Sym(size) for size in spec.shape]


def view(name: str, like: Call, of: Ref, spec: TensorSpec) -> Call:
    """A call that gives `of` another shape; `like` is the call that it comes from."""
    return Call(
        name, aten.view.default, (of, sizes(spec)), {}, (spec,), True, frozenset({0}), like.source
    )
