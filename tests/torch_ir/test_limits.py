"""Limits of memory and time: what is refused, and that nothing is allocated for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.torch_ir.one_call import one_call
from torch_ir import (
    IR,
    ExecutionError,
    IRExecutor,
    Limits,
    OpNode,
    TensorMeta,
    execute_ir,
    extract_ir,
)
from torch_ir.ir import GraphRef, Subgraph, TensorRef

SMALL = Limits(memory_bytes=2**20, seconds=0.2)
X = torch.ones(4, 4)
NUMBERS = torch.tensor([10**9, 3])


@pytest.mark.parametrize(
    ("op_type", "arguments"),
    [
        ("aten.full.default", {"size": [2**20], "fill_value": 1}),
        ("aten.zeros.default", {"size": [2**40]}),
        ("aten.arange.default", {"end": 2**50}),
        ("aten.expand.default", {"self": "%0", "size": [2**40, 4, 4]}),
        ("aten.repeat.default", {"self": "%0", "repeats": [2**20, 1, 1]}),
        ("aten.constant_pad_nd.default", {"self": "%0", "pad": [2**30, 0]}),
        ("aten.outer.default", {"self": "%2", "vec2": "%2"}),
        ("aten.bincount.default", {"self": "%1"}),
        ("aten.one_hot.default", {"self": "%1"}),
        ("aten.repeat_interleave.Tensor", {"repeats": "%1"}),
        ("aten.repeat_interleave.self_Tensor", {"self": "%1", "repeats": "%1"}),
    ],
)
def test_large_results_are_refused(op_type: str, arguments: dict[str, Any]) -> None:
    inputs = (X, NUMBERS, torch.ones(1000))
    ir = one_call(op_type, *inputs, **arguments)
    with pytest.raises(ExecutionError, match=r"Limits.memory_bytes = 1048576"):
        execute_ir(ir, inputs, limits=SMALL)


def test_temporary_tensors_count() -> None:
    """`combinations` makes a grid of 1,000 x 1,000 x 1,000 on its way."""
    x = torch.ones(1000, 2)
    ir = one_call("aten.combinations.default", x[:, 0], self="%0", r=3)
    with pytest.raises(ExecutionError, match=r"Limits.memory_bytes"):
        execute_ir(ir, (x[:, 0],), limits=SMALL)


def test_many_small_results_are_refused_together() -> None:
    nodes = []
    for i in range(300):
        meta = TensorMeta(f"n{i}", (1000,), "float32", f"n{i}")
        arguments = {"size": [1000]}
        nodes.append(OpNode(f"n{i}", "aten.zeros.default", [], [meta], arguments=arguments))
    kept = IR(nodes, [], [node.outputs[0] for node in nodes])
    with pytest.raises(ExecutionError, match=r"Limits.memory_bytes"):
        execute_ir(kept, (), limits=SMALL)
    freed = IR(nodes, [], [nodes[-1].outputs[0]])
    assert execute_ir(freed, (), limits=SMALL).shape == (1000,)


def test_an_endless_loop_ends() -> None:
    meta = TensorMeta("x0", (), "float32")
    graphs = {
        "always": Subgraph([meta], [], [True]),
        "same": Subgraph([meta], [], [TensorRef("x0")]),
    }
    arguments = {
        "cond_fn": GraphRef("always"),
        "body_fn": GraphRef("same"),
        "carried_inputs": [TensorRef("x0")],
    }
    node = OpNode("y", "higher_order.while_loop", [], [], arguments=arguments)
    ir = IR([node], [meta], [meta], subgraphs=graphs)
    with pytest.raises(ExecutionError, match=r"longer than Limits.seconds = 0.2"):
        execute_ir(ir, (torch.tensor(1.0),), limits=SMALL)


@pytest.mark.parametrize("op_type", ["aten.mm.default", "aten.linalg_svd.default"])
def test_work_is_estimated(op_type: str) -> None:
    x = torch.ones(2000, 2000)
    arguments = {"self": "%0", "mat2": "%0"} if "mm" in op_type else {"A": "%0"}
    with pytest.raises(ExecutionError, match=r"multiplications take longer than Limits.seconds"):
        execute_ir(one_call(op_type, x, **arguments), (x,), limits=Limits(2**30, 0.01))


def test_results_are_the_same_with_limits() -> None:
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)]
    model = nn.Sequential(*layers).eval()
    x = torch.randn(2, 3, 8, 8)
    ir = extract_ir(model, (x,))
    run = IRExecutor(ir, model.state_dict(), limits=Limits())
    expected = execute_ir(ir, (x,), model.state_dict())
    assert torch.equal(run(x), expected) and torch.equal(run(x), expected)
