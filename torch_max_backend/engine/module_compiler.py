"""Graphs to compiled models: builds a MAX Module, compiles it, finds the graph that MAX rejects.

The only file that calls MAX's compiler. A graph is lowered into the open Module as it arrives,
which raises the errors of its lowerings at once. A batch that is exactly what the open Module holds
is compiled as it is, without lowering it again. A Module that MAX rejects is halved until the
failing graph stands alone; only that one fails.
"""

from __future__ import annotations

import atexit
import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from max import driver, engine
from max.engine import CompilationStopped, InferenceSession, Model
from max.graph import Graph, Module

from torch_max_backend.compat.max import compile_handle
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.errors import EngineError, MaxCompilerError
from torch_max_backend.lowering import graph_builder, mojo_kernels
from torch_max_backend.observe import stats
from torch_max_backend.observe.profiling import report, show_max_graph

Outcome = Model | MaxCompilerError
Keep = Callable[[Sequence[CompiledGraph], engine.CompiledModel], None]


@dataclass
class _OpenModule:
    """A Module with the graphs that are lowered into it so far."""

    module: Module = field(default_factory=Module)
    graphs: list[CompiledGraph] = field(default_factory=list)
    built: list[Graph] = field(default_factory=list)

    def lower(self, graph: CompiledGraph) -> None:
        """Add a graph; after an error the Module holds half of it and is of no use."""
        name = f"graph{len(self.built)}"
        built = graph_builder.build(
            graph.program, graph.lowerings, self.module, name, graph.kernels
        )
        show_max_graph(built)
        self.graphs.append(graph)
        self.built.append(built)

    @property
    def keys(self) -> list[str]:
        return [graph.key for graph in self.graphs]


