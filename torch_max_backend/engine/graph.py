"""A graph on its way to MAX: queued, then ready or failed, and what a call runs in each state.

The functions here are on the per-call path, so none of them is type-checked at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from max.engine import Model

from torch_max_backend import flags
from torch_max_backend.engine import fingerprint
from torch_max_backend.engine.targets import NATIVE
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.observe.profiling import timed
from torch_max_backend.program import BoxedCall, Kind, Output, Program, TensorOutput, inverse
from torch_max_backend.runtime.call import Execute, WrapExecute, boxed_call
from torch_max_backend.runtime.returned_views import view_restorer


class State(Enum):
    """Where a graph is."""

    QUEUED = "queued"
    """A call runs on PyTorch."""
    READY = "ready"
    """A call runs on MAX."""
    FAILED = "failed"
    """MAX could not compile it; a call runs on PyTorch."""


class LoadedArtifact:
    """The models of a stored Module, in its order; freed with the last graph that holds it."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = models


@runtime_checkable
class Observer(Protocol):
    """Sees the calls of graphs. It is put around what a call runs; a call asks for nobody."""

    def around_call(self, graph: CompiledGraph, run: BoxedCall) -> BoxedCall:
        """What is called instead of `run`."""

    def around_execute(self, graph: CompiledGraph, execute: Execute) -> Execute:
        """What runs the model instead of `execute`."""


class CompiledGraph:
    """Runs on PyTorch while it is queued, on MAX once it is ready.

    Every transition is a method of this class: `queue`, `ready`, `fail`. What a call runs (`run`)
    is replaced in one assignment, between two calls.
    """

    def __init__(
        self,
        program: Program,
        eager: BoxedCall,
        kernels: Sequence[Path],
        what: str = "",
        kind: Kind = Kind.INFERENCE,
        may_fall_back: bool = False,
        target: str = NATIVE,
        has_code: bool = False,
    ) -> None:
        self.program = program
        self.target = target
        """The CPU that its code is for."""
        self.kernels = tuple(kernels)
        self.what = what
        self.kind = kind
        self.lowerings = {} if has_code else _lowerings(program)
        """Empty if its code came with it, as that of a package does: it is never lowered."""
        self.key = program.key(fingerprint.context(self.lowerings, kernels, target))
        self.portable = all(entry.builtin for entry in self.lowerings.values())
        """Another process may find it: its key depends on nothing of this process alone."""
        self.may_fall_back = may_fall_back
        """If MAX cannot compile it, it stays on PyTorch, with a warning."""
        self.lowered: bytes | None = None
        """What the compiler gets: MLIR in binary form, from lowering to the end of the compile."""
        self.state = State.QUEUED
        self.model: Model | None = None
        self.error: MaxCompilerError | None = None
        eager = _with_strides_of_max(eager, program)
        self._eager = _marking(eager, program.captured) if kind is Kind.FORWARD else eager
        self._called_before_ready = False
        self.artifact: LoadedArtifact | None = None
        """Keeps the artifact loaded that the model came from."""
        self.run: BoxedCall = self._eager
        self._unobserved: BoxedCall | None = None
        """What a call runs on MAX when nobody looks."""
        self._wrap_execute: WrapExecute | None = None

    @property
    def name(self) -> str:
        """Of the MAX graph."""
        return f"graph_{self.key[:24]}"

    def queue(self, *, called_meanwhile: bool) -> None:
        """Wait for the compiler; `called_meanwhile` if calls may run on PyTorch until then."""
        self._expect(State.QUEUED)
        self._called_before_ready = called_meanwhile

    def ready(self, model: Model, artifact: LoadedArtifact | None = None) -> None:
        """From the next call on, run on MAX; `artifact` is kept as long as this graph."""
        self._expect(State.QUEUED)
        run, self._wrap_execute = boxed_call(self.program, model)
        if self.kind is Kind.BACKWARD and self._called_before_ready:
            run = _in_tier_of_forward(self._eager, run)
        self.model, self.artifact, self.state = model, artifact, State.READY
        self.run = self._unobserved = timed(run, self.what) if flags.profile() else run

    def observe(self, observer: Observer | None) -> None:
        """From the next call on, let `observer` see the calls, or nobody; a graph that is ready."""
        if self._unobserved is None or self._wrap_execute is None:
            return
        if observer is None:
            self._wrap_execute(None)
            self.run = self._unobserved
        else:
            self._wrap_execute(partial(observer.around_execute, self))
            self.run = observer.around_call(self, self._unobserved)

    def fail(self, error: MaxCompilerError) -> None:
        """MAX could not compile it: calls go on running on PyTorch."""
        self._expect(State.QUEUED)
        self.error, self.state = error, State.FAILED

    def leave_max(self) -> None:
        """Run on PyTorch from now on: in a forked child, where MAX's threads are missing."""
        self.run, self._unobserved = self._eager, None

    def _expect(self, state: State) -> None:
        if self.state is not state:
            raise AssertionError(
                f"the graph {self.what!r} is {self.state.value}, not {state.value}"
            )

    @property
    def settled(self) -> bool:
        """Whether what a call runs is final."""
        return self.state is not State.QUEUED

    @property
    def called_on_torch_meanwhile(self) -> bool:
        """Whether calls may have run on PyTorch since it was queued."""
        return self._called_before_ready

    def __call__(self, args: list[Any]) -> list[Any]:
        return self.run(args)

    def as_function(self, *, single: bool = False) -> Callable[..., Any]:
        """A function of separate arguments; with `single`, of one result that is not in a list."""

        def call(*args: Any) -> Any:
            results = self.run(list(args))
            return results[0] if single else results

        return call


