"""Tiered execution: PyTorch's answer at once, MAX's when it is ready, never a wrong one between."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from tests.engine.any_graph import SIZE, function
from tests.engine.empty_caches import script
from tests.testing.observed import ops_on_torch
from tests.testing.programs import program_of
from tests.testing.threads import running
from torch_max_backend import (
    MAPPING_TORCH_ATEN_TO_MAX,
    compile_stats,
    max_backend,
    reset_compile_stats,
    wait_for_compiles,
)
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.lowering import mojo_kernels

pytestmark = pytest.mark.xdist_group("runtime-tiered")
TIERED = {"tiered": True}


@pytest.fixture(autouse=True)
def nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every graph waits: from the store, all but the first run would have them at once."""
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "0")
    torch._dynamo.reset()
    gc.collect()  # an equal graph of another test shares its model while it lives


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Nothing is compiled in the background until this is called, or `wait_for_compiles`."""
    start = ENGINE.flush_in_background
    monkeypatch.setattr(ENGINE, "flush_in_background", lambda: None)
    return start


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 13), nn.Tanh(), nn.Linear(13, 3))


def train(
    compiled: nn.Module, trained: nn.Module, wait_at: int | None = None
) -> tuple[list[float], list[tuple[bool, bool]]]:
    """20 losses, and of each step whether PyTorch ran its forward and its backward."""
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(11, 6, generator=generator)
    y = torch.randn(11, 3, generator=generator)
    values, on_torch = [], []
    for step in range(20):
        results: list[torch.Tensor] = []
        forward = ops_on_torch(lambda: results.append(compiled(x)))  # noqa: B023
        loss = nn.functional.mse_loss(results[0], y)
        if step == wait_at:
            wait_for_compiles()  # the swap falls between a forward and its backward
        optimizer.zero_grad()
        backward = ops_on_torch(loss.backward)
        optimizer.step()
        values.append(loss.item())
        on_torch.append(("aten::addmm" in forward, "aten::mm" in backward))
    return values, on_torch


def test_results_lie_in_memory_as_after_the_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice has gaps on PyTorch, none on MAX: Dynamo would trace what follows once more."""

    def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        return y, y[:, 1:], y.t(), y[:, :2].t()

    monkeypatch.setattr(ENGINE, "flush", lambda: None)  # nothing is compiled: all of it waits
    x = torch.randn(3, 4)
    results = torch.compile(parts, backend=max_backend)(x)
    ENGINE.drop_waiting()
    assert [result.stride() for result in results] == [(4, 1), (3, 1), (1, 4), (3, 1)]
    torch.testing.assert_close(results, parts(x))


@pytest.mark.usefixtures("begin")
def test_training_is_the_same_before_during_and_after_the_swap() -> None:
    eager, tiered = model(), model()
    expected, _ = train(eager, eager)
    compiled = torch.compile(tiered, backend=max_backend, options=TIERED)
    actual, on_torch = train(compiled, tiered, wait_at=5)
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)
    # The backward of the sixth step runs where its forward ran.
    assert on_torch == 6 * [(True, True)] + 14 * [(False, False)]


def test_threads_during_the_swap(begin: Callable[[], None]) -> None:
    compiled = torch.compile(function, backend=max_backend, options=TIERED)
    compiled(torch.ones(SIZE))
    stop = threading.Event()

    def work(seed: int) -> None:
        x = torch.randn(SIZE, generator=torch.Generator().manual_seed(seed))
        expected = function(x)
        while not stop.wait(0.001):  # leaves the compiler a core
            torch.testing.assert_close(compiled(x), expected)

    assert "aten::mul" in ops_on_torch(lambda: compiled(torch.ones(SIZE)))
    with running(3, work):
        begin()
        wait_for_compiles()
        time.sleep(0.2)
        stop.set()
    assert "aten::mul" not in ops_on_torch(lambda: compiled(torch.ones(SIZE)))


