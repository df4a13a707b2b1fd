"""Verification: what counts as the same, and what the report says when it is not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torch_ir import IR, extract_ir, verify_ir, verify_ir_with_state_dict
from torch_ir.verifier import compare_values

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        hidden = self.norm(self.first(x))
        return {"y": self.last(hidden.tanh()), "hidden": hidden, "rows": x.shape[0], "none": None}


@pytest.fixture
def model() -> Model:
    torch.manual_seed(0)
    return Model()


@pytest.fixture
def ir(model: Model) -> IR:
    return extract_ir(model, (X,))


def test_passes_with_the_models_weights(ir: IR, model: Model, tmp_path: Path) -> None:
    torch.save(model.state_dict(), path := tmp_path / "w.pt")
    passed, report = verify_ir(ir, path, model, (X,))
    assert passed and report.is_valid and report.max_abs_error == 0
    assert report.min_snr_db == math.inf
    names = ["['y']", "['hidden']", "['rows']", "['none']"]
    assert [output.name for output in report.outputs] == names
    assert str(report).startswith("verification passed: 4 values")


def test_default_tolerance_is_1e_4(ir: IR, model: Model) -> None:
    state = {key: t.clone() for key, t in model.state_dict().items()}
    state["last.bias"] += 5e-5
    assert verify_ir_with_state_dict(ir, state, model, (X,))[0]
    state["last.bias"] += 5e-3
    assert not verify_ir_with_state_dict(ir, state, model, (X,))[0]


def test_report_of_a_failure(ir: IR, model: Model) -> None:
    state = dict(model.state_dict())
    state["last.bias"] = state["last.bias"] + 1
    passed, report = verify_ir_with_state_dict(ir, state, model, (X,))
    y, hidden, *_ = report.outputs
    assert not passed and hidden.matches and not y.matches
    assert y.max_abs_error == pytest.approx(1, abs=1e-5) and y.snr_db < 20
    assert "6 of 6 values differ" in str(report)


def test_the_first_departing_node_is_named(ir: IR, model: Model) -> None:
    node = next(node for node in ir.nodes if node.op_type == "aten.layer_norm.default")
    node.arguments["eps"] = 10.0
    passed, report = verify_ir_with_state_dict(
        ir, model.state_dict(), model, (X,), node_by_node=True
    )
    assert not passed and report.first_departing_node is not None
    assert report.first_departing_node.name == f"{node.name} (aten.layer_norm.default)"
    assert report.nodes_compared >= 2
    assert f"{report.nodes_compared} nodes compared\n" in str(report)
    assert f"first node that differs: {node.name} (aten.layer_norm.default): " in str(report)


def test_the_first_departing_node_is_named_with_its_module_and_weights(
    ir: IR, model: Model
) -> None:
    state = dict(model.state_dict())
    state["last.bias"] = state["last.bias"] + 1
    _, report = verify_ir_with_state_dict(ir, state, model, (X,), node_by_node=True)
    node = report.first_departing_node
    assert node is not None and node.module_path == "last"
    assert node.weights == ["last.weight", "last.bias"]
    assert "in last (torch.nn.modules.linear.Linear)" in str(report)
    assert "weights: last.weight, last.bias" in str(report)
    assert node.source and f"from {node.source}" in str(report)


def test_node_by_node_of_a_decomposed_ir(model: Model) -> None:
    ir = extract_ir(model, (X,), decompose=True)
    passed, report = verify_ir_with_state_dict(
        ir, model.state_dict(), model, (X,), node_by_node=True
    )
    assert passed and report.nodes_compared == len(ir.nodes)
    assert report.first_departing_node is None


def test_other_structure_is_a_failure(ir: IR, model: Model) -> None:
    class Other(Model):
        def forward(self, x: torch.Tensor) -> Any:
            return list(super().forward(x).values())

    other = Other()
    other.load_state_dict(model.state_dict())
    passed, report = verify_ir_with_state_dict(ir, model.state_dict(), other, (X,))
    assert not passed and "different structures" in str(report)


def test_a_key_that_is_none_is_not_a_key_that_is_missing(ir: IR, model: Model) -> None:
    class Other(Model):
        def forward(self, x: torch.Tensor) -> Any:
            return {key: value for key, value in super().forward(x).items() if value is not None}

    other = Other()
    other.load_state_dict(model.state_dict())
    passed, report = verify_ir_with_state_dict(ir, model.state_dict(), other, (X,))
    assert not passed and "different structures" in str(report)


def test_an_ir_that_cannot_run_is_reported(ir: IR, model: Model, tmp_path: Path) -> None:
    passed, report = verify_ir_with_state_dict(ir, {}, model, (X,))
    assert not passed and "missing" in str(report.error_message)
    passed, report = verify_ir(ir, tmp_path / "none.pt", model, (X,))
    assert not passed and "does not exist" in str(report.error_message)


def test_a_parameter_that_the_model_changes_is_compared() -> None:
    class Count(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = nn.Parameter(torch.zeros(1), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n.add_(1)
            return x + self.n

    model = Count()
    passed, report = verify_ir_with_state_dict(
        extract_ir(model, (X,)), model.state_dict(), model, (X,)
    )
    assert passed and [output.name for output in report.outputs] == ["output", "mutation of n"]
    assert model.n.item() == 0


def test_an_input_that_the_model_changes_is_compared() -> None:
    class Doubles(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            x.mul_(2)
            return y

    model, x = Doubles(), X.clone()
    ir = extract_ir(model, (x,))
    assert verify_ir_with_state_dict(ir, {}, model, (x,))[0] and torch.equal(x, X)
    node = next(node for node in ir.nodes if node.op_type.startswith("aten.mul"))
    node.arguments["other"] = 3
    passed, report = verify_ir_with_state_dict(ir, {}, model, (x,))
    assert not passed
    assert [(o.name, o.matches) for o in report.outputs] == [
        ("output", True),
        ("mutation of x", False),
    ]


def test_random_ops_see_the_same_numbers() -> None:
    model = nn.Dropout(0.5).train()
    ir = extract_ir(model, (X,))
    assert verify_ir_with_state_dict(ir, {}, model, (X,))[0]


@pytest.mark.parametrize(
    ("left", "right", "matches"),
    [
        (torch.tensor([math.nan, 1.0]), torch.tensor([math.nan, 1.0]), True),
        (torch.tensor([math.nan]), torch.tensor([1.0]), False),
        (torch.tensor([math.inf]), torch.tensor([math.inf]), True),
        (torch.tensor([math.inf]), torch.tensor([-math.inf]), False),
        (torch.tensor([math.inf]), torch.tensor([1e30]), False),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), False),
        (torch.tensor([1.0]), torch.tensor([[1.0]]), False),
        (torch.tensor([1, 2]), torch.tensor([1, 2]), True),
        (torch.tensor([1 + 1j]), torch.tensor([1 + 2j]), False),
        (torch.empty(0), torch.empty(0), True),
        (None, None, True),
        (None, 0, False),
        (1, True, False),
        (1.0, 1.0 + 1e-9, True),
        ("a", "b", False),
    ],
)
def test_what_counts_as_the_same(left: Any, right: Any, matches: bool) -> None:
    comparison = compare_values("value", left, right, 1e-4, 1e-4)
    assert comparison.matches is matches
    assert bool(comparison.reason) is not matches


def test_errors_are_measured() -> None:
    left, right = torch.tensor([100.0, 1.0]), torch.tensor([101.0, 1.0])
    comparison = compare_values("value", left, right, 0, 0)
    assert comparison.max_abs_error == 1 and comparison.max_rel_error == pytest.approx(0.01)
    assert comparison.snr_db == pytest.approx(10 * math.log10(10001))
