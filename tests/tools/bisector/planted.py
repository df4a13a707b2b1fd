"""Lowerings that are wrong on purpose, at one call of a graph; a fresh process can import them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch

from torch_max_backend import MAPPING_TORCH_ATEN_TO_MAX
from torch_max_backend.compat.torch import OpOverload
from torch_max_backend.lowering.registry import Entry

aten = torch.ops.aten


@contextlib.contextmanager
def wrong_at(op: OpOverload, name: str) -> Iterator[None]:
    """Inside, the call `name` of `op` returns 1 % too much."""
    entry = MAPPING_TORCH_ATEN_TO_MAX.lookup(op)
    assert entry is not None
    before = dict(MAPPING_TORCH_ATEN_TO_MAX._entries)
    MAPPING_TORCH_ATEN_TO_MAX[op] = _planted(entry, name)
    try:
        yield
    finally:
        MAPPING_TORCH_ATEN_TO_MAX._entries = before


def _planted(entry: Entry, name: str) -> Any:
    def lowering(*args: Any, call: Any, **kwargs: Any) -> Any:
        result = entry.checked(*args, **kwargs, **({"call": call} if entry.needs_call else {}))
        if call.name != name:
            return result
        if isinstance(result, (list, tuple)):
            return [None if value is None else _off(value) for value in result]
        return _off(result)

    return lowering


def _off(value: Any) -> Any:
    return value * 1.01 if value.dtype.is_float() else value


def wrong_tanh(self: Any) -> Any:
    """Of the test of the reproducer: wrong in every process that uses it."""
    from max.graph import ops

    return ops.tanh(self) * float(os.environ.get("PLANTED_FACTOR", "1.01"))