def test_200_swaps_under_calling_threads() -> None:
    """Each round is a graph of its own that is swapped while three threads call it."""
    x = torch.randn(SIZE)
    gm = make_fx(lambda x: (function(x),))(x)
    program = program_of(gm)
    calls_on_torch = itertools.count()

    def on_torch(args: list[torch.Tensor]) -> list[torch.Tensor]:
        next(calls_on_torch)
        (x,) = args
        args.clear()
        return [function(x)]

    first = CompiledGraph(program, on_torch, mojo_kernels.packages())
    ENGINE.submit([first])
    ENGINE.flush()
    assert first.model is not None

    for number in range(200):
        graph, swapped = CompiledGraph(program, on_torch, ()), threading.Event()

        def work(
            seed: int, graph: CompiledGraph = graph, swapped: threading.Event = swapped
        ) -> None:
            x = torch.randn(SIZE, generator=torch.Generator().manual_seed(seed))
            expected = function(x)
            after = 0
            while after < 3:  # some calls on MAX as well
                after += swapped.is_set()
                (result,) = graph.run([x.clone()])
                torch.testing.assert_close(result, expected)

        with running(3, work, seconds=60):
            time.sleep(0.001 * (number % 3))
            graph.ready(first.model)
            swapped.set()
        before = next(calls_on_torch)
        graph.run([x.clone()])
        assert next(calls_on_torch) == before + 1, "it runs on PyTorch after the swap"
    assert next(calls_on_torch) > 400 + 200, "there were calls before the swaps"


def test_a_failed_compile_stays_on_pytorch_with_a_warning() -> None:
    aten = torch.ops.aten
    before = dict(MAPPING_TORCH_ATEN_TO_MAX._entries)

    def fails(self):
        raise RuntimeError("no such kernel")

    MAPPING_TORCH_ATEN_TO_MAX[aten.tan] = fails
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled = torch.compile(torch.tan, backend=max_backend, options=TIERED)
            x = torch.randn(3)
            torch.testing.assert_close(compiled(x), torch.tan(x))
            wait_for_compiles()
            torch.testing.assert_close(compiled(x), torch.tan(x))
        messages = [str(w.message) for w in caught if "stays on PyTorch" in str(w.message)]
        assert len(messages) == 1 and "no such kernel" in messages[0]
    finally:
        MAPPING_TORCH_ATEN_TO_MAX._entries = before


def test_the_first_call_does_not_wait(begin: Callable[[], None]) -> None:
    compiled = torch.compile(function, backend=max_backend, options=TIERED)
    x = torch.randn(SIZE)
    reset_compile_stats()
    torch.testing.assert_close(compiled(x), function(x))
    counted = compile_stats()
    assert (counted["graphs"], counted["modules"], counted["cache_hits"]) == (1, 0, 0)
    begin()
    wait_for_compiles()
    assert compile_stats()["modules"] == 1
    results: list[torch.Tensor] = []
    assert "aten::mul" not in ops_on_torch(lambda: results.append(compiled(x)))
    torch.testing.assert_close(results, [function(x)])


def test_the_first_call_starts_the_background() -> None:
    compiled = torch.compile(function, backend=max_backend, options=TIERED)
    x = torch.randn(SIZE)
    compiled(x)
    end = time.monotonic() + 600
    while "aten::mul" in ops_on_torch(lambda: compiled(x)):
        assert time.monotonic() < end, "the graph is still on PyTorch"
        time.sleep(0.05)
    wait_for_compiles()


def test_first_compile_in_another_thread() -> None:
    x = torch.randn(SIZE)
    reset_compile_stats()

    def work(number: int) -> None:
        compiled = torch.compile(function, backend=max_backend)
        torch.testing.assert_close(compiled(x), function(x))

    with running(1, work):
        pass
    assert compile_stats()["modules"] == 1


EXITS = """
    import random

    import torch
    from torch_max_backend import max_backend, wait_for_compiles

    # A size that is in no cache, so that the compile lasts longer than the process.
    x = torch.ones(random.randrange(2, 10**6))
    compiled = torch.compile(
        lambda x: x * 1.0625 + 7, backend=max_backend, dynamic=False, options={"tiered": True}
    )
    print(compiled(x)[0].item())
    try:
        wait_for_compiles(timeout=0.5)
    except TimeoutError:
        print("still compiling")
"""


def test_exit_does_not_hang(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path, EXITS)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "8.0625\nstill compiling\n"), done.stderr


INTERRUPTED = """
    import os, random, signal, threading
    import torch
    from torch_max_backend import max_backend
    from torch_max_backend.engine.module_compiler import COMPILER

    wait, children = COMPILER._wait, []

    def wait_and_press(running):
        if not children:
            children.extend(child.pid for child in running)
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        wait(running)

    COMPILER._wait = wait_and_press
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    # A size that is in no cache; a number would be an argument of the graph.
    x = torch.ones(random.randrange(2, 10**6))
    try:
        torch.compile(torch.sin, backend=max_backend, dynamic=False)(x)
    except KeyboardInterrupt:
        print("interrupted", len(children))
    try:
        os.kill(children[0], 0)
    except ProcessLookupError:
        print("and the child ended")
"""


def test_ctrl_c_ends_a_compile(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path, INTERRUPTED)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "interrupted 1\nand the child ended\n"), (
        done.stderr
    )
