"""Tiered execution: PyTorch's answer at once, MAX's when it is ready, never a wrong one between."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import warnings

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from torch_max_backend import (
    MAPPING_TORCH_ATEN_TO_MAX,
    compile_stats,
    max_backend,
    wait_for_compiles,
)
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.frontend.fx_importer import import_fx
from torch_max_backend.lowering import mojo_kernels

pytestmark = pytest.mark.xdist_group("runtime-tiered")
TIERED = {"tiered": True}


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 13), nn.Tanh(), nn.Linear(13, 3))


def losses(compiled: nn.Module, trained: nn.Module, wait_at: int | None) -> list[float]:
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(11, 6, generator=generator)
    y = torch.randn(11, 3, generator=generator)
    values = []
    for step in range(20):
        loss = nn.functional.mse_loss(compiled(x), y)
        if step == wait_at:
            wait_for_compiles()  # the swap falls between a forward and its backward
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(loss.item())
    return values


def test_results_lie_in_memory_as_after_the_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice has gaps on PyTorch, none on MAX: Dynamo would trace what follows once more."""

    def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        return y, y[:, 1:], y.t(), y[:, :2].t()

    monkeypatch.setattr(ENGINE, "flush", lambda: None)  # nothing is compiled: all of it waits
    torch._dynamo.reset()
    x = torch.randn(3, 4)
    results = torch.compile(parts, backend=max_backend)(x)
    ENGINE.drop_waiting()
    assert [result.stride() for result in results] == [(4, 1), (3, 1), (1, 4), (3, 1)]
    torch.testing.assert_close(results, parts(x))


def test_training_is_the_same_before_during_and_after_the_swap() -> None:
    torch._dynamo.reset()
    eager, tiered = model(), model()
    expected = losses(eager, eager, None)
    actual = losses(torch.compile(tiered, backend=max_backend, options=TIERED), tiered, wait_at=5)
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-3)
    wait_for_compiles()


def test_threads_during_the_swap() -> None:
    torch._dynamo.reset()

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * 3 + 1).sum(-1)

    compiled = torch.compile(function, backend=max_backend, options=TIERED)
    compiled(torch.ones(4, 5))
    wrong: list[int] = []
    stop = threading.Event()

    def work(seed: int) -> None:
        x = torch.randn(4, 5, generator=torch.Generator().manual_seed(seed))
        expected = function(x)
        while not stop.is_set():
            if not torch.allclose(compiled(x), expected, atol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    wait_for_compiles()
    stop.wait(0.2)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_200_swaps_under_calling_threads() -> None:
    """Each round is a graph of its own that is swapped while three threads call it."""
    x = torch.randn(17)
    gm = make_fx(lambda x: (x * 5 - 2,))(x)
    program = import_fx(gm)

    def on_torch(args: list[torch.Tensor]) -> list[torch.Tensor]:
        (x,) = args
        args.clear()
        return [x * 5 - 2]

    first = CompiledGraph(program, on_torch, mojo_kernels.packages())
    ENGINE.submit([first])
    ENGINE.flush()
    assert first.model is not None
    wrong: list[torch.Tensor] = []

    def work(graph: CompiledGraph, seed: int, swapped: threading.Event) -> None:
        x = torch.randn(17, generator=torch.Generator().manual_seed(seed))
        expected = x * 5 - 2
        after = 0
        while after < 3:  # some calls on MAX as well
            after += swapped.is_set()
            (result,) = graph.run([x.clone()])
            if not torch.allclose(result, expected, atol=1e-6):
                wrong.append(result)

    for number in range(200):
        graph, swapped = CompiledGraph(program, on_torch, ()), threading.Event()
        threads = [
            threading.Thread(target=work, args=(graph, 3 * number + i, swapped)) for i in range(3)
        ]
        for thread in threads:
            thread.start()
        graph.ready(first.model)
        swapped.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a call hangs"
    assert not wrong


def test_a_failed_compile_stays_on_pytorch_with_a_warning() -> None:
    torch._dynamo.reset()
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


def test_the_first_call_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    start = ENGINE.flush_in_background
    monkeypatch.setattr(ENGINE, "flush_in_background", lambda: None)
    compiled = torch.compile(lambda x: x * 5 - 2, backend=max_backend, options=TIERED)
    x = torch.randn(17)
    torch.testing.assert_close(compiled(x), x * 5 - 2)
    before = compile_stats()["modules"]
    start()
    wait_for_compiles()
    assert compile_stats()["modules"] + compile_stats()["cache_hits"] > before
    torch.testing.assert_close(compiled(x), x * 5 - 2)


def test_first_compile_in_another_thread() -> None:
    torch._dynamo.reset()
    results: list[torch.Tensor] = []
    x = torch.randn(17)

    def work() -> None:
        compiled = torch.compile(lambda x: x * 5 - 2, backend=max_backend)
        results.append(compiled(x))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.testing.assert_close(results, [x * 5 - 2])


EXITS = """
    import torch
    from torch_max_backend import max_backend

    compiled = torch.compile(
        lambda x: x * 1.0625 + 7, backend=max_backend, options={"tiered": True}
    )
    print(compiled(torch.ones(3)).sum().item())
"""


def test_exit_does_not_hang(tmp_path) -> None:
    script = tmp_path / "exits.py"
    script.write_text(textwrap.dedent(EXITS))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("24.1875")


INTERRUPTED = """
    import os, random, signal, threading
    import torch
    from torch_max_backend import max_backend
    from torch_max_backend.engine.module_compiler import COMPILER

    wait = COMPILER._await

    def wait_and_press(compiled):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        wait(compiled)
        print("compiled")

    COMPILER._await = wait_and_press
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    # A size that is in no cache; a number would be an argument of the graph.
    x = torch.ones(random.randrange(2, 10**6))
    try:
        torch.compile(torch.sin, backend=max_backend, dynamic=False)(x)
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_ctrl_c_ends_a_compile(tmp_path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(textwrap.dedent(INTERRUPTED))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
