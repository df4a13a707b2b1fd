"""The compile queue: graphs wait here, and all that wait are compiled as one MAX Module.

A separate compile takes at least 12 s, whatever its size, so the queue takes everything pending at
once. Waiting for it at once, at the end of `compile_together()` or in the background are three ways
to wait for the same queue.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakSet

from max.engine import Model

from torch_max_backend.compat.max import in_default_mlir_context
from torch_max_backend.engine import artifacts, compile_history
from torch_max_backend.engine.graph import CompiledGraph, LoadedArtifact, Observer, State
from torch_max_backend.engine.library import Found, Library
from torch_max_backend.engine.module_compiler import COMPILER, ModuleCompiler
from torch_max_backend.errors import EngineError, FallbackWarning, MaxCompilerError
from torch_max_backend.observe import progress, stats
from torch_max_backend.observe.held_warnings import hold_warnings, warn
from torch_max_backend.observe.profiling import report


class _Compile:
    """A compile that runs, of the thread that waits for it."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.done = threading.Event()


class Engine:
    """One per process: the graphs that wait, and the models compiled so far."""

    def __init__(self, compiler: ModuleCompiler) -> None:
        self._compiler = compiler
        self._library = Library(compiler.read)
        self._pending: list[CompiledGraph] = []
        self._lock = threading.RLock()  # the queue
        self._compiles: list[_Compile] = []  # that run now
        self._worker: threading.Thread | None = None
        self._deferred = 0
        self._graphs: WeakSet[CompiledGraph] = WeakSet()
        self._forked = False
        self._observer: Observer | None = None

    def observe(self, observer: Observer | None) -> None:
        """Let `observer` see the calls of all graphs, also of those still to come; None: nobody."""
        with self._lock:
            self._observer = observer
            for graph in list(self._graphs):
                graph.observe(observer)

    def after_fork(self) -> None:
        """In a forked child: MAX's threads are missing, so everything runs on PyTorch."""
        self._lock = threading.RLock()
        self._compiles = []
        self._worker = None
        self._pending.clear()
        self._forked = self._forked or self._compiler.started
        self._compiler.after_fork()
        if self._forked:
            for graph in self._graphs:
                graph.leave_max()

    @in_default_mlir_context  # entered for the main thread only, and users have others
    def submit(self, graphs: Sequence[CompiledGraph], *, background: bool = False) -> None:
        """Make each graph ready if it was compiled before, else queue it.

        Raises the errors of their lowerings, and then queues none of them. In the `background`,
        calls run on PyTorch meanwhile, and lowering is the background's work too.
        """
        if self._forked:
            self._refuse(graphs)
            return
        found = [(graph, self._library.find(graph)) for graph in graphs]
        missing = [graph for graph, model in found if model is None]
        if missing:
            self._compiler.prepare()
        if missing and not background:
            self._lower(missing)
        for graph, model in found:
            stats.count("graphs")
            stats.count("nodes_on_max", graph.program.nodes)
            if model is not None:
                self._adopt(graph, model)
            else:
                graph.queue(called_meanwhile=background or self.deferring)
                self._watch(graph)
        with self._lock:
            self._pending.extend(missing)

    def _lower(self, graphs: Sequence[CompiledGraph]) -> None:
        """Lower graphs, each content once."""
        with self._lock:
            lowered = {graph.key: graph.lowered for graph in self._pending}
        new = [graph for graph in graphs if lowered.get(graph.key) is None]
        self._compiler.lower(list({graph.key: graph for graph in new}.values()))
        lowered |= {graph.key: graph.lowered for graph in new if graph.lowered is not None}
        for graph in graphs:
            graph.lowered = lowered[graph.key]

    @in_default_mlir_context
    def find(self, graph: CompiledGraph) -> bool:
        """Make a graph ready if it was compiled before; False if it was not."""
        model = None if self._forked else self._library.find(graph)
        if model is None:
            return False
        stats.count("graphs")
        stats.count("nodes_on_max", graph.program.nodes)
        self._adopt(graph, model)
        return True

    def adopt(self, graph: CompiledGraph, model: Model, artifact: LoadedArtifact) -> None:
        """Make a graph ready with a model that was compiled elsewhere: of a package."""
        if self._forked:
            self._refuse([graph])
            return
        stats.count("graphs")
        stats.count("nodes_on_max", graph.program.nodes)
        self._adopt(graph, Found(model, artifact))

    @in_default_mlir_context
    def read(self, artifact: bytes) -> list[Model]:
        """The models of an artifact, in the order of its graphs."""
        return self._compiler.read(artifact)

    @in_default_mlir_context
    def artifacts_of(self, graphs: Sequence[CompiledGraph]) -> list[tuple[bytes, int]]:
        """For each graph that is ready, the artifact that holds its code, and its place there.

        What the store has lost meanwhile is compiled again.
        """
        found = {graph.key: self._library.stored(graph) for graph in graphs}
        missing = {graph.key: graph for graph in graphs if found[graph.key] is None}

        def keep(part: Sequence[CompiledGraph], artifact: bytes) -> None:
            found.update((graph.key, (artifact, i)) for i, graph in enumerate(part))

        outcomes = self._compiler.compile(list(missing.values()), keep) if missing else []
        for outcome in outcomes:
            if isinstance(outcome, MaxCompilerError):
                raise outcome
        return [known for graph in graphs if (known := found[graph.key]) is not None]

    def stored_modules(self) -> dict[str, tuple[list[str | None], bytes]]:
        """The stored Modules of this process's graphs by name: keys in order, and the code."""
        with self._lock:
            graphs = [graph for graph in self._graphs if graph.state is State.READY]
        found: dict[str, tuple[list[str | None], bytes]] = {}
        for graph in graphs:
            if (stored := self._library.stored(graph)) is None:
                continue
            artifact, place = stored
            name = hashlib.sha256(artifact).hexdigest()
            keys, _ = found.setdefault(name, ([], artifact))
            keys.extend([None] * (place + 1 - len(keys)))
            keys[place] = graph.key
        return found

    @in_default_mlir_context
    def check(self, graph: CompiledGraph) -> None:
        """Raise the errors of a graph's lowerings, unless it was compiled before; queue nothing."""
        if self._library.find(graph) is None:
            self._compiler.check(graph)

    def _adopt(self, graph: CompiledGraph, found: Found) -> None:
        stats.count("cache_hits")
        graph.ready(found.model, found.artifact)
        self._watch(graph)
        self._library.add(graph)

    def _watch(self, graph: CompiledGraph) -> None:
        with self._lock:
            self._graphs.add(graph)
            if self._observer is not None:
                graph.observe(self._observer)

    def _refuse(self, graphs: Sequence[CompiledGraph]) -> None:
        for graph in graphs:
            stats.count("graphs")
            stats.count("nodes_on_max", graph.program.nodes)
            graph.fail(
                EngineError(
                    "this process was forked from one that uses MAX, and MAX's threads do not "
                    "survive a fork; start it with multiprocessing's spawn or forkserver to use MAX"
                )
            )
        _report_failures(graphs)

    @property
    def deferring(self) -> bool:
        """Whether a `compile_together()` block is open."""
        return self._deferred > 0

    @property
    def waiting(self) -> tuple[CompiledGraph, ...]:
        """The graphs in the queue, the first to come first."""
        with self._lock:
            return tuple(self._pending)

    def drop_waiting(self) -> None:
        """Empty the queue: its graphs stay on PyTorch."""
        with self._lock:
            self._pending.clear()

    @contextmanager
    def defer(self) -> Iterator[None]:
        """Inside, `flush` is put off; leaving the outermost block compiles all that waits."""
        with self._lock:
            self._deferred += 1
        try:
            yield
        finally:
            with self._lock:
                self._deferred -= 1
                last = self._deferred == 0
            if last:
                self.flush()

    @in_default_mlir_context
    def flush(self, timeout: float | None = None) -> None:
        """Compile everything that waits, and wait for compiles of other threads."""
        compile = _Compile(threading.get_ident())
        with self._lock:
            waiting, self._pending = self._pending, []
            others = [other for other in self._compiles if other.thread != compile.thread]
            self._compiles.append(compile)
        try:
            if waiting:
                with hold_warnings():  # an error, with -W error, which must not lose a graph
                    self._compile(waiting)
        finally:
            with self._lock:
                if compile in self._compiles:  # not after a fork
                    self._compiles.remove(compile)
            compile.done.set()
        for other in others:
            if not other.done.wait(timeout):
                raise TimeoutError(f"graphs were still compiling after {timeout} s")

    def wait(self, timeout: float | None = None) -> None:
        """Return when nothing waits: the background has finished, and the rest is compiled here."""
        with self._lock:
            if not self.deferring and any(g.called_on_torch_meanwhile for g in self._pending):
                self.flush_in_background()  # traced in tiers, and not called yet
            worker = self._worker
        if worker is not None:
            worker.join(timeout)
            if worker.is_alive():
                raise TimeoutError(f"graphs were still compiling after {timeout} s")
        self.flush(timeout)

    def flush_in_background(self) -> None:
        """Compile what waits in a thread; what fails stays on PyTorch, with a warning."""
        if self.deferring:
            return  # the end of the block compiles it
        with self._lock:
            if self._worker is None:
                self._worker = threading.Thread(
                    target=self._work, name="max_backend compiles", daemon=True
                )
                self._worker.start()

    def _work(self) -> None:
        try:
            while True:
                with self._lock:
                    if not self._pending:
                        self._worker = None
                        return
                try:
                    self.flush()
                except Exception as error:  # of a graph that may not fall back; the others go on
                    _tell_from_background(error)
        finally:
            with self._lock:  # whatever ended it, the next graph starts another one
                if self._worker is threading.current_thread():
                    self._worker = None

    def _compile(self, graphs: Sequence[CompiledGraph]) -> None:
        by_key: dict[str, CompiledGraph] = {}
        for graph in graphs:
            by_key.setdefault(graph.key, graph)
        distinct = list(by_key.values())  # in the order in which they were lowered
        nodes = sum(graph.program.nodes for graph in distinct)
        kept = bool(artifacts.default_store().limit) and any(g.portable for g in graphs)
        kernels = len(set().union(*(graph.program.signatures() for graph in distinct)))
        expected = compile_history.expected_seconds(kernels)
        start = time.perf_counter()
        try:
            with progress.compiling(len(distinct), nodes, expected, kept) as done:

                def keep(part: Sequence[CompiledGraph], artifact: bytes) -> None:
                    self._library.keep(part, artifact)
                    done(len(part))

                outcomes = self._compiler.compile(distinct, keep)
        except KeyboardInterrupt:
            with self._lock:  # they wait for the next flush
                self._pending[:0] = graphs
            raise
        except Exception as error:  # not of a graph: no graph must wait for ever
            failure = EngineError(f"the compile ended early: {type(error).__name__}: {error}")
            failure.__cause__ = error
            outcomes = [failure for _ in distinct]
        seconds = time.perf_counter() - start
        _remember(len(distinct), kernels, seconds)
        stats.count("compile_seconds", seconds)
        report("compile", seconds, f"{len(distinct)} graphs, {nodes} nodes")
        outcome_of = dict(zip(by_key, outcomes, strict=True))
        for graph in graphs:
            outcome = outcome_of[graph.key]
            if isinstance(outcome, MaxCompilerError):
                graph.fail(outcome)
            else:
                graph.ready(outcome)
                self._watch(graph)
                self._library.add(graph)
        _report_failures([graph for graph in graphs if graph.state is State.FAILED])


