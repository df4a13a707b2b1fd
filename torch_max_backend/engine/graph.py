"""A graph on its way to MAX: what a call runs now, and the swap once it is compiled.

The functions here are on the per-call path while a graph waits, so none of them is type-checked at
run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from max.engine import Model

from torch_max_backend import flags
from torch_max_backend.engine import fingerprint
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.lowering import graph_builder
from torch_max_backend.observe.profiling import timed
from torch_max_backend.program import BoxedCall, Kind, Program, TensorOutput, inverse
from torch_max_backend.runtime.call import boxed_call


class CompiledGraph:
    """Runs on PyTorch while it waits, on MAX once it is compiled."""

    def __init__(
        self,
        program: Program,
        eager: BoxedCall,
        kernels: Sequence[Path],
        what: str = "",
        kind: Kind = Kind.INFERENCE,
        may_fall_back: bool = False,
    ) -> None:
        self.program = program
        self.kernels = tuple(kernels)
        self.what = what
        self.kind = kind
        self.lowerings = graph_builder.lowerings(program)
        self.key = program.key(fingerprint.context(self.lowerings, kernels))
        self.portable = all(entry.builtin for entry in self.lowerings.values())
        """Another process may find it: its key holds nothing of this process alone."""
        self.may_fall_back = may_fall_back
        """If MAX refuses it, it stays on PyTorch, with a warning."""
        self.error: MaxCompilerError | None = None
        self.model: Model | None = None
        eager = _with_strides_of_max(eager, program)
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

    @property
    def settled(self) -> bool:
        """Whether what a call runs is final."""
        return self.model is not None or self.error is not None

    def __call__(self, args: list[Any]) -> list[Any]:
        return self.run(args)


class PartitionedGraph:
    """A graph of which some parts run on MAX (`islands`) and the rest on PyTorch.

    It runs on PyTorch as a whole until its last island is settled, so that a backward never meets
    a forward of which one half ran here and the other there.
    """

    def __init__(
        self,
        split: BoxedCall,
        eager: BoxedCall,
        islands: Sequence[CompiledGraph],
        kind: Kind,
    ) -> None:
        self.split = split
        self.islands = islands
        self.kind = kind
        self.eager = _marking(eager) if kind is Kind.FORWARD else eager
        self.run: BoxedCall = self._unsettled
        if all(island.settled for island in islands):
            self.run = split

    def _unsettled(self, args: list[Any]) -> list[Any]:
        if not all(island.settled for island in self.islands):
            return self.eager(args)
        # A forward of this function may be open since before the swap.
        backward = self.kind is Kind.BACKWARD
        self.run = _in_tier_of_forward(self.eager, self.split) if backward else self.split
        return self.run(args)

    def __call__(self, args: list[Any]) -> list[Any]:
        return self.run(args)


def _with_strides_of_max(eager: BoxedCall, program: Program) -> BoxedCall:
    """`eager` with results that lie in memory as MAX's do.

    A slice of a larger tensor has gaps on PyTorch and none on MAX. What Dynamo traced behind the
    one it would trace again behind the other: one more compile, just after the swap.
    """
    orders = [o.order if isinstance(o, TensorOutput) else None for o in program.outputs]

    def run(args: list[Any]) -> list[Any]:
        given = {id(argument) for argument in args}
        results = eager(args)
        for index, (result, order) in enumerate(zip(results, orders, strict=True)):
            if isinstance(result, torch.Tensor) and id(result) not in given:
                results[index] = _without_gaps(result, order)
        return results

    return run


def _without_gaps(tensor: torch.Tensor, order: tuple[int, ...] | None) -> torch.Tensor:
    if order is None:
        return tensor.contiguous()
    return tensor.permute(order).contiguous().permute(inverse(order))


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
