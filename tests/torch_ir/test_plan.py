"""Compiled plans: nodes that run, fail or are rejected, and the memory of their results."""

from __future__ import annotations

import time
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from torch_ir import IR, ExecutionError, IRExecutor, OpNode, TensorMeta, execute_ir, extract_ir
from torch_ir.ir import GraphRef, Subgraph, TensorRef
from torch_ir.plan import MAX_SUBGRAPH_DEPTH

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def chain(*nodes: OpNode, outputs: list[str]) -> IR:
    metas = {meta.name: meta for node in nodes for meta in node.outputs}
    x = TensorMeta("x", (3, 4), "float32")
    return IR(list(nodes), [x], [metas[name] for name in outputs])


def out(name: str) -> list[TensorMeta]:
    return [TensorMeta(name, (3, 4), "float32", name)]


def test_a_failing_node_names_itself() -> None:
    node = OpNode(
        "bad",
        "aten.view.default",
        [TensorMeta("x", (3, 4), "float32")],
        out("bad"),
        arguments={"self": TensorRef("x"), "size": [5]},
        module_path="body.3",
        source="model.py:7: x.view(5)",
    )
    with pytest.raises(ExecutionError) as failure:
        execute_ir(chain(node, outputs=["bad"]), (X,))
    text = str(failure.value)
    for part in (
        "node bad (aten.view.default)",
        "self: %x = [3, 4] torch.float32 cpu\n",
        "size: [5]",
        "  in body.3\n",
        "model.py:7",
    ):
        assert part in text
    assert isinstance(failure.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("op", "arguments", "message"),
    [
        (
            "aten.relu.default",
            {"input": TensorRef("x")},
            r"no argument input in PyTorch .*; its schema: aten::relu\(Tensor self\)",
        ),
        ("aten.relu.default", {"self": TensorRef("y")}, "uses 'y', which no earlier node produces"),
        ("aten.relu_.default", {"self": TensorRef("x")}, "writes into its argument 'self'"),
        ("aten.nonsense.default", {"self": TensorRef("x")}, "has no such op"),
        ("elsewhere.relu.default", {"self": TensorRef("x")}, "'elsewhere' is not allowed"),
        ("higher_order.flex", {"self": TensorRef("x")}, "register_executor"),
        ("math.factorial", {"arg0": 3}, "'math' is not allowed"),
    ],
)
def test_nodes_that_cannot_run(op: str, arguments: dict[str, Any], message: str) -> None:
    node = OpNode("n", op, [], out("n"), arguments=arguments)
    with pytest.raises(ExecutionError, match=message):
        execute_ir(chain(node, outputs=["n"]), (X,))


def test_a_rejected_node_names_its_source() -> None:
    node = OpNode(
        "n", "aten.nonsense.default", [], out("n"), arguments={}, source="model.py:7: f()"
    )
    with pytest.raises(ExecutionError, match=r"has no such op\n  from model\.py:7: f\(\)$"):
        execute_ir(chain(node, outputs=["n"]), (X,))
    node.source = ""
    with pytest.raises(ExecutionError, match=r"has no such op$"):
        execute_ir(chain(node, outputs=["n"]), (X,))


def test_names_are_unique() -> None:
    x, node = TensorMeta("x", (3, 4), "float32"), OpNode("x", "aten.relu.default", arguments={})
    node.arguments["self"] = TensorRef("x")
    with pytest.raises(ExecutionError, match="two inputs or weights of the graph are called 'x'"):
        execute_ir(IR([], [x, x], []), (X, X))
    with pytest.raises(ExecutionError, match="two values of the graph are called 'x'"):
        execute_ir(IR([node], [x], []), (X,))


def branch(operands: list[Any], *, pred: str = "pred") -> IR:
    """A `cond` whose branches take one value."""
    call = {pred: True, "true_fn": GraphRef("g"), "false_fn": GraphRef("g"), "operands": operands}
    node = OpNode("c", "higher_order.cond", [], [], arguments=call)
    x = TensorMeta("x", (3, 4), "float32")
    return IR([node], [x], [], subgraphs={"g": Subgraph([x], [], [TensorRef("x")])})


