"""A graph on its way to MAX: what a call runs now, and the swap once it is compiled.

The functions here are on the per-call path while a graph waits, so none of them is type-checked at
run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from max.engine import Model

from torch_max_backend import fingerprint, flags, graph_builder
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.profiling import timed
from torch_max_backend.program import Program
from torch_max_backend.runtime import BoxedCall, boxed_call


class Kind(Enum):
    """Which of AOTAutograd's graphs it is."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"


class CompiledGraph:
    """Runs on PyTorch while it waits, on MAX once it is compiled."""

    def __init__(
        self,
        program: Program,
        eager: BoxedCall,
        kernels: Sequence[Path],
        what: str = "",
        kind: Kind = Kind.INFERENCE,
    ) -> None:
        self.program = program
        self.kernels = tuple(kernels)
        self.what = what
        self.kind = kind
        self.lowerings = graph_builder.lowerings(program)
        self.key = program.key(fingerprint.context(self.lowerings, kernels))
        self.portable = all(entry.builtin for entry in self.lowerings.values())
        """Another process may find it: its key holds nothing of this process alone."""
        self.error: MaxCompilerError | None = None
        self.model: Model | None = None
        self.eager = _marking(eager) if kind is Kind.FORWARD else eager
        self.run: BoxedCall = self.eager
        """What a call runs. Replaced once, in one assignment, between two calls."""

    def ready(self, model: Model) -> None:
        """From the next call on, run on MAX."""
        self.model = model
        run = boxed_call(self.program, model)
        if self.kind is Kind.BACKWARD and self.ran_on_torch:
            run = _in_tier_of_forward(self.eager, run)
        self.run = timed(run, self.what) if flags.profile() else run

    ran_on_torch = False
    """Set when a call may have run before the swap: a forward on PyTorch may still be open."""

    def __call__(self, args: list[Any]) -> list[Any]:
        return self.run(args)


_MARK = "_ran_on_torch"


def _marking(eager: BoxedCall) -> BoxedCall:
    """`eager`, marking its results: a backward finds among its arguments who ran its forward."""

    def run(args: list[Any]) -> list[Any]:
        results = eager(args)
        for result in results:
            if isinstance(result, torch.Tensor):
                setattr(result, _MARK, True)
        return results

    return run


def _in_tier_of_forward(eager: BoxedCall, compiled: BoxedCall) -> BoxedCall:
    """A backward that runs where its forward ran, for forwards still open at the swap."""

    def run(args: list[Any]) -> list[Any]:
        if any(hasattr(argument, _MARK) for argument in args):
            return eager(args)
        return compiled(args)

    return run