def _report_failures(failed: Sequence[CompiledGraph]) -> None:
    """Warn of graphs that stay on PyTorch; raise the errors of those that may not."""
    errors = [
        graph.error for graph in failed if graph.error is not None and not graph.may_fall_back
    ]
    for graph in failed:
        if graph.may_fall_back:
            nodes = graph.program.nodes
            stats.count("nodes_on_max", -nodes)
            stats.count("nodes_on_torch", nodes)
            warn(f"a graph stays on PyTorch: {graph.error}", FallbackWarning)
    if len(errors) > 1:
        raise EngineError(f"{len(errors)} graphs failed to compile; the first:\n{errors[0]}")
    if errors:
        raise errors[0]


def _remember(graphs: int, kernels: int, seconds: float) -> None:
    try:
        compile_history.record(graphs, kernels, seconds)
    except OSError as error:
        warn(f"the time of a compile could not be kept: {error}")


def _tell_from_background(error: Exception) -> None:
    """Warn of an error that no caller gets; with -W error, print it."""
    try:
        if isinstance(error, Warning):
            raise error
        warnings.warn(f"a graph stays on PyTorch: {error}", FallbackWarning, stacklevel=2)
    except Warning:
        traceback.print_exc()


ENGINE = Engine(COMPILER)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ENGINE.after_fork)


@contextmanager
def compile_together() -> Iterator[None]:
    """Compile many functions at once, in about the time of one.

    Inside the block, a compiled function's first calls run on PyTorch and its graphs wait; leaving
    the block compiles them all as one MAX Module. Errors of MAX's compiler are raised then.

    >>> from torch_max_backend import compile_together
    >>> with compile_together():
    ...     pass  # f(x); g(y); each compiled with backend="max_backend"
    """
    with ENGINE.defer():
        yield


def wait_for_compiles(timeout: float | None = None) -> None:
    """Return when no graph waits for MAX's compiler; `TimeoutError` after `timeout` seconds.

    >>> from torch_max_backend import wait_for_compiles
    >>> wait_for_compiles()
    """
    ENGINE.wait(timeout)
