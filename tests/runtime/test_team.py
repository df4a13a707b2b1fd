"""Threads that stay with our kernels (`mojo_kernels/team.mojo`): calls at once, dropped graphs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from weakref import ref

import pytest
import torch
from torch import nn

from torch_max_backend import compile_together, max_backend
from torch_max_backend.engine.graph import CompiledGraph

CALLS = 150


class Rows(nn.Module):
    """Kernels with few and with many tasks, and MAX's own between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.norm(x + torch.softmax(layer(x), -1)).sin() * 2
        return x


class Pixels(nn.Module):
    """An image program, which all threads run as one kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu()).relu().mean((2, 3))


Case = tuple[Callable[..., torch.Tensor], torch.Tensor, torch.Tensor]


@pytest.fixture(scope="module")
def cases() -> Iterator[list[Case]]:
    """Compiled models, an argument of each, and eager's result."""
    torch.manual_seed(0)
    models = [Rows(256).eval(), Rows(96).eval(), Pixels().eval()]
    inputs = [torch.randn(128, 256), torch.randn(512, 96), torch.randn(2, 3, 40, 40)]
    with torch.no_grad():
        expected = [model(x) for model, x in zip(models, inputs, strict=True)]
        compiled = [torch.compile(model, backend=max_backend) for model in models]
        with compile_together():
            for model, x in zip(compiled, inputs, strict=True):
                model(x)
    yield list(zip(compiled, inputs, expected, strict=True))


def _wrong(case: Case) -> int:
    model, x, expected = case
    with torch.no_grad():
        results = [model(x) for _ in range(CALLS)]
    return sum(not torch.allclose(each, expected, atol=1e-4) for each in results)


def test_calls_after_each_other(cases: list[Case]) -> None:
    assert [_wrong(case) for case in cases] == [0, 0, 0]


def test_calls_at_the_same_time(cases: list[Case]) -> None:
    """Kernels of several calls want the helpers at once: one has them, the others go to MAX."""
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(_wrong, cases * 2)) == [0] * 6


def _code() -> int:
    """Bytes of code in this process that are in no file."""
    found = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, _, _, inode, *_ = line.split()
        if "x" in access and inode == "0":
            start, end = addresses.split("-")
            found += int(end, 16) - int(start, 16)
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_code_of_a_dropped_graph_stays(cases: list[Case]) -> None:
    """A helper may still run code of the artifact that called it when its graph is dropped."""
    # Not `isinstance`, which asks weak proxies for their class.
    graphs = [ref(each) for each in gc.get_objects() if type(each) is CompiledGraph]
    before = _code()
    assert before > 0
    cases.clear()
    torch._dynamo.reset()
    gc.collect()
    assert any(graph() is None for graph in graphs)
    assert _code() >= before
