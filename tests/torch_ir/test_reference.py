"""Reference values: the model's own intermediate results, by the names of the IR's nodes."""

from __future__ import annotations

import torch
from torch import nn

from torch_ir import extract_ir
from torch_ir.reference import reference_values

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("shift", torch.arange(4.0), persistent=False)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return (self.fc(x) * scale + self.shift).relu()


def test_every_node_has_its_value() -> None:
    model, scale = Model(), torch.tensor(3.0)
    ir = extract_ir(model, (X,), kwargs={"scale": scale})
    values = reference_values(ir, model, (X,), {"scale": scale})
    assert list(values) == [node.name for node in ir.nodes] == ["linear", "mul", "add", "relu"]
    with torch.no_grad():
        linear = model.fc(X)
        for name, expected in [
            ("linear", linear),
            ("mul", linear * 3),
            ("add", linear * 3 + torch.arange(4.0)),
            ("relu", model(X, scale=scale)),
        ]:
            assert torch.equal(values[name], expected), name


def test_a_decomposed_ir_is_compared_with_a_decomposed_trace() -> None:
    model, scale = Model(), torch.tensor(3.0)
    ir = extract_ir(model, (X,), kwargs={"scale": scale}, decompose=True)
    values = reference_values(ir, model, (X,), {"scale": scale})
    assert set(values) == {node.name for node in ir.nodes} and "addmm" in values


def test_nodes_with_another_op_have_no_reference() -> None:
    model, scale = Model(), torch.tensor(3.0)
    ir = extract_ir(model, (X,), kwargs={"scale": scale})
    ir.nodes[-1].op_type = "aten.neg.default"
    assert list(reference_values(ir, model, (X,), {"scale": scale})) == ["linear", "mul", "add"]
