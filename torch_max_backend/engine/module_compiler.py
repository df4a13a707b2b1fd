"""Graphs to compiled models: lowers them, has Modules compiled, finds the graph that MAX rejects.

The only file that lowers for the compiler. A graph is lowered once, when it is submitted, which
raises the errors of its lowerings at once; it then waits as MLIR in binary form. MAX compiles in
child processes (`compiler_process.py`), several Modules at a time if there are processors for it. A
Module that MAX rejects, or that crashes it, is halved until the failing graph stands alone; only
that one fails.
"""

from __future__ import annotations

import atexit
import functools
import io
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from max import engine
from max.engine import InferenceSession, Model
from max.graph import Module

from torch_max_backend import flags
from torch_max_backend.compat.max import bytecode_of
from torch_max_backend.engine import compile_worker, compiler_process, crash_report, machine
from torch_max_backend.engine.compile_worker import Job
from torch_max_backend.engine.compiler_process import CompilerCrash, CompilerProcess, Limits
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.targets import NATIVE
from torch_max_backend.errors import EngineError, MaxCompilerError
from torch_max_backend.observe import stats
from torch_max_backend.observe.held_warnings import warn
from torch_max_backend.observe.profiling import report, show_max_graph

Outcome = Model | MaxCompilerError
Keep = Callable[[Sequence[CompiledGraph], bytes], None]

SPLIT_NODES = 150
"""Nodes for which a second Module is worth its fixed cost, twelve seconds of a processor."""
CHILD_MIB = 3000
"""What a child takes for a large Module; decides how many run at once."""


@dataclass(frozen=True)
class _Work:
    """Graphs that are compiled as one Module, or only verified."""

    graphs: list[CompiledGraph]
    verify: bool = False
    verified: bool = False

    @property
    def job(self) -> Job:
        lowered = [graph.lowered for graph in self.graphs if graph.lowered is not None]
        assert len(lowered) == len(self.graphs)
        target = self.graphs[0].target
        cpu = "" if target == NATIVE else target
        return Job(lowered, [str(path) for path in _kernels(self.graphs)], self.verify, cpu)


