"""How a graph is called: checks of inputs that every engine shares."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from torch_ir import ExecutionError, convert_exported_program, extract_ir
from torch_ir.converter import interface_of
from torch_ir.interface import Interface
from torch_ir.ir import TensorMeta


class Nested(torch.nn.Module):
    def forward(self, x: torch.Tensor, *, more: dict[str, Any]) -> Any:
        return {"y": x + more["a"]}, x.shape[0], None


def _program() -> torch.export.ExportedProgram:
    batch = Dim("batch", min=2, max=8)
    kwargs = {"more": {"a": torch.ones(()), "n": 3}}
    shapes = {"x": {0: batch}, "more": {"a": None, "n": None}}
    return torch.export.export(Nested(), (torch.ones(4, 3),), kwargs, dynamic_shapes=shapes)


def test_it_is_that_of_the_ir() -> None:
    program = _program()
    mine, its = interface_of(program), Interface.of(convert_exported_program(program))
    assert mine == its and not mine.is_static


def test_nested_inputs_and_results() -> None:
    interface = interface_of(_program())
    x, a = torch.ones(5, 3), torch.ones(())
    assert interface.flat_inputs((x,), {"more": {"a": a, "n": 3}}) == [x, a]
    assert interface.nest(["y", 5]) == ({"y": "y"}, 5, None)


@pytest.mark.parametrize(
    ("x", "n", "message"),
    [
        (torch.ones(9, 3), 3, "= 9 must be at least 2 and at most 8"),
        (torch.ones(4), 3, r"args\[0\].*expects float32\[.*, 3\], got float32\[4\]"),
        (torch.ones(4, 3), 4, "extracted with the constant 3, got 4"),
        (None, 3, "got NoneType None"),
    ],
)
def test_wrong_inputs_are_named(x: object, n: int, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        interface_of(_program()).flat_inputs((x,), {"more": {"a": torch.ones(()), "n": n}})


def test_without_a_tree_inputs_are_flat() -> None:
    interface = Interface([TensorMeta("x", (2,), "float32"), TensorMeta("n", (), "SymInt")])
    x = torch.ones(2)
    assert interface.flat_inputs((x, 3)) == [x, 3]
    with pytest.raises(ExecutionError, match="no keyword inputs"):
        interface.flat_inputs((x,), {"n": 3})
    with pytest.raises(ExecutionError, match="got 1 inputs, the IR expects 2"):
        interface.flat_inputs((x,))
    with pytest.raises(ExecutionError, match=r"got float 0\.5"):
        interface.flat_inputs((x, 0.5))


def test_a_static_graph_takes_one_shape() -> None:
    interface = Interface.of(extract_ir(torch.nn.ReLU(), (torch.ones(2),)))
    assert interface.is_static
    with pytest.raises(ExecutionError, match=r"expects float32\[2\], got float32\[3\]"):
        interface.flat_inputs((torch.ones(3),))
