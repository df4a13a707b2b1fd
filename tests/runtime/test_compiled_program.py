"""A program as a function: places of its arguments, structure, state, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torch_ir.interface import Interface
from torch_ir.ir import TensorMeta, TreeSpec
from torch_max_backend import InputError
from torch_max_backend.runtime.compiled_program import CompiledProgram

X = TensorMeta("x", (2,), "float32")
PAIR = TreeSpec("tuple", [TreeSpec("leaf", index=0), TreeSpec("constant", value="fixed")])


class Adding:
    """A graph of (weight, x, constant); it takes its list of arguments over."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def run(self, args: list[Any]) -> list[Any]:
        self.seen.append(list(args))
        weight, x, _ = args
        args.clear()
        return [weight + x]


def _program(graph: Any) -> tuple[CompiledProgram, torch.Tensor]:
    weight = torch.ones(2)
    interface = Interface([X], out_spec=PAIR)
    return CompiledProgram(interface, graph, [weight, None, 7], [1], {"w": weight}), weight


def test_a_call_fills_the_places_of_its_inputs() -> None:
    graph = Adding()
    program, weight = _program(graph)
    for value in (1.0, 2.0):
        result, constant = program(torch.full((2,), value))
        assert torch.equal(result, weight + value) and constant == "fixed"
    assert [args[2] for args in graph.seen] == [7, 7], "the template outlives a call"


def test_what_runs_is_looked_up_at_each_call() -> None:
    graph = Adding()
    program, _ = _program(graph)
    program(torch.ones(2))
    graph.run = lambda args: [torch.zeros(2)]  # type: ignore[method-assign]
    assert torch.equal(program(torch.ones(2))[0], torch.zeros(2))
    assert program.graph is graph


def test_state_is_the_tensors_themselves() -> None:
    program, weight = _program(Adding())
    program.state_dict()["w"].add_(4)
    assert torch.equal(weight, torch.full((2,), 5.0))
    assert torch.equal(program(torch.zeros(2))[0], weight)


def test_wrong_inputs_are_errors_of_this_package() -> None:
    program, _ = _program(Adding())
    with pytest.raises(InputError, match=r"expects float32\[2\], got float32\[3\]") as caught:
        program(torch.ones(3))
    assert isinstance(caught.value, ValueError)
