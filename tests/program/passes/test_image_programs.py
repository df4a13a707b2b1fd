"""Convolution networks as image programs: what is taken, what is left, and what they compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.testing.image_networks import NETWORKS, make
from torch_max_backend import max_backend
from torch_max_backend.engine.queue import Engine
from torch_max_backend.program import Program
from torch_max_backend.program.image_program import LENGTH, What, decode
from torch_max_backend.runtime.interpreter import interpreted

PROGRAM = "torch_max_backend.image_program.default"


@pytest.fixture
def on_pytorch(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Program]]:
    """Compiled functions run their programs on PyTorch, after all passes; yields the programs."""
    found: list[Program] = []
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "0")  # a traced graph would be found there

    def submit(self: Any, graphs: Any, *, background: bool = False) -> None:
        for graph in graphs:
            found.append(graph.program)
            graph.run = interpreted(graph.program)

    monkeypatch.setattr(Engine, "submit", submit)
    monkeypatch.setattr(Engine, "find", lambda self, graph: False)
    monkeypatch.setattr(Engine, "flush", lambda self: None)
    torch._dynamo.reset()
    yield found
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], *args: torch.Tensor, **how: Any) -> Any:
    with torch.no_grad():
        return torch.compile(function, backend=max_backend, dynamic=False, **how)(*args)


def programs_of(program: Program) -> list[list[What]]:
    """What the instructions of each image program do."""
    found = []
    for call in program.calls:
        if str(call.op) == PROGRAM:
            numbers = call.args[2]
            starts = range(0, len(numbers), LENGTH)
            found.append([decode(numbers[start : start + LENGTH]).what for start in starts])
    return found


@pytest.mark.parametrize("name", NETWORKS)
def test_it_computes_the_same(name: str, on_pytorch: list[Program]) -> None:
    model, x = make(name)
    with torch.no_grad():
        expected = model(x)
    torch.testing.assert_close(compiled(model, x), expected, rtol=1e-5, atol=1e-5)
    (program,) = on_pytorch
    expected_programs = 2 if name == "two phases" else 1
    assert len(programs_of(program)) == expected_programs
    assert not any("convolution" in str(call.op) for call in program.calls)
    assert program.nodes >= len(program.calls)


def test_a_norm_and_an_activation_cost_no_instruction(on_pytorch: list[Program]) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Hardswish(), nn.Conv2d(4, 2, 1)
    ).eval()
    compiled(model, torch.randn(1, 3, 5, 5))
    (lines,) = programs_of(on_pytorch[0])
    assert [what.name for what in lines] == [
        "BORDER",
        "LOAD",
        "CONVOLUTION",
        "CONVOLUTION",
        "STORE",
    ]


def test_a_concatenation_costs_no_instruction(on_pytorch: list[Program]) -> None:
    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(3 + 2 * i, 2, 1) for i in range(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.cat([x, layer(x)], 1)
            return x

    compiled(Dense(), torch.randn(1, 3, 5, 5))
    (lines,) = programs_of(on_pytorch[0])
    assert [what.name for what in lines] == ["LOAD", *["CONVOLUTION"] * 4, "STORE"]


def test_memory_is_used_again(on_pytorch: list[Program]) -> None:
    model = nn.Sequential(*(nn.Conv2d(8, 8, 1) for _ in range(20)))
    compiled(model, torch.randn(1, 8, 16, 16))
    (call,) = [call for call in on_pytorch[0].calls if str(call.op) == PROGRAM]
    assert call.args[4] < 3 * 8 * 16 * 16


def test_a_parameter_that_changes_is_packed_again(on_pytorch: list[Program]) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).eval()
    x = torch.randn(1, 3, 5, 5)
    function = torch.compile(model, backend=max_backend, dynamic=False)
    with torch.no_grad():
        function(x)
        model[1].running_var.mul_(3)
        torch.testing.assert_close(function(x), model(x))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (
            F.conv2d,
            (torch.randn(1, 3, 5, 5), torch.randn(4, 3, 3, 3)),
        ),  # its filter is no parameter
        (nn.Conv2d(3, 4, 3).double(), (torch.randn(1, 3, 5, 5).double(),)),
        (nn.Conv2d(3, 4, 3).bfloat16(), (torch.randn(1, 3, 5, 5).bfloat16(),)),
        (nn.Conv1d(3, 4, 3), (torch.randn(1, 3, 5),)),
        (nn.Conv3d(3, 4, 3), (torch.randn(1, 3, 5, 5, 5),)),
        (nn.ConvTranspose2d(3, 4, 3, stride=2), (torch.randn(1, 3, 5, 5),)),
        (lambda x: F.max_pool2d(x.relu() + 1, 2), (torch.randn(1, 3, 6, 6),)),
    ],
)
def test_what_is_left_alone(
    function: Callable[..., Any], args: tuple[torch.Tensor, ...], on_pytorch: list[Program]
) -> None:
    compiled(function, *args)
    assert programs_of(on_pytorch[0]) == []


def test_sizes_that_are_symbols_are_left_alone(on_pytorch: list[Program]) -> None:
    model = nn.Conv2d(3, 4, 3)
    x = torch.randn(3, 3, 9, 9)
    with torch.no_grad():
        torch.compile(model, backend=max_backend, dynamic=True)(x)
    assert programs_of(on_pytorch[0]) == []


def test_without_packing_there_are_no_programs(on_pytorch: list[Program]) -> None:
    compiled(nn.Conv2d(3, 4, 3), torch.randn(1, 3, 5, 5), options={"pack_weights": False})
    assert programs_of(on_pytorch[0]) == []


def test_training_has_no_programs(on_pytorch: list[Program]) -> None:
    model = nn.Conv2d(3, 4, 3)
    torch.compile(model, backend=max_backend, dynamic=False)(torch.randn(1, 3, 5, 5))
    assert all(programs_of(program) == [] for program in on_pytorch)
