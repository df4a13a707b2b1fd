"""Running an IR: checks before the run, errors that name the node, memory, hooks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from torch_ir import (
    IR,
    ExecutionError,
    IRExecutor,
    TensorMeta,
    WeightLoadError,
    execute_ir,
    extract_ir,
)

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)


@pytest.fixture(scope="module")
def linear() -> tuple[IR, Linear]:
    model = Linear()
    return extract_ir(model, (X,)), model


def test_result_is_the_models(linear: tuple[IR, Linear]) -> None:
    ir, model = linear
    result = execute_ir(ir, (X,), model.state_dict())
    assert torch.equal(result, model(X)) and not result.requires_grad


def test_an_executor_runs_many_times(linear: tuple[IR, Linear]) -> None:
    ir, model = linear
    run = IRExecutor(ir, model.state_dict())
    for scale in (1, 2):
        assert torch.equal(run(X * scale), model(X * scale))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((), "got 0 positional inputs; the model was extracted with 1"),
        ((X, X), "got 2 positional inputs"),
        ((X[:2],), r"input x \(args\[0\]\): the IR expects float32\[3, 4\], got float32\[2, 4\]"),
        ((X.double(),), r"expects float32\[3, 4\], got float64"),
        ((X.flatten(),), r"got float32\[12\]"),
        ((3.0,), "got float 3.0"),
        (X, r"\(x,\), not x"),
    ],
)
def test_wrong_inputs(linear: tuple[IR, Linear], inputs: Any, message: str) -> None:
    ir, model = linear
    with pytest.raises(ExecutionError, match=message):
        execute_ir(ir, inputs, model.state_dict())


def test_wrong_constants_and_keywords() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, *, scale: int = 1) -> torch.Tensor:
            return x * scale

    ir = extract_ir(Model(), (X,), kwargs={"scale": 2})
    with pytest.raises(ExecutionError, match="extracted with the constant 2, got 3"):
        execute_ir(ir, (X,), kwargs={"scale": 3})
    with pytest.raises(ExecutionError, match=r"missing \['scale'\], unexpected \['size'\]"):
        execute_ir(ir, (X,), kwargs={"size": 2})


def test_missing_surplus_and_other_weights(linear: tuple[IR, Linear]) -> None:
    ir, model = linear
    state = model.state_dict()
    with pytest.raises(WeightLoadError, match=r"missing: fc\.bias"):
        execute_ir(ir, (X,), {"fc.weight": state["fc.weight"]})
    with pytest.raises(WeightLoadError, match="not weights of this model: more"):
        execute_ir(ir, (X,), {**state, "more": X})
    assert execute_ir(ir, (X,), {**state, "more": X}, allow_surplus=True).shape == (3, 2)
    with pytest.raises(WeightLoadError, match=r"fc\.bias: expected float32\[2\], got float64\[2\]"):
        execute_ir(ir, (X,), {**state, "fc.bias": state["fc.bias"].double()})
    with pytest.raises(WeightLoadError, match=r"got float32\[4, 2\]"):
        execute_ir(ir, (X,), {**state, "fc.weight": state["fc.weight"].T})
    with pytest.raises(ExecutionError, match="on the meta device"):
        execute_ir(ir, (X,), {key: t.to("meta") for key, t in state.items()})


def test_weights_or_path_not_both(linear: tuple[IR, Linear], tmp_path: Any) -> None:
    with pytest.raises(ExecutionError, match="not both"):
        execute_ir(linear[0], (X,), {}, tmp_path / "x.pt")


def test_unused_weights_need_not_be_given() -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.never = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    ir = extract_ir(Unused(), (X,))
    assert len(ir.weights) == 2
    assert torch.equal(execute_ir(ir, (X,)), X + 1)
    assert torch.equal(execute_ir(ir, (X,), Unused().state_dict()), X + 1)


def test_nan_as_a_constant_of_the_call() -> None:
    class Add(nn.Module):
        def forward(self, x: torch.Tensor, y: float) -> torch.Tensor:
            return x + y

    ir = extract_ir(Add(), (X, math.nan))
    assert execute_ir(ir, (X, math.nan)).isnan().all()
    with pytest.raises(ExecutionError, match="extracted with the constant nan"):
        execute_ir(ir, (X, 1.0))


@pytest.mark.parametrize("device", ["nowhere", "xpu:7"])
def test_a_device_that_is_not_there(linear: tuple[IR, Linear], device: str) -> None:
    ir, model = linear
    with pytest.raises(ExecutionError, match=f"device {device}"):
        execute_ir(ir, (X,), model.state_dict(), device=device)


def test_an_ir_without_a_tree_of_inputs() -> None:
    """One that is built by hand has flat positional inputs."""
    x = TensorMeta("x", (3, 4), "float32")
    y = TensorMeta("y", (3, 4), "float32")
    ir = IR([], [x, y], [y])
    assert torch.equal(execute_ir(ir, (X, X + 1)), X + 1)
    with pytest.raises(ExecutionError, match="got 1 inputs, the IR expects 2"):
        execute_ir(ir, (X,))
    with pytest.raises(ExecutionError, match="has no keyword inputs; pass all inputs by position"):
        execute_ir(ir, (X,), kwargs={"y": X})
    with pytest.raises(ExecutionError, match=r"input y \(inputs\[1\]\): the IR expects float32"):
        execute_ir(ir, (X, X[0]))


@pytest.mark.parametrize(
    ("kind", "good", "bad"), [("SymInt", 3, 3.0), ("SymFloat", 3, "3"), ("SymBool", True, 1)]
)
def test_numbers_have_a_type(kind: str, good: Any, bad: Any) -> None:
    n = TensorMeta("n", (), kind)
    ir = IR([], [n], [n])
    assert execute_ir(ir, (good,)) == good
    with pytest.raises(ExecutionError, match=rf"the IR expects {kind}, got {type(bad).__name__} "):
        execute_ir(ir, (bad,))


def test_allow_ops_is_a_list() -> None:
    with pytest.raises(ExecutionError, match=r"must be a list of ops: pass \['aten\.relu'\]"):
        execute_ir(IR([], [], []), (), allow_ops="aten.relu")
