"""In-place ops become functional ones, and what they leave behind becomes mutations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.torch_ir.roundtrip import roundtrip
from tests.torch_ir.small_models import Calls
from torch_ir import IR, convert_exported_program, execute_ir, verify_ir_with_state_dict

X = torch.linspace(-2, 2, 24).reshape(4, 6)


class Mutating(nn.Module):
    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        x.view(-1)[0] = 100.0
        return x * self.count


def test_mutations_are_outputs_and_applied_only_on_request(tmp_path: Path) -> None:
    model = Mutating()
    ir = roundtrip(model, (X.clone(),), tmp_path)
    assert [(m.kind, m.target) for m in ir.mutations] == [("buffer", "count"), ("input", "x")]
    assert float(model.count) == 0, "verification leaves the model as it was"
    weights, x = {"count": torch.zeros(())}, X.clone()
    first = execute_ir(ir, (x,), weights)
    assert float(weights["count"]) == 0 and torch.equal(x, X)
    execute_ir(ir, (x,), weights, apply_mutations=True)
    assert float(weights["count"]) == 1 and float(x[0, 0]) == 100
    assert torch.equal(first, model(X.clone()))


def no_writes(ir: IR) -> bool:
    nodes = [*ir.nodes, *(node for graph in ir.subgraphs.values() for node in graph.nodes)]
    return not any(
        node.op_type.split(".")[1].endswith("_") for node in nodes if "." in node.op_type
    )


def _on_a_view(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    y.view(-1).relu_()
    return y


def _twice(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    before = y * 2
    y.add_(1)
    y.mul_(3)
    return y + before


def _through_a_no_op(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    F.dropout(y, training=False).neg_()
    return y


def _through_a_hidden_view(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    torch.einsum("ij->ji", y).neg_()
    return y


def _in_a_branch(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda t: t.clone().relu_(), lambda t: t.clone().neg_(), (x,))


def _without_gradients(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    with torch.enable_grad():
        y.exp_()
    return y


def _compared(x: torch.Tensor) -> torch.Tensor:
    y = x + 0
    y.gt_(0)
    return y * 2


def _negated(x: torch.Tensor) -> torch.Tensor:
    y = x.round().int()
    y.logical_not_()
    return y


def _with_another_dtype(x: torch.Tensor) -> torch.Tensor:
    y = x.half()
    y.add_(x)
    return y


@pytest.mark.parametrize(
    "function",
    [
        _on_a_view,
        _twice,
        _through_a_no_op,
        _through_a_hidden_view,
        _in_a_branch,
        _without_gradients,
        _with_another_dtype,
        _compared,
        _negated,
    ],
)
def test_in_place_ops_become_functional(function: Any, tmp_path: Path) -> None:
    assert no_writes(roundtrip(Calls(function), (X.clone(),), tmp_path))


def test_simple_in_place_ops_keep_their_graph(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4), nn.ReLU(inplace=True)).eval()
    ir = roundtrip(model, (X[None],), tmp_path)
    assert [node.op_type for node in ir.nodes][-1] == "aten.relu.default" and len(ir.nodes) == 3


def test_batch_norm_in_training_updates_its_statistics(tmp_path: Path) -> None:
    model = nn.BatchNorm1d(6).train()
    ir = roundtrip(model, (X,), tmp_path)
    assert {m.target for m in ir.mutations} == {
        "running_mean",
        "running_var",
        "num_batches_tracked",
    }


def test_a_program_exported_by_hand(tmp_path: Path) -> None:
    model = Mutating()
    program = torch.export.export(model, (X.clone(),))
    nodes = len(program.graph.nodes)
    ir = convert_exported_program(program, "by hand")
    assert len(program.graph.nodes) == nodes, "the caller's program is as it was"
    assert ir.model_name == "by hand" and len(ir.mutations) == 2
    assert verify_ir_with_state_dict(ir, model.state_dict(), model, (X,))[0]


@pytest.mark.parametrize("function", [_through_a_no_op, _through_a_hidden_view, _twice])
def test_a_program_exported_by_hand_with_in_place_ops(function: Any) -> None:
    model = Calls(function)
    program = torch.export.export(model, (X,))
    code = program.graph_module.code
    ir = convert_exported_program(program)
    assert program.graph_module.code == code, "the caller's program is as it was"
    assert no_writes(ir) and torch.equal(execute_ir(ir, (X,)), model(X.clone()))


def test_an_exported_program_with_an_input_named_like_a_builtin() -> None:
    """FX renames `input` when it copies a graph; nn.Sequential calls its argument so."""
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(inplace=True))
    ir = convert_exported_program(torch.export.export(model, (X,)))
    assert [meta.name for meta in ir.graph_inputs] == ["input"] and no_writes(ir)
    assert torch.equal(execute_ir(ir, (X,), model.state_dict()), model(X))
