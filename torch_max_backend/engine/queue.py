"""The compile queue: graphs wait here, and all that wait are compiled as one MAX Module.

A separate compile costs some 12 s whatever is in it, so the queue takes everything pending at once.
A Module that MAX refuses is halved until the guilty graph stands alone; only that one fails. The
only file that talks to MAX's compiler.
"""

from __future__ import annotations

import atexit
import functools
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from max import driver, engine
from max._core.mlrt import AsyncValue
from max._mlir_context import in_default_mlir_context
from max.engine import CompilationStopped, InferenceSession, Model
from max.graph import Module

from torch_max_backend.engine import artifacts, compile_history
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.errors import EngineError, FallbackWarning, MaxCompilerError
from torch_max_backend.lowering import graph_builder, mojo_kernels
from torch_max_backend.observe import progress, stats
from torch_max_backend.observe.profiling import report, show_max_graph


class Engine:
    """One per process: the session, the queue and the models compiled so far."""

    def __init__(self) -> None:
        self._pending: list[CompiledGraph] = []
        self._lock = threading.RLock()  # the queue
        self._building = threading.RLock()  # MLIR building
        self._compiling = threading.RLock()  # MAX's compiler; other graphs are built meanwhile
        self._inside_max = threading.RLock()  # calls of `_compile` into MAX that return soon
        self._abandoned: list[Module] = []
        self._worker: threading.Thread | None = None
        self._deferred = 0
        # A model lives as long as a function that uses it; an equal graph shares it until then.
        self._models: WeakValueDictionary[str, CompiledGraph] = WeakValueDictionary()
        self._loaded: dict[Path, list[Model]] = {}  # artifacts read from the store

    @functools.cached_property
    def session(self) -> InferenceSession:
        devices: list[driver.Device] = [
            driver.Accelerator(index) for index in range(driver.accelerator_count())
        ]
        return InferenceSession(devices=[*devices, driver.CPU()])

    @in_default_mlir_context  # entered for the main thread only, and users have others
    def lower(self, graph: CompiledGraph) -> None:
        """Raise the errors of the graph's own lowerings, unless it is known to compile."""
        if self._find(graph) is None:
            self._build([graph])

    @in_default_mlir_context
    def submit(self, graph: CompiledGraph, *, background: bool = False) -> None:
        """Queue a graph. In the `background`, calls run on PyTorch meanwhile."""
        if self.adopt(graph):
            return
        stats.count("graphs")
        stats.count("nodes_on_max", len(graph.program.calls))
        graph.ran_on_torch = background or self.deferring
        with self._lock:
            self._pending.append(graph)

    @in_default_mlir_context
    def adopt(self, graph: CompiledGraph) -> bool:
        """Make a graph ready whose model was compiled before; False if there is none."""
        model = self._find(graph)
        if model is None:
            return False
        stats.count("graphs")
        stats.count("nodes_on_max", len(graph.program.calls))
        stats.count("cache_hits")
        graph.ready(model)
        self._models[graph.key] = graph
        return True

    def _find(self, graph: CompiledGraph) -> Model | None:
        """The graph's model, compiled earlier in this process or in another one."""
        twin = self._models.get(graph.key)
        if twin is not None and twin.model is not None:
            return twin.model
        if not graph.portable:
            return None
        store = artifacts.default_store()
        found = store.find(graph.key) if store.limit else None
        if found is None:
            return None
        path, index = found
        with self._building:
            if path not in self._loaded:
                try:
                    start = time.perf_counter()
                    self._loaded[path] = self._models_of(engine.read(path))
                    report("load", time.perf_counter() - start, path.name)
                except Exception as error:
                    # Intact, yet MAX refuses it (another build of the engine): compile anew.
                    warnings.warn(
                        f"stored artifact {path.name} is not usable: {error}", stacklevel=2
                    )
                    store.forget(path)
                    return None
            return self._loaded[path][index]

    def _models_of(self, compiled: engine.CompiledModel) -> list[Model]:
        # In the Module's order, not by name: MAX's own cache finds a Module by its content and
        # returns it under the names that it was first compiled with.
        return list(self.session.init_all(compiled).values())

    def _store(self, graphs: Sequence[CompiledGraph], compiled: engine.CompiledModel) -> None:
        keys = [graph.key if graph.portable else None for graph in graphs]
        store = artifacts.default_store()
        if not any(keys) or not store.limit:
            return
        try:
            store.add(keys, compiled.export_mef)
        except OSError as error:
            warnings.warn(f"compiled graphs could not be kept for next time: {error}", stacklevel=2)

    @property
    def deferring(self) -> bool:
        """Whether a `compile_together()` block is open."""
        return self._deferred > 0

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
        if not self._compiling.acquire(timeout=-1 if timeout is None else timeout):
            raise TimeoutError(f"graphs were still compiling after {timeout} s")
        try:
            with self._lock:
                waiting, self._pending = self._pending, []
            if waiting:
                self._compile_all(waiting)
        finally:
            self._compiling.release()

    def wait(self, timeout: float | None = None) -> None:
        """Return when nothing waits: the background has finished, and the rest is compiled here."""
        with self._lock:
            if not self.deferring and any(graph.ran_on_torch for graph in self._pending):
                self.flush_in_background()  # traced in tiers, and not called yet
            worker = self._worker
        if worker is not None:
            worker.join(timeout)
            if worker.is_alive():
                raise TimeoutError(f"graphs were still compiling after {timeout} s")
        self.flush(timeout)

    def flush_in_background(self) -> None:
        """Compile what waits in a thread; what fails stays on PyTorch, with a warning."""
        with self._lock:
            if self._worker is None:
                self._worker = threading.Thread(
                    target=self._work, name="max_backend compiles", daemon=True
                )
                self._worker.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._pending:
                    self._worker = None
                    return
            try:
                self.flush()
            except MaxCompilerError as error:
                warnings.warn(f"a graph stays on PyTorch: {error}", stacklevel=2)

    def _compile_all(self, graphs: list[CompiledGraph]) -> None:
        distinct = {graph.key: graph for graph in graphs}
        nodes = sum(len(graph.program.calls) for graph in distinct.values())
        kept = bool(artifacts.default_store().limit) and any(g.portable for g in graphs)
        expected = compile_history.expected_seconds(nodes)
        start = time.perf_counter()
        with progress.compiling(len(distinct), nodes, expected, kept):
            self._compile(list(distinct.values()))
        seconds = time.perf_counter() - start
        _remember(len(distinct), nodes, seconds)
        stats.count("compile_seconds", seconds)
        report("compile", seconds, f"{len(distinct)} graphs, {nodes} nodes")
        failed = []
        for graph in graphs:
            twin = distinct[graph.key]
            if twin.model is None:
                graph.error = twin.error
                if graph.may_fall_back:
                    _stay_on_torch(graph)
                else:
                    failed.append(graph)
                continue
            if graph is not twin:
                graph.ready(twin.model)
            self._models[graph.key] = graph
        if failed:
            first = failed[0].error
            assert first is not None
            if len(failed) > 1:
                raise EngineError(f"{len(failed)} graphs failed to compile; the first:\n{first}")
            raise first

    def _compile(self, graphs: list[CompiledGraph], verified: bool = False) -> None:
        """Compile `graphs` as one Module; on failure find the guilty ones."""
        try:
            for package in _kernels(graphs):
                mojo_kernels.precompile(package)  # before `_build` does: `close` waits for that
            with self._inside_max:
                module = self._build(graphs)
                stats.count("modules")
                compiled = self.session.compile_async(module, custom_extensions=_kernels(graphs))
            try:
                self._await(compiled)
            except KeyboardInterrupt:
                self._abandoned.append(module)  # MAX goes on reading it
                raise
            with self._inside_max:
                self._store(graphs, compiled)
                models = self._models_of(compiled)
        except Exception as error:
            if len(graphs) == 1:
                _fail(graphs[0], error)
                return
            if not verified:
                # MAX's verifier takes a second where its compiler takes twelve and more.
                good = self._verify(graphs)
                if len(good) < len(graphs):
                    if good:
                        self._compile(good, verified=True)
                    return
            half = len(graphs) // 2
            self._compile(graphs[:half], verified=True)
            self._compile(graphs[half:], verified=True)
            return
        for graph, model in zip(graphs, models, strict=True):
            graph.ready(model)

    def _await(self, compiled: engine.CompiledModel) -> None:
        """Wait in Python, not in MAX: there Ctrl-C would have no effect until the end.

        A thread that waits in MAX while Python shuts down would abort the process as well.
        """
        handle = compiled._compiled
        if isinstance(handle, AsyncValue):
            while not handle.done():
                time.sleep(0.005)
            error = handle.exception()
            if error is not None:
                raise error

    def close(self) -> None:
        """For the end of the process: a compile in the background goes no further.

        When Python ends, it ends its daemon threads as they ask for the GIL; one that comes back
        from MAX's C++ then aborts the process. So this waits, a second or two at most, until the
        background is not in there, and keeps it out. MAX's own threads end with the process.
        """
        self._inside_max.acquire()

    def _verify(self, graphs: list[CompiledGraph]) -> list[CompiledGraph]:
        """Those of `graphs` that pass MAX's verifier; the others are marked failed."""
        error = self._verification_error(graphs)
        if error is None:
            return graphs
        if len(graphs) == 1:
            _fail(graphs[0], error)
            return []
        half = len(graphs) // 2
        return self._verify(graphs[:half]) + self._verify(graphs[half:])

    def _verification_error(self, graphs: list[CompiledGraph]) -> Exception | None:
        InferenceSession.debug.pre_jit = True
        try:
            with self._inside_max:
                self.session.compile(self._build(graphs), custom_extensions=_kernels(graphs))
        except CompilationStopped:
            return None
        except Exception as error:
            return error
        finally:
            InferenceSession.debug.pre_jit = False
        return None

    def _build(self, graphs: Sequence[CompiledGraph]) -> Module:
        for package in _kernels(graphs):
            mojo_kernels.precompile(package)
        with self._building:
            start = time.perf_counter()
            module = Module()
            built = [
                graph_builder.build(
                    graph.program, graph.lowerings, module, f"graph{index}", graph.kernels
                )
                for index, graph in enumerate(graphs)
            ]
            # Constants live as long as their Graph, and MAX reads them while compiling.
            module.graphs = built  # type: ignore[attr-defined]
            for graph in built:
                show_max_graph(graph)
            report("lower", time.perf_counter() - start, f"{len(graphs)} graphs")
            return module