class ModuleCompiler:
    """One per process: MAX's session, and the children that compile."""

    def __init__(self) -> None:
        self._building = threading.RLock()  # MLIR is built by one thread at a time
        self._children = threading.Lock()
        self._spare: CompilerProcess | None = None
        self._running: list[CompilerProcess] = []
        self._closed = False

    @functools.cached_property
    def session(self) -> InferenceSession:
        session: InferenceSession = compile_worker.compiler()
        return session

    @property
    def started(self) -> bool:
        """Whether MAX runs in this process."""
        return "session" in self.__dict__

    def after_fork(self) -> None:
        """In a forked child: locks that a thread of the parent may have held are made anew."""
        children = [*self._running, *([self._spare] if self._spare else [])]
        for child in children:
            child.abandon()
        self.__init__()  # type: ignore[misc]

    def check(self, graph: CompiledGraph) -> None:
        """Raise the errors of a graph's own lowerings."""
        self.lower([graph])

    def lower(self, graphs: Sequence[CompiledGraph]) -> None:
        """Lower graphs that will be compiled, unless they are; raises the errors of lowerings."""
        from torch_max_backend.lowering import mojo_kernels  # only a compile needs them

        for package in _kernels(graphs):
            mojo_kernels.precompile(package)
        with self._building:
            start = time.perf_counter()
            new = [graph for graph in graphs if graph.lowered is None]
            for graph in new:
                graph.lowered = _lowered(graph)
            if new:
                report("lower", time.perf_counter() - start, f"{len(new)} graphs")

    def read(self, artifact: Path | bytes) -> list[Model]:
        """The models of an artifact, in the order of its graphs."""
        with self._building:
            source = io.BytesIO(artifact) if isinstance(artifact, bytes) else artifact
            # In the Module's order, not by name: MAX's own cache finds a Module by its content and
            # returns it under the names that it was first compiled with.
            return list(self.session.init_all(engine.read(source)).values())

    def compile(self, graphs: Sequence[CompiledGraph], keep: Keep) -> list[Outcome]:
        """Compile distinct graphs: for each its model, or why it has none.

        `keep` is called with the graphs of each Module that was compiled, and its artifact.
        """
        outcomes: dict[str, Outcome] = {}
        able = []
        for graph in graphs:
            try:
                self.lower([graph])
                able.append(graph)
            except Exception as error:  # submitted to the background, where nobody lowered it
                outcomes[graph.key] = _failure(graph, [str(error)], error)
        by_target: dict[str, list[CompiledGraph]] = {}
        for graph in able:
            by_target.setdefault(graph.target, []).append(graph)
        works = [_Work(p) for group in by_target.values() for p in _parts(group, processes())]
        self._compile(works, keep, outcomes)
        for graph in graphs:
            graph.lowered = None
        return [outcomes[graph.key] for graph in graphs]

    def _compile(self, works: Sequence[_Work], keep: Keep, outcomes: dict[str, Outcome]) -> None:
        waiting = deque(works)
        running: dict[CompilerProcess, _Work] = {}
        try:
            while waiting or running:
                while waiting and (not running or self._may_start()):
                    work = waiting.popleft()
                    if (child := self._child()) is None:
                        reply = compile_worker.do(work.job, self.session)
                        waiting.extend(self._settle(work, reply, keep, outcomes))
                        continue
                    running[child] = work
                    child.begin(work.job, Limits.from_environment())
                self._wait(list(running))
                for child, work in list(running.items()):
                    try:
                        answer = child.answer()
                        if answer is None:
                            continue
                        more = self._settle(work, answer, keep, outcomes)
                    except CompilerCrash as crash:
                        more = _after_crash(work, crash, outcomes)
                    del running[child]
                    self._end(child)
                    waiting.extend(more)
        finally:
            for child in running:  # Ctrl-C
                self._end(child)

    def _wait(self, children: Sequence[CompilerProcess]) -> None:
        compiler_process.wait_for_any(children)

    def _settle(
        self, work: _Work, reply: dict[str, Any], keep: Keep, outcomes: dict[str, Outcome]
    ) -> list[_Work]:
        """Take a child's answer; returns what is to be done next."""
        graphs = work.graphs
        _report(work, reply)
        if "artifact" in reply:
            models = self.read(reply["artifact"])
            outcomes.update(zip((graph.key for graph in graphs), models, strict=True))
            keep(graphs, reply["artifact"])
            return []
        if work.verify and "rejected_graphs" in reply:
            rejected = reply["rejected_graphs"]
            for place, messages in rejected.items():
                outcomes[graphs[place].key] = _failure(graphs[place], messages)
            rest = [graph for place, graph in enumerate(graphs) if place not in rejected]
            if rejected:
                return [_Work(rest, verified=True)] if rest else []
            return _halves(work)
        if len(graphs) == 1:
            outcomes[graphs[0].key] = _failure(graphs[0], reply["rejected"])
            return []
        # The verifier takes a second where the compiler takes twelve and more.
        return _halves(work) if work.verified else [_Work(graphs, verify=True)]

    def prepare(self) -> None:
        """Start the child of the next compile, which imports MAX while graphs are lowered."""
        with self._children:
            if self._spare is None and not self._closed and _in_children():
                self._spare = _start()

    def close_spare(self) -> None:
        """End the child of the next compile; another one is started when it is needed."""
        with self._children:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()

    def _child(self) -> CompilerProcess | None:
        """A child for one job; None if this process must compile it itself."""
        with self._children:
            if self._closed:
                raise EngineError("the process is ending")
            child, self._spare = self._spare, None
            if child is None or not child.alive:
                child = _start() if _in_children() else None
            if child is not None:
                self._running.append(child)
            return child

    def _may_start(self) -> bool:
        with self._children:
            return _in_children() and len(self._running) < processes()

    def _end(self, child: CompilerProcess) -> None:
        child.close()
        with self._children:
            if child in self._running:
                self._running.remove(child)

    def close(self) -> None:
        """For the end of the process: what compiles goes no further."""
        with self._children:
            self._closed = True
            children, self._running = self._running, []
            spare, self._spare = self._spare, None
        for child in (*children, *([spare] if spare else [])):
            child.kill()
        # When Python ends, it ends its daemon threads as they ask for the GIL; one that comes back
        # from MAX's C++ then aborts the process. So this keeps the background out of there.
        self._building.acquire()


def processes() -> int:
    """How many Modules are compiled at once; 0: in this process, one after the other."""
    asked = flags.compile_processes()
    if asked is not None:
        return asked
    return max(1, min(machine.processors(), int(machine.memory_mib() / CHILD_MIB)))


