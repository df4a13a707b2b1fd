"""Finds what runs an IR: PyTorch's own kernels ("aten"), or another package's engine ("max").

An installed package offers an engine by an entry point in the group `torch_ir.engines`; torch_ir
imports it when its name is asked for. So this package knows no engine but its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

import torch

from torch_ir.errors import ExecutionError
from torch_ir.ir import IR

__all__ = ["ATEN", "GROUP", "Engine", "Run", "engine_names", "find_engine"]

ATEN = "aten"
"""The engine of this package: PyTorch's kernels, node by node."""
GROUP = "torch_ir.engines"

Run = Callable[[Sequence[Any]], Sequence[Any]]
"""From flat inputs, in the order of `ir.graph_inputs`, to the flat outputs, followed by the new
contents of what `ir.mutations` names. It changes none of its arguments."""


class Engine(Protocol):
    """What an entry point of the group names."""

    def __call__(
        self, ir: IR, weights: Mapping[str, torch.Tensor], options: Mapping[str, Any]
    ) -> Run:
        """Compile an IR; `weights` has all that it reads, by the names of the graph."""


def engine_names() -> list[str]:
    """The engines that can be asked for.

    >>> "aten" in engine_names()
    True
    """
    return sorted({ATEN, *(point.name for point in entry_points(group=GROUP))})


def find_engine(name: str) -> Engine:
    """The engine that an installed package offers under this name. Raises `ExecutionError`.

    >>> find_engine("abacus")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    torch_ir.errors.ExecutionError: there is no engine 'abacus'; ...
    """
    for point in entry_points(group=GROUP, name=name):
        try:
            found: Engine = point.load()
        except ImportError as error:
            raise ExecutionError(
                f"the engine {name!r} ({point.value}) cannot be imported: {error}"
            ) from error
        return found
    raise ExecutionError(
        f"there is no engine {name!r}; installed: {', '.join(engine_names())}; a package offers "
        f"one by an entry point in the group {GROUP!r}"
    )
