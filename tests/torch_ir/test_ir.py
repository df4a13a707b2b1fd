"""The data model: nodes built by hand, and an IR that saves and loads itself."""

from __future__ import annotations

import pytest
import torch

from torch_ir import IR, OpNode, TensorMeta, execute_ir

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
