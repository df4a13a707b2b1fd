"""User hooks: conversions, executors and namespaces."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from torch_ir import ConversionError, OpNode, execute_ir, extract_ir, register_executor, register_op
from torch_ir.ops import registry

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def test_register_executor_replaces_an_op() -> None:
    model = nn.Linear(4, 2)
    ir = extract_ir(model, (X,))
    calls = []

    @register_executor("aten.linear")
    def run_linear(inputs: list[torch.Tensor], attrs: Any) -> torch.Tensor:
        calls.append(len(inputs))
        return inputs[0] @ inputs[1].T + inputs[2]

    try:
        torch.testing.assert_close(execute_ir(ir, (X,), model.state_dict()), model(X))
        with pytest.raises(ValueError, match="override=True"):
            register_executor("aten.linear")(run_linear)
    finally:
        registry.unregister_executor("aten.linear")
    assert calls == [3]


def test_register_op_changes_the_conversion() -> None:
    @register_op("aten.relu.default")
    def convert(info: Any) -> OpNode:
        return OpNode(
            info.name, "aten.sigmoid.default", info.inputs, info.outputs, arguments=info.arguments
        )

    try:
        ir = extract_ir(nn.ReLU(), (X,))
    finally:
        registry.unregister_op("aten.relu.default")
    assert torch.equal(execute_ir(ir, (X,)), X.sigmoid())


def test_custom_op_of_torch_library() -> None:
    @torch.library.custom_op("torch_ir_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return twice(x) + 1

    ir = extract_ir(Model(), (X,))
    assert ir.nodes[0].op_type == "torch_ir_tests.twice.default"
    assert torch.equal(execute_ir(ir, (X,)), X * 2 + 1)


def test_an_executor_for_the_overload_wins() -> None:
    made = {}
    for name in ("mylib.op", "mylib.op.default"):

        @register_executor(name)
        def run(inputs: list[torch.Tensor], attrs: Any, name: str = name) -> str:
            return name

        made[name] = run
    try:
        assert registry.executor_for("mylib.op.default") is made["mylib.op.default"]
        assert registry.executor_for("mylib.op.other") is made["mylib.op"]
        assert registry.executor_for("mylib.others.default") is None
        replacement = register_executor("mylib.op", override=True)(made["mylib.op.default"])
        assert registry.executor_for("mylib.op.other") is replacement
    finally:
        for name in made:
            registry.unregister_executor(name)
    assert registry.executor_for("mylib.op.default") is None


def test_a_conversion_must_return_a_node() -> None:
    register_op("aten.relu")(lambda info: None)
    try:
        with pytest.raises(ConversionError, match=r"for aten\.relu\.default must return an OpNode"):
            extract_ir(nn.ReLU(), (X,))
    finally:
        registry.unregister_op("aten.relu")


def test_a_namespace_must_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_namespaces", set(registry._namespaces))
    assert registry.is_allowed_namespace("aten") and not registry.is_allowed_namespace("mylib")
    registry.allow_namespace("mylib")
    assert registry.is_allowed_namespace("mylib")


@pytest.mark.parametrize("namespace", ["prim", "higher_order", "a.b", "", "os; import sys"])
def test_namespaces_that_cannot_be_allowed(namespace: str) -> None:
    with pytest.raises(ValueError, match="is not a namespace of ops that can be allowed"):
        registry.allow_namespace(namespace)
