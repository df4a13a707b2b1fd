"""A call as a person reads it: its arguments under their schema names, and the user's line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_max_backend.compat.torch import schema_of
from torch_max_backend.program.program import (
    Call,
    Program,
    Sym,
    TensorInput,
    TensorSpec,
    map_refs,
)

Specs = Mapping[str, tuple[TensorSpec | None, ...]]
"""By the name of an input or a call: what is known of each of its outputs."""


def describe(call: Call, specs: Specs) -> str:
    """The call's arguments under their schema names, and the user's line."""

    def text(value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, Sym):
            return str(value.expr)
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(text, value)) + "]"
        return repr(value)

    named = dict(zip((a.name for a in schema_of(call.op).arguments), call.args, strict=False))
    named.update(call.kwargs)
    parts = [
        f"{name}: {text(map_refs(value, lambda ref: str(specs[ref.name][ref.index or 0])))}"
        for name, value in named.items()
    ]
    return f"  {'    '.join(parts)}\n  from {call.source or 'an unknown line'}"


def program_specs(program: Program) -> Specs:
    """The specs of every input and call of a program."""
    specs: dict[str, tuple[TensorSpec | None, ...]] = {
        item.name: (item.spec,) for item in program.inputs if isinstance(item, TensorInput)
    }
    specs.update((item.name, specs[item.sources[0]]) for item in program.packed)
    specs.update((call.name, call.outputs) for call in program.calls)
    return specs
