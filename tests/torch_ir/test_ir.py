"""The data model: nodes built by hand, and an IR that saves and loads itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from torch_ir import IR, OpNode, TensorMeta, execute_ir, extract_ir
from torch_ir.ir import GraphRef, TensorRef, references

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def test_nodes_built_by_hand_from_inputs_and_attributes() -> None:
    x = TensorMeta("x", (3, 4), "float32")
    y = TensorMeta("y", (3, 4), "float32", "y")
    node = OpNode("y", "aten.add.Scalar", [x], [y], {"other": 2.5})
    assert torch.equal(execute_ir(IR([node], [x], [y]), (X,)), X + 2.5)
    with pytest.raises(TypeError):
        node.attrs["other"] = 3  # type: ignore[index]
    with pytest.raises(TypeError, match="not both"):
        OpNode("y", "aten.add.Scalar", [x], [y], {"other": 2}, arguments={})


def test_what_a_value_is() -> None:
    tensor, number = TensorMeta("x", (2, "s0"), "float32"), TensorMeta("n", (), "SymInt", expr="s0")
    assert tensor.is_dynamic and not tensor.is_scalar and tensor.describe() == "float32[2, s0]"
    assert number.is_scalar and not number.is_dynamic and number.describe() == "SymInt s0"
    assert not TensorMeta("x", (), "float32").is_scalar, "a tensor of rank 0 is a tensor"


def test_references_are_found_in_order() -> None:
    a, b = TensorRef("a"), TensorRef("b")
    assert list(references([a, 1, [None, b], (a,)])) == [a, b, a]
    node = OpNode("n", "op", arguments={"x": a, "f": GraphRef("g"), "sizes": [1, 2]})
    assert dict(node.attrs) == {"f": GraphRef("g"), "sizes": [1, 2]} and node.subgraphs == ["g"]


def test_the_order_of_keywords() -> None:
    class Keywords(torch.nn.Module):
        def forward(self, x: torch.Tensor, *, b: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
            return x + b - a

    ir = extract_ir(Keywords(), (X,), kwargs={"b": X, "a": X})
    assert ir.kwargs_order == ["b", "a"] and IR([], [], []).kwargs_order == []


def test_an_ir_saves_and_loads_itself(tmp_path: Path) -> None:
    ir = extract_ir(torch.nn.Linear(4, 2), (X,))
    ir.save(tmp_path / "model.json")
    assert IR.load(tmp_path / "model.json") == ir