def test_subgraphs_are_called_as_they_are_defined() -> None:
    execute_ir(branch([TensorRef("x")]), (X,))
    with pytest.raises(ExecutionError, match="subgraph 'g' expects 1 values, got 2"):
        execute_ir(branch([TensorRef("x"), TensorRef("x")]), (X,))
    with pytest.raises(ExecutionError, match=r"cond has the arguments flag, .*; expected pred, "):
        execute_ir(branch([TensorRef("x")], pred="flag"), (X,))


def test_a_subgraph_that_calls_itself_is_refused() -> None:
    call = {"pred": True, "true_fn": GraphRef("g"), "false_fn": GraphRef("g"), "operands": []}
    node = OpNode("c", "higher_order.cond", [], [], arguments=call)
    ir = IR([node], [], [], subgraphs={"g": Subgraph([], [node], [])})
    with pytest.raises(ExecutionError, match="calls itself"):
        execute_ir(ir, ())


@pytest.mark.parametrize("value", [-1, 6, TensorRef("x"), True])
@pytest.mark.parametrize("name", ["dtype", "layout", "memory_format"])
def test_a_dtype_is_not_a_number(name: str, value: Any) -> None:
    """PyTorch takes the number -1 for a dtype, and ends the process."""
    arguments = {"self": TensorRef("x"), name: value}
    node = OpNode("n", "aten._to_copy.default", [], [], arguments=arguments)
    ir = IR([node], [TensorMeta("x", (3, 4), "float32")], [])
    with pytest.raises(ExecutionError, match=f"'{name}' of .* must be a torch.{name}, not"):
        execute_ir(ir, (X,))


def nested(depth: int) -> IR:
    """Subgraphs that each call the next one from both branches of 6 `cond`s."""

    def calls(name: str) -> list[OpNode]:
        both = {"true_fn": GraphRef(name), "false_fn": GraphRef(name)}
        call = {"pred": False, **both, "operands": []}
        return [OpNode(f"c{i}", "higher_order.cond", [], [], arguments=call) for i in range(6)]

    graphs = {f"g{i}": Subgraph([], calls(f"g{i + 1}"), []) for i in range(depth - 1)}
    graphs[f"g{depth - 1}"] = Subgraph([], [], [])
    return IR(calls("g0"), [], [], subgraphs=graphs)


def test_each_subgraph_is_compiled_once() -> None:
    start = time.process_time()
    IRExecutor(nested(MAX_SUBGRAPH_DEPTH))
    assert time.process_time() - start < 1.0


def test_the_depth_of_subgraphs_is_limited() -> None:
    with pytest.raises(ExecutionError, match="nested deeper than MAX_SUBGRAPH_DEPTH = 32"):
        IRExecutor(nested(MAX_SUBGRAPH_DEPTH + 1))


def test_tensors_are_freed_at_their_last_use() -> None:
    alive: list[int] = []
    seen: list[weakref.ref[torch.Tensor]] = []

    def observe(node: OpNode, value: torch.Tensor) -> None:
        seen.append(weakref.ref(value))
        alive.append(sum(ref() is not None for ref in seen))

    class Chain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(10):
                x = (x + 1).sin()
            return x

    ir = extract_ir(Chain(), (X,))
    IRExecutor(ir).run((X,), observe=observe)
    assert len(alive) == 20 and max(alive) <= 2


def test_zero_and_negative_zero_are_two_numbers() -> None:
    class Signs(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.copysign(x, 0.0), torch.copysign(x, -0.0)

    plus, minus = execute_ir(extract_ir(Signs(), (X,)), (X,))
    assert torch.equal(plus, X.abs()) and torch.equal(minus, -X.abs())
