"""Children that compile: what ends one reaches the parent as a message; nothing stays behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from tests.engine import any_graph
from tests.engine.empty_caches import script
from tests.engine.fake_compiler import FakeCompiler
from tests.engine.test_queue import graph_of
from torch_max_backend import max_backend
from torch_max_backend.engine import compiler_process, crash_report, machine, module_compiler
from torch_max_backend.engine.compile_worker import Job
from torch_max_backend.engine.compiler_process import CompilerCrash, CompilerProcess, Limits
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.module_compiler import COMPILER, ModuleCompiler
from torch_max_backend.errors import EngineError, FallbackWarning

pytestmark = pytest.mark.xdist_group("engine-queue")
NO_LIMITS = Limits(float("inf"), float("inf"))


def a_job(graph: CompiledGraph | None = None) -> Job:
    """By default a graph that is in no cache, so that its compile takes ten seconds and more."""
    graph = graph or graph_of(torch.sin, random.randrange(2, 10**6))
    COMPILER.lower([graph])
    assert graph.lowered is not None
    return Job([graph.lowered], [str(path) for path in graph.kernels])


@pytest.fixture
def child() -> Iterator[CompilerProcess]:
    child = CompilerProcess()
    yield child
    child.close()
    assert not child.alive


def ended(child: CompilerProcess, seconds: float = 60) -> CompilerCrash:
    """How a child ended that must not answer."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            assert child.answer() is None, "it answered"
        except CompilerCrash as crash:
            return crash
        compiler_process.wait_for_any([child])
    raise AssertionError("it runs on")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_child_that_dies(child: CompilerProcess, number: signal.Signals) -> None:
    child.begin(a_job(), NO_LIMITS)
    time.sleep(1)
    os.kill(child.pid, number)
    crash = ended(child)
    assert str(crash) == f"MAX's compiler crashed: {signal.strsignal(number)}"
    assert ("Segmentation fault" in crash.output) == (number == signal.SIGSEGV)


def test_a_compile_that_takes_too_long(child: CompilerProcess) -> None:
    child.begin(a_job(), Limits(0.5, float("inf")))
    assert "ended after 0 s (TORCH_MAX_BACKEND_COMPILE_TIMEOUT" in str(ended(child))
    assert not child.alive


def test_a_compile_that_takes_too_much_memory(child: CompilerProcess) -> None:
    child.begin(a_job(), Limits(float("inf"), 50))
    crash = ended(child)
    assert "MiB of memory, of 50 that it may take (TORCH_MAX_BACKEND_COMPILE_MEMORY" in str(crash)
    assert not child.alive


def test_what_is_no_graph_is_rejected(child: CompilerProcess) -> None:
    child.begin(Job([b"not MLIR"], []), NO_LIMITS)
    while (answer := child.answer()) is None:
        compiler_process.wait_for_any([child])
    assert "rejected" in answer and answer["peak_mib"] > 10


ORPHANS = """
    import os, signal
    from tests.engine.test_compiler_process import NO_LIMITS, a_job
    from torch_max_backend.engine.compiler_process import CompilerProcess

    spare, busy = CompilerProcess(), CompilerProcess()
    busy.begin(a_job(), NO_LIMITS)
    print(spare.pid, busy.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_children_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path, ORPHANS)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pids = [int(pid) for pid in done.stdout.split()]
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end, "a child runs on without its parent"
        time.sleep(0.1)


class Dying(CompilerProcess):
    """A child that the kernel ends half a second into its job."""

    def begin(self, job: Job, limits: Limits) -> None:
        super().begin(job, limits)
        os.kill(self.pid, signal.SIGSEGV)


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """MAX's compiler crashes on whatever it gets; returns the cache folder."""
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(module_compiler, "_start", Dying)
    COMPILER.close_spare()
    torch._dynamo.reset()
    return tmp_path


