"""Nodes that nothing reads, and the weights behind a node."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.torch_ir.roundtrip import node_of
from tests.torch_ir.small_models import Calls
from torch_ir import OpNode, TensorMeta, execute_ir, extract_ir
from torch_ir.compat import OpOverload, schema_of
from torch_ir.dataflow import _is_pure, live_nodes, weights_behind
from torch_ir.ir import TensorRef

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def ops(function: object, **options: object) -> list[str]:
    return [node.op_type for node in extract_ir(Calls(function), (X,), **options).nodes]  # type: ignore[arg-type]


def test_a_chain_that_nothing_reads_is_left_out() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.sin().cos().unsqueeze(0)
        return x.relu()

    assert ops(function) == ["aten.relu.default"]


def test_what_checks_only_a_dtype_is_left_out() -> None:
    """`Tensor.to` is traced with an assertion of what the type of the value states."""
    assert ops(lambda x: x.to(torch.float64)) == ["aten.to.dtype"]


def test_a_random_op_stays_because_others_draw_after_it() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch.rand(7)
        return x + torch.rand(3, 4)

    ir = extract_ir(Calls(function), (X,))
    assert [node.op_type for node in ir.nodes].count("aten.rand.default") == 2
    torch.manual_seed(5)
    expected = function(X)
    torch.manual_seed(5)
    assert torch.equal(execute_ir(ir, (X,)), expected)


def test_assertions_stay() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch._assert(x.shape[0] > 1, "more than one row")
        count = x.sum().int().item()
        torch._check(count >= 0)
        return x.relu()

    assert any("assert" in op for op in ops(function))


def test_ops_of_other_libraries_stay() -> None:
    """What they do beside their result is not known."""
    x = TensorMeta("x", (2,), "float32")
    unknown = OpNode("a", "mylib.log.default", [x], [x], arguments={"x": TensorRef("x")})
    dead = OpNode("b", "aten.relu.default", [x], [x], arguments={"self": TensorRef("x")})
    assert live_nodes([unknown, dead], []) == [unknown]


def test_dead_nodes_of_a_subgraph_are_left_out() -> None:
    def true(x: torch.Tensor) -> torch.Tensor:
        x.exp()
        return x.sin()

    ir = extract_ir(Calls(lambda x: torch.cond(x.sum() > 0, true, lambda x: x.cos(), (x,))), (X,))
    found = [[node.op_type for node in graph.nodes] for graph in ir.subgraphs.values()]
    assert found == [["aten.sin.default"], ["aten.cos.default"]]


def test_symbols_of_dropped_nodes_go_with_them() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch.zeros(x.shape[0] * 2)
        return x.relu()

    ir = extract_ir(Calls(function), (X,), dynamic_shapes={"args": ({0: Dim("n")},)})
    assert len(ir.symbols) == 1 and [n.op_type for n in ir.nodes] == ["aten.relu.default"]


def every_overload() -> list[OpOverload]:
    found = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        if hasattr(packet, "overloads"):
            found += [getattr(packet, overload) for overload in packet.overloads()]
    return found


def test_no_op_that_draws_or_writes_is_pure() -> None:
    pure = [op for op in every_overload() if _is_pure(str(op))]
    assert len(pure) > 1000 and torch.ops.aten.relu.default in pure
    for op in pure:
        assert not schema_of(op).is_mutable, op
        assert "generator" not in {argument.name for argument in schema_of(op).arguments}, op
    assert not _is_pure("aten.dropout.default") and not _is_pure("aten.bernoulli.default")


@pytest.mark.parametrize("decompose", [False, True])
def test_weights_behind_a_node(decompose: bool) -> None:
    """After decomposition the product reads the transposed weight."""
    ir = extract_ir(nn.Sequential(nn.Linear(4, 2), nn.ReLU()), (X,), decompose=decompose)
    product = node_of(ir, "aten.addmm.default" if decompose else "aten.linear.default")
    assert sorted(weights_behind(ir, product)) == ["0.bias", "0.weight"]
    assert weights_behind(ir, node_of(ir, "aten.relu.default")) == []
