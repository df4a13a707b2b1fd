"""`profile()`: where the time of compiled functions goes, kernel by kernel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import sympy
import torch
from rich.console import Console, Group

from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.errors import ProfileError
from torch_max_backend.lowering.graph_builder import trace_tag
from torch_max_backend.program import BoxedCall, Program, SymbolInput, TensorInput
from torch_max_backend.runtime.call import Execute
from torch_max_backend.tools.profiler import chrome_trace, table, torch_trace
from torch_max_backend.tools.profiler.costs import Sizes
from torch_max_backend.tools.profiler.explain import Watched, explain
from torch_max_backend.tools.profiler.recorder import recorder
from torch_max_backend.tools.profiler.result import GraphCall, Kernel, KernelRun, Overhead, Result

_now = time.perf_counter_ns
_ACTIVE = threading.Lock()


class profile:
    """Measures the kernels of compiled functions that are called in the context.

    Nothing is compiled again, and functions that are not compiled yet are compiled as always. The
    first profile on a machine compiles the recorder, for about 6 s.

    >>> from torch_max_backend import profile
    >>> with profile() as p:
    ...     pass  # model(x), compiled with backend="max_backend"
    >>> print(p)  # doctest: +SKIP
    >>> p.save_chrome_trace("trace.json")  # doctest: +SKIP

    Call a function once before: the first call also compiles, packs weights and starts threads.
    `mebibytes` is the memory for events, about 200 bytes per kernel that runs.
    """

    def __init__(self, mebibytes: int = 64) -> None:
        self._mebibytes = mebibytes
        self._watch = _Watch()
        self._result: Result | None = None
        self._begin = 0

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to measure; for code that cannot use `with`."""
        if not _ACTIVE.acquire(blocking=False):
            raise ProfileError("another profile is recording: only one can at a time")
        try:
            self._result = None
            self._watch = _Watch()
            recorder().start(self._mebibytes)
            ENGINE.observe(self._watch)
        except BaseException:
            _ACTIVE.release()
            raise
        self._begin = _now()

    def stop(self) -> None:
        """End it: what was measured can be read from now on."""
        end = _now()
        ENGINE.observe(None)
        try:
            ranges, lost = recorder().stop()
        finally:
            _ACTIVE.release()
        self._result = explain(ranges, self._watch.calls, (self._begin, end), lost)
        self._watch = _Watch()  # it holds programs, and so tensors

    def cleanup(self) -> None:
        """Nothing to do; makes it an `execution_trace_observer` of `torch.profiler.profile`."""

    @property
    def result(self) -> Result:
        """All that was measured."""
        if self._result is None:
            raise ProfileError("a profile can be read when it has ended")
        return self._result

    @property
    def kernels(self) -> Sequence[Kernel]:
        """The kernels that ran, the one that took most time first."""
        return self.result.kernels

    @property
    def runs(self) -> Sequence[KernelRun]:
        """Each execution of a kernel, in the order of their beginnings."""
        return self.result.runs

    @property
    def calls(self) -> Sequence[GraphCall]:
        """Each call of a compiled graph."""
        return self.result.calls

    @property
    def overheads(self) -> Sequence[Overhead]:
        """What else took time."""
        return self.result.overheads

    @property
    def wall(self) -> float:
        """Seconds from the beginning of the context to its end."""
        return self.result.wall

    def save_chrome_trace(
        self, path: str | Path, torch_profiler: torch.profiler.profile | None = None
    ) -> None:
        """Write a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

        With a `torch.profiler.profile` of the same time that has ended, its events are in the file
        too.
        """
        chrome_trace.save(self.result, Path(path), torch_profiler)

    def add_to(self, torch_profiler: torch.profiler.profile) -> None:
        """Add the kernels to the events of a `torch.profiler.profile` that has ended.

        They are then in its `events()`, `key_averages()` and tables.
        """
        torch_trace.add(self.result, torch_profiler)

    def __rich__(self) -> Group:
        return table.render(self.result)

    def __str__(self) -> str:
        if self._result is None:
            return "a profile that has not ended"
        console = Console(width=160, color_system=None)
        with console.capture() as captured:
            console.print(self)
        return captured.get()


class _Watch:
    """Writes down when calls of graphs begin and end."""

    def __init__(self) -> None:
        self.calls: list[Watched] = []
        self._local = threading.local()

    def around_call(self, graph: CompiledGraph, run: BoxedCall) -> BoxedCall:
        program, graph_name = graph.program, graph.name  # the graph holds this function
        tag = trace_tag(program)
        read_sizes = _size_reader(program)
        what = graph.what or graph_name
        name = torch_trace.event_name(what)
        local = self._local

        def call(args: list[Any]) -> list[Any]:
            sizes = read_sizes(args)
            outer, local.execute = getattr(local, "execute", None), None
            with torch.profiler.record_function(name):
                begin = _now()
                try:
                    return run(args)
                finally:
                    end = _now()
                    thread = threading.get_native_id()
                    seen = GraphCall(graph_name, what, thread, begin, end, local.execute)
                    self.calls.append(Watched(seen, program, tag, sizes))
                    local.execute = outer

        return call

    def around_execute(self, graph: CompiledGraph, execute: Execute) -> Execute:
        local = self._local

        def run(buffers: list[Any]) -> list[Any]:
            begin = _now()
            try:
                return execute(buffers)
            finally:
                local.execute = (begin, _now())

        return run


def _size_reader(program: Program) -> Callable[[list[Any]], Sizes]:
    """Reads the values of symbolic sizes off the arguments of a call."""
    dims: list[tuple[str, int, int]] = []
    ints: list[tuple[str, int]] = []
    for position, item in enumerate(program.inputs):
        if isinstance(item, TensorInput):
            for dim, size in enumerate(item.spec.shape):
                if isinstance(size, sympy.Symbol):
                    dims.append((size.name, position, dim))
        elif isinstance(item, SymbolInput) and isinstance(item.expr, sympy.Symbol):
            ints.append((item.expr.name, position))

    def read(args: list[Any]) -> Sizes:
        sizes = {name: int(args[position].shape[dim]) for name, position, dim in dims}
        sizes.update((name, int(args[position])) for name, position in ints)
        return sizes

    return read