def _stay_on_torch(graph: CompiledGraph) -> None:
    nodes = len(graph.program.calls)
    stats.count("nodes_on_max", -nodes)
    stats.count("nodes_on_torch", nodes)
    warnings.warn(f"a graph stays on PyTorch: {graph.error}", FallbackWarning, stacklevel=2)


def _remember(graphs: int, nodes: int, seconds: float) -> None:
    try:
        compile_history.record(graphs, nodes, seconds)
    except OSError as error:
        warnings.warn(f"the time of a compile could not be kept: {error}", stacklevel=2)


def _kernels(graphs: Sequence[CompiledGraph]) -> list[Path]:
    return list(dict.fromkeys(path for graph in graphs for path in graph.kernels))


def _fail(graph: CompiledGraph, error: Exception) -> None:
    """Mark a graph as failed, with our own error or with MAX's message."""
    if isinstance(error, MaxCompilerError):  # its lowering
        graph.error = error
        return
    graph.error = _engine_error(graph, error)
    graph.error.__cause__ = error


def _engine_error(graph: CompiledGraph, error: Exception) -> EngineError:
    messages = []
    cause: BaseException | None = error
    while cause is not None:
        messages.append(str(cause).strip())
        cause = cause.__cause__
    sources = [call.source for call in graph.program.calls if call.source]
    where = f"\n  from {sources[0]} ... {sources[-1]}" if sources else ""
    return EngineError(
        f"MAX could not compile a graph of {len(graph.program.calls)} nodes{where}\n"
        f"  MAX says: {messages[-1][:2000]}"
    )


ENGINE = Engine()
atexit.register(ENGINE.close)


def kernel_packages(folders: Sequence[str] = ()) -> list[Path]:
    """The kernel packages: ours, and those of the user's folders; precompiled when needed."""
    return [mojo_kernels.package(), *(mojo_kernels.package(Path(folder)) for folder in folders)]


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
    """Return when no graph waits for MAX's compiler; `TimeoutError` after `timeout` seconds."""
    ENGINE.wait(timeout)
