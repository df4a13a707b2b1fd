"""Exporting: ways to trace a model, and the model afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.torch_ir.roundtrip import roundtrip
from torch_ir import ExportError, export_model, extract_ir, verify_ir_with_state_dict

X = torch.linspace(-2, 2, 24).reshape(4, 6)


class PlainAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.arange(1.0, 7.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_plain_tensor_attribute(device: str) -> None:
    with torch.device(device):
        model = PlainAttribute()
    ir = extract_ir(model, (X,))
    assert isinstance(vars(model)["scale"], torch.Tensor), "the model is as it was"
    real = PlainAttribute()
    assert verify_ir_with_state_dict(ir, {}, real, (X,))[0]


def test_decompose_gives_core_aten(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4))
    ir = roundtrip(model, (X,), tmp_path, decompose=True)
    ops = {node.op_type for node in ir.nodes}
    assert "aten.linear.default" not in ops and "aten.addmm.default" in ops


def test_strict_tracing(tmp_path: Path) -> None:
    ir = roundtrip(
        nn.Sequential(nn.Linear(6, 4), nn.ReLU(inplace=True)), (X,), tmp_path, strict=True
    )
    assert [node.op_type for node in ir.nodes] == ["aten.linear.default", "aten.relu.default"]


@pytest.mark.parametrize("strict", [False, True])
def test_dynamo_traces_only_if_strict(strict: bool) -> None:
    class Tells(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin() if torch.compiler.is_dynamo_compiling() else x.cos()

    (node,) = extract_ir(Tells(), (X,), strict=strict).nodes
    assert node.op_type == ("aten.sin.default" if strict else "aten.cos.default")


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_forward_sees_weights_on_the_cpu_without_memory(device: str) -> None:
    seen: list[Any] = []

    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.lstm = nn.Linear(6, 4), nn.LSTM(4, 3)
            self.register_buffer("shift", torch.ones(4))

        def forward(self, x: torch.Tensor) -> Any:
            seen.extend([*self.parameters(), *self.buffers(), *self.lstm._flat_weights])
            return self.lstm(self.fc(x) + self.shift)

    with torch.device(device):
        model = Looks()
    extract_ir(model, (X,))
    assert len(seen) == 2 + 4 + 1 + 4
    assert all(tensor.device.type == "cpu" for tensor in seen)
    assert all(tensor.untyped_storage().device.type == "meta" for tensor in seen)
    assert all(isinstance(tensor, nn.Parameter) for tensor in seen[:6])


def test_extraction_leaves_the_model_alone() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.LSTM(4, 3))
    before = {key: (id(t), t.clone()) for key, t in model.named_parameters()}
    program = export_model(model, (X,))
    assert all(program.state_dict[key] is t for key, t in model.named_parameters())
    for key, tensor in model.named_parameters():
        assert before[key][0] == id(tensor) and torch.equal(before[key][1], tensor)
    assert all(any(w is p for p in model.parameters()) for w in model[1]._flat_weights)
    model(X)


def test_model_is_restored_after_a_failure() -> None:
    class Breaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x) if x.sum().item() > 0 else x

    model = Breaks()
    weight = model.fc.weight
    with pytest.raises(ExportError, match=r"could not export Breaks: (.|\n)*test_exporter.py"):
        extract_ir(model, (X,))
    assert model.fc.weight is weight


def test_wrong_calls_are_explained() -> None:
    with pytest.raises(ExportError, match="must be a tuple"):
        extract_ir(nn.ReLU(), [X])  # type: ignore[arg-type]
    with pytest.raises(ExportError, match=r"expected a torch\.nn\.Module"):
        extract_ir(lambda x: x, (X,))  # type: ignore[arg-type]
    model = nn.Linear(6, 6)
    model.weight = nn.Parameter(model.weight.detach().to_sparse())
    with pytest.raises(ExportError, match=r"layout torch\.sparse_coo"):
        extract_ir(model, (X,))


def test_fake_weights_cannot_be_exported() -> None:
    with FakeTensorMode():
        model = nn.Linear(6, 6)
    with pytest.raises(ExportError, match="weight is a fake tensor"):
        extract_ir(model, (X,))