def _in_children() -> bool:
    return processes() > 0 and compiler_process.is_possible()


def _start() -> CompilerProcess | None:
    try:
        return CompilerProcess()
    except OSError as error:
        warn(f"MAX compiles in this process, which a crash of its compiler would end: {error}")
        return None


def _lowered(graph: CompiledGraph) -> bytes:
    from torch_max_backend.lowering import graph_builder  # only a compile needs it

    try:
        module = Module()
        built = graph_builder.build(
            graph.program, graph.lowerings, module, graph.name, graph.kernels
        )
        show_max_graph(built)
        return bytecode_of(module)
    except MaxCompilerError:
        raise  # of a lowering
    except Exception as error:
        raise _failure(graph, [str(error)], error) from error


def _parts(graphs: Sequence[CompiledGraph], count: int) -> list[list[CompiledGraph]]:
    """The graphs in at most `count` Modules of about the same size; each keeps its order."""
    nodes = sum(len(graph.program.calls) for graph in graphs)
    count = max(1, min(count, len(graphs), nodes // SPLIT_NODES))
    loads = [0] * count
    part_of: dict[str, int] = {}
    for graph in sorted(graphs, key=lambda graph: -len(graph.program.calls)):
        least = loads.index(min(loads))
        part_of[graph.key] = least
        loads[least] += len(graph.program.calls)
    parts = [[graph for graph in graphs if part_of[graph.key] == index] for index in range(count)]
    return [part for part in parts if part]


def _halves(work: _Work) -> list[_Work]:
    half = len(work.graphs) // 2
    return [_Work(part, verified=True) for part in (work.graphs[:half], work.graphs[half:])]


def _after_crash(work: _Work, crash: CompilerCrash, outcomes: dict[str, Outcome]) -> list[_Work]:
    if len(work.graphs) > 1:
        return _halves(work)
    (graph,) = work.graphs
    folder = crash_report.write(work.job, crash, [_described(graph)])
    outcomes[graph.key] = _failure(graph, [f"{crash}; the report is in {folder}"], crash)
    return []


def _report(work: _Work, reply: dict[str, Any]) -> None:
    kernels = kernels_in(reply.get("artifact", b""))
    if not work.verify:
        stats.count("modules")
        stats.count("kernels", kernels)
    if "seconds" in reply:
        report(
            "verify" if work.verify else "module",
            reply["seconds"],
            f"{len(work.graphs)} graphs, {kernels} distinct kernels, "
            f"{reply['processor_seconds']:.1f} s of a processor, {reply['peak_mib']:.0f} MiB; "
            f"distinct calls: {_calls_by_op(work.graphs)}",
        )


def _calls_by_op(graphs: Sequence[CompiledGraph]) -> str:
    """The calls of other sizes than all others, by op: each is a kernel, or fused into one."""
    distinct = set().union(*(graph.program.signatures() for graph in graphs))
    ops = Counter(op.removeprefix("aten.").removesuffix(".default") for op, _ in distinct)
    return ", ".join(f"{op} {count}" for op, count in ops.most_common())


def kernels_in(artifact: bytes) -> int:
    """How many distinct kernels the graphs of an artifact run: it lists them, one to a line.

    Its object files define more. A kernel that MAX compiled for an earlier Module is taken from
    MAX's own cache with the whole object file that it is in, whatever else that file holds.
    """
    return len(set(re.findall(rb"(?<=[@\n])__kernel_[0-9a-f]{32}", artifact)))


def _kernels(graphs: Sequence[CompiledGraph]) -> list[Path]:
    return list(dict.fromkeys(path for graph in graphs for path in graph.kernels))


def _described(graph: CompiledGraph) -> str:
    sources = [call.source for call in graph.program.calls if call.source]
    where = f"\n  from {sources[0]} ... {sources[-1]}" if sources else ""
    return f"a graph of {graph.program.nodes} nodes{where}"


def _failure(
    graph: CompiledGraph, messages: Sequence[str], error: Exception | None = None
) -> MaxCompilerError:
    """Our own error, of a lowering, or MAX's message with what it was about."""
    if isinstance(error, MaxCompilerError):
        return error
    failure = EngineError(
        f"MAX could not compile {_described(graph)}\n  MAX's message: {messages[-1][:2000]}"
    )
    failure.__cause__ = error
    return failure


COMPILER = ModuleCompiler()
atexit.register(COMPILER.close)