def test_a_crash_leaves_the_graph_on_pytorch(deadly: Path) -> None:
    x = torch.ones(random.randrange(2, 10**6))
    compiled = torch.compile(torch.sin, backend=max_backend, dynamic=False)
    with pytest.warns(FallbackWarning, match="Segmentation fault; the report is in ") as warned:
        result = compiled(x)
    torch.testing.assert_close(result, x.sin())
    (folder,) = (deadly / "crashes").iterdir()
    assert any(str(folder) in str(warning.message) for warning in warned)
    report = (folder / "report.txt").read_text()
    assert "Segmentation fault" in report and "MAX 26" in report and str(folder) in report
    assert (folder / "000.mlirbc").stat().st_size > 100
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_crash_raises_if_there_is_no_fallback(deadly: Path) -> None:
    x = torch.ones(random.randrange(2, 10**6))
    compiled = torch.compile(
        torch.sin, backend=max_backend, dynamic=False, options={"fallback": "error"}
    )
    with pytest.raises(BackendCompilerFailed, match="fault; the report is in ") as raised:
        compiled(x)
    assert isinstance(raised.value.inner_exception, EngineError)


def test_a_report_can_be_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path))
    graph = graph_of(any_graph.function, any_graph.SIZE)
    folder = crash_report.write(a_job(graph), CompilerCrash("it crashed", ""), ["a graph"])
    (line,) = [
        line for line in (folder / "report.txt").read_text().splitlines() if "again:" in line
    ]
    command = line.split("again: ")[1].split()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and done.stdout.startswith("compiled, "), done.stderr


def test_few_reports_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path))
    for number in range(crash_report.KEPT + 3):
        crash_report.write(Job([b""], []), CompilerCrash(f"crash {number}", ""), [])
    kept = {path.read_text().split("\n")[0] for path in tmp_path.glob("crashes/*/report.txt")}
    assert kept == {f"crash {number}" for number in range(3, crash_report.KEPT + 3)}


def test_large_batches_are_compiled_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_compiler, "SPLIT_NODES", 1)
    compiler = FakeCompiler()
    graphs = [graph_of(op) for op in (torch.exp, torch.sin, torch.cos)]
    for processes, modules in (("1", [3]), ("2", [1, 2]), ("8", [1, 1, 1])):
        monkeypatch.setenv("TORCH_MAX_BACKEND_COMPILE_PROCESSES", processes)
        compiler.compiled.clear()
        kept: list[int] = []
        compiler.at_once = 0
        outcomes = compiler.compile(graphs, lambda of, artifact: kept.append(len(of)))  # noqa: B023
        assert len(outcomes) == 3 and sorted(kept) == modules
        assert compiler.at_once == len(modules)


def test_small_batches_stay_one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_COMPILE_PROCESSES", "4")
    compiler = FakeCompiler()
    compiler.compile([graph_of(torch.exp), graph_of(torch.sin)], lambda of, artifact: None)
    assert [len(graphs) for graphs in compiler.compiled] == [2]


def test_without_children_max_compiles_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_COMPILE_PROCESSES", "0")
    compiler = ModuleCompiler()
    compiler.prepare()
    graph = graph_of(any_graph.function, any_graph.SIZE)
    kept: list[bytes] = []
    (model,) = compiler.compile([graph], lambda graphs, artifact: kept.append(artifact))
    assert compiler._spare is None and len(kept) == 1
    assert not isinstance(model, EngineError)


def test_a_machine_that_starts_no_children(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError("no processes here")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.warns(UserWarning, match="compiles in this process.*no processes here"):
        assert module_compiler._start() is None


def test_the_limits_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Limits.from_environment() == Limits(3600, int(machine.memory_mib() * 0.75))
    monkeypatch.setenv("TORCH_MAX_BACKEND_COMPILE_TIMEOUT", "7")
    monkeypatch.setenv("TORCH_MAX_BACKEND_COMPILE_MEMORY_MB", "0")
    assert Limits.from_environment() == Limits(7, float("inf"))


@pytest.mark.slow
def test_children_killed_at_50_moments_of_a_compile() -> None:
    """Each gives a message or an artifact, and the next one compiles."""
    moments = random.Random(0)
    crashes = 0
    for _ in range(50):
        child = CompilerProcess()
        try:
            child.begin(a_job(), NO_LIMITS)
            end = time.monotonic() + moments.uniform(0, 20)
            while (answer := child.answer()) is None and time.monotonic() < end:
                compiler_process.wait_for_any([child])
            if answer is None:
                os.kill(child.pid, moments.choice([9, 15, 11]))
                assert "crashed" in str(ended(child))
                crashes += 1
            else:
                assert answer["artifact"]
        finally:
            child.close()
    assert crashes >= 25
    child = CompilerProcess()
    child.begin(a_job(), NO_LIMITS)
    while (answer := child.answer()) is None:
        compiler_process.wait_for_any([child])
    assert COMPILER.read(answer["artifact"])
    child.close()
