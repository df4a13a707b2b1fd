"""MAX's compiler, replaced: it counts, rejects, crashes, and is interrupted as a test wants it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

from max.engine import Model

from torch_max_backend.engine.compile_worker import Job
from torch_max_backend.engine.compiler_process import CompilerCrash, CompilerProcess, Limits
from torch_max_backend.engine.module_compiler import ModuleCompiler


class FakeCompiler(ModuleCompiler):
    """Its children answer at once. A graph is known by the MLIR that it was lowered to."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: set[bytes] = set()
        """Graphs that MAX rejects while it compiles."""
        self.unverified: set[bytes] = set()
        """Graphs that its verifier rejects, too."""
        self.deadly: set[bytes] = set()
        """Graphs that crash it."""
        self.compiled: list[list[bytes]] = []
        """The graphs of each Module."""
        self.at_once = 0
        """The most children that ran at the same time."""
        self.interrupted = False

    def prepare(self) -> None:
        """No spare."""

    def _child(self) -> Any:
        child = FakeChild(self)
        self._running.append(child)
        self.at_once = max(self.at_once, len(self._running))
        return child

    def _wait(self, children: Sequence[Any]) -> None:
        if self.interrupted:
            raise KeyboardInterrupt

    def read(self, artifact: Any) -> list[Any]:
        return [mock.Mock(spec=Model) for _ in range(int(artifact))]


class FakeChild(CompilerProcess):
    """No process at all."""

    def __init__(self, compiler: FakeCompiler) -> None:
        self.compiler = compiler
        self.closed = False

    def begin(self, job: Job, limits: Limits) -> None:
        self.job = job

    def answer(self) -> dict[str, Any]:
        graphs, compiler = list(self.job.graphs), self.compiler
        if set(graphs) & compiler.deadly:
            raise CompilerCrash("MAX's compiler crashed: Segmentation fault", "a stack")
        if self.job.verify:
            places = [place for place, graph in enumerate(graphs) if graph in compiler.unverified]
            return {"rejected_graphs": {place: ["why", "unverified"] for place in places}}
        compiler.compiled.append(graphs)
        if set(graphs) & (compiler.bad | compiler.unverified):
            return {"rejected": ["ask somebody", "MAX says no"]}
        return {"artifact": str(len(graphs)).encode()}

    def close(self) -> None:
        self.closed = True