def _lowerings(program: Program) -> dict[Any, Any]:
    # Imported here: a process that only runs compiled code does without them.
    from torch_max_backend.lowering import graph_builder

    return graph_builder.lowerings(program)


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
        small: bool = False,
    ) -> None:
        self.islands = islands
        self.kind = kind
        self.small = small
        """Whether it is on PyTorch because PyTorch is faster, not because MAX cannot run it."""
        self._split = split
        captured = [tensor for island in islands for tensor in island.program.captured]
        self._eager = _marking(eager, captured) if kind is Kind.FORWARD else eager
        self.run: BoxedCall = self._unsettled
        if all(island.settled for island in islands):
            self.run = split

    def _unsettled(self, args: list[Any]) -> list[Any]:
        if not all(island.settled for island in self.islands):
            return self._eager(args)
        # A forward of this function may be open since before the swap.
        backward = self.kind is Kind.BACKWARD
        self.run = _in_tier_of_forward(self._eager, self._split) if backward else self._split
        return self.run(args)

    def __call__(self, args: list[Any]) -> list[Any]:
        return self.run(args)


def _with_strides_of_max(eager: BoxedCall, program: Program) -> BoxedCall:
    """`eager` with results that lie in memory as MAX's do.

    A slice of a larger tensor has gaps on PyTorch and none on MAX. What Dynamo traced behind the
    one it would trace again behind the other: one more compile, just after the swap.
    """
    orders = [_order(o) for o in program.outputs]
    views = view_restorer(program.inputs, [getattr(o, "view", None) for o in program.outputs])

    def run(args: list[Any]) -> list[Any]:
        restore = views(args) if views is not None else None
        given = {id(argument) for argument in args}
        results = eager(args)
        for index, (result, order) in enumerate(zip(results, orders, strict=True)):
            if isinstance(result, torch.Tensor) and id(result) not in given:
                results[index] = _without_gaps(result, order)
        return restore(results) if restore is not None else results

    return run


def _order(output: Output) -> tuple[int, ...] | None:
    """Of the dims of a result, without that of the parts of complex numbers."""
    if not isinstance(output, TensorOutput) or output.order is None:
        return None
    return output.order[:-1] if output.is_complex else output.order


def _without_gaps(tensor: torch.Tensor, order: tuple[int, ...] | None) -> torch.Tensor:
    if order is None:
        return tensor.contiguous()
    return tensor.permute(order).contiguous().permute(inverse(order))


_MARK = "_ran_on_torch"


def _marking(eager: BoxedCall, captured: Sequence[torch.Tensor]) -> BoxedCall:
    """`eager`, marking its results: a backward finds among its arguments who ran its forward.

    An argument or a constant that the forward hands on lives longer than the call: marked, it
    would send every later backward to PyTorch.
    """
    kept = {id(tensor) for tensor in captured}

    def run(args: list[Any]) -> list[Any]:
        given = kept.union(map(id, args))
        arguments = list(args)  # alive, so that no result takes the id of one that was freed
        results = eager(args)
        for result in results:
            if isinstance(result, torch.Tensor) and id(result) not in given:
                setattr(result, _MARK, True)
        del arguments
        return results

    return run


def _in_tier_of_forward(eager: BoxedCall, compiled: BoxedCall) -> BoxedCall:
    """A backward that runs where its forward ran, for forwards still open at the swap."""

    def run(args: list[Any]) -> list[Any]:
        if any(hasattr(argument, _MARK) for argument in args):
            return eager(args)
        return compiled(args)

    return run