class ModuleCompiler:
    """One per process: MAX's session, and the Module that graphs are being lowered into."""

    def __init__(self) -> None:
        self._building = threading.RLock()  # MLIR is built by one thread at a time
        self._inside_max = threading.RLock()  # calls into MAX that return soon
        self._open = _OpenModule()
        self._abandoned: list[_OpenModule] = []

    @functools.cached_property
    def session(self) -> InferenceSession:
        devices: list[driver.Device] = [
            driver.Accelerator(index) for index in range(driver.accelerator_count())
        ]
        return InferenceSession(devices=[*devices, driver.CPU()])

    @property
    def started(self) -> bool:
        """Whether MAX runs in this process."""
        return "session" in self.__dict__

    def after_fork(self) -> None:
        """In a forked child: locks that a thread of the parent may have held are made anew."""
        self._building = threading.RLock()
        self._inside_max = threading.RLock()
        self._open = _OpenModule()

    def check(self, graph: CompiledGraph) -> None:
        """Raise the errors of a graph's own lowerings."""
        self._build([graph])

    def lower(self, graphs: Sequence[CompiledGraph]) -> None:
        """Lower graphs that will be compiled; an error leaves none of them in the open Module."""
        for package in _kernels(graphs):
            mojo_kernels.precompile(package)
        with self._building:
            start = time.perf_counter()
            known = set(self._open.keys)
            try:
                for graph in graphs:
                    if graph.key not in known:
                        known.add(graph.key)
                        self._open.lower(graph)
            except BaseException:
                self._open = _OpenModule()  # the graphs before it are lowered again when compiled
                raise
            report("lower", time.perf_counter() - start, f"{len(graphs)} graphs")

    def discard(self) -> None:
        """Forget what was lowered and is not compiled yet."""
        with self._building:
            self._open = _OpenModule()

    def read(self, path: Path) -> list[Model]:
        """The models of a stored artifact."""
        with self._building:
            return self._models_of(engine.read(path))

    def compile(self, graphs: Sequence[CompiledGraph], keep: Keep) -> list[Outcome]:
        """Compile distinct graphs as one Module: for each its model, or why it has none.

        `keep` is called with each Module that was compiled, and the graphs that are in it.
        """
        outcomes: dict[str, Outcome] = {}
        self._compile(list(graphs), keep, outcomes)
        return [outcomes[graph.key] for graph in graphs]

    def _compile(
        self,
        graphs: list[CompiledGraph],
        keep: Keep,
        outcomes: dict[str, Outcome],
        verified: bool = False,
    ) -> None:
        try:
            models = self._compile_module(graphs, keep)
        except Exception as error:
            if len(graphs) == 1:
                outcomes[graphs[0].key] = _failure(graphs[0], error)
                return
            if not verified:
                # MAX's verifier takes a second where its compiler takes twelve and more.
                rejected = self._verify(graphs)
                if rejected:
                    outcomes.update(rejected)
                    rest = [graph for graph in graphs if graph.key not in rejected]
                    if rest:
                        self._compile(rest, keep, outcomes, verified=True)
                    return
            half = len(graphs) // 2
            for part in (graphs[:half], graphs[half:]):
                self._compile(part, keep, outcomes, verified=True)
        else:
            outcomes.update(zip((graph.key for graph in graphs), models, strict=True))

    def _compile_module(self, graphs: list[CompiledGraph], keep: Keep) -> list[Model]:
        for package in _kernels(graphs):
            mojo_kernels.precompile(package)  # before entering MAX: `close` waits for that
        with self._inside_max:
            # Constants live as long as their Graph, and MAX reads them while compiling.
            opened = self._take(graphs)
            stats.count("modules")
            compiled = self.session.compile_async(opened.module, custom_extensions=_kernels(graphs))
        try:
            self._await(compiled)
        except KeyboardInterrupt:
            self._abandoned.append(opened)  # MAX goes on reading it
            raise
        with self._inside_max:
            keep(graphs, compiled)
            return self._models_of(compiled)

    def _take(self, graphs: Sequence[CompiledGraph]) -> _OpenModule:
        """The Module of exactly these graphs, in this order; the next graph opens another one."""
        with self._building:
            if self._open.keys == [graph.key for graph in graphs]:
                opened, self._open = self._open, _OpenModule()
                return opened
            if set(self._open.keys) & {graph.key for graph in graphs}:
                self._open = _OpenModule()
            return self._build(graphs)

    def _build(self, graphs: Sequence[CompiledGraph]) -> _OpenModule:
        for package in _kernels(graphs):
            mojo_kernels.precompile(package)
        with self._building:
            start = time.perf_counter()
            opened = _OpenModule()
            for graph in graphs:
                opened.lower(graph)
            report("lower", time.perf_counter() - start, f"{len(graphs)} graphs")
            return opened

    def _models_of(self, compiled: engine.CompiledModel) -> list[Model]:
        # In the Module's order, not by name: MAX's own cache finds a Module by its content and
        # returns it under the names that it was first compiled with.
        return list(self.session.init_all(compiled).values())

    def _await(self, compiled: engine.CompiledModel) -> None:
        """Wait in Python, not in MAX: there Ctrl-C would have no effect until the end.

        A thread that waits in MAX while Python shuts down would abort the process as well.
        """
        handle = compile_handle(compiled)
        if handle is not None:
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

    def _verify(self, graphs: Sequence[CompiledGraph]) -> dict[str, MaxCompilerError]:
        """The graphs that MAX's verifier rejects, by key."""
        error = self._verification_error(graphs)
        if error is None:
            return {}
        if len(graphs) == 1:
            return {graphs[0].key: _failure(graphs[0], error)}
        half = len(graphs) // 2
        return self._verify(graphs[:half]) | self._verify(graphs[half:])

    def _verification_error(self, graphs: Sequence[CompiledGraph]) -> Exception | None:
        InferenceSession.debug.pre_jit = True
        try:
            with self._inside_max:
                opened = self._build(graphs)
                self.session.compile(opened.module, custom_extensions=_kernels(graphs))
        except CompilationStopped:
            return None
        except Exception as error:
            return error
        finally:
            InferenceSession.debug.pre_jit = False
        return None


def _kernels(graphs: Sequence[CompiledGraph]) -> list[Path]:
    return list(dict.fromkeys(path for graph in graphs for path in graph.kernels))


def _failure(graph: CompiledGraph, error: Exception) -> MaxCompilerError:
    """Our own error, of a lowering, or MAX's message with what it was about."""
    if isinstance(error, MaxCompilerError):
        return error
    messages = []
    cause: BaseException | None = error
    while cause is not None:
        messages.append(str(cause).strip())
        cause = cause.__cause__
    sources = [call.source for call in graph.program.calls if call.source]
    where = f"\n  from {sources[0]} ... {sources[-1]}" if sources else ""
    failure = EngineError(
        f"MAX could not compile a graph of {len(graph.program.calls)} nodes{where}\n"
        f"  MAX's message: {messages[-1][:2000]}"
    )
    failure.__cause__ = error
    return failure


COMPILER = ModuleCompiler()
atexit.register(COMPILER.close)
