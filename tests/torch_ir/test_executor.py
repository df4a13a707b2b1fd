"""Running an IR: checks before the run, errors that name the node, memory, hooks."""

from __future__ import annotations

import collections
import json
import math
import sys
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from torch_ir import (
    IR,
    ExecutionError,
    IRExecutor,
    OpNode,
    TensorMeta,
    WeightLoadError,
    execute_ir,
    extract_ir,
    register_executor,
    register_op,
)
from torch_ir.ir import Subgraph, Symbol, TensorRef
from torch_ir.ops import registry
from torch_ir.ops.aten_ops import resolve_overload
from torch_ir.serializer import deserialize_ir, serialize_ir

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
        ((), "0 positional inputs given, the model was extracted with 1"),
        ((X, X), "2 positional inputs given"),
        ((X[:2],), r"input 0, x.*takes float32\[3, 4\], got float32\[2, 4\]"),
        ((X.double(),), r"takes float32\[3, 4\], got float64"),
        ((X.flatten(),), r"got float32\[12\]"),
        ((3.0,), "got float 3.0"),
        (X, r"\(x,\), not x"),
    ],
)
def test_wrong_inputs(linear: tuple[IR, Linear], inputs: Any, message: str) -> None:
    ir, model = linear
    with pytest.raises(ExecutionError, match=message):
        execute_ir(ir, inputs, model.state_dict())


def test_wrong_sizes_of_dynamic_inputs() -> None:
    n = torch.export.Dim("n", min=2, max=5)

    class Two(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a + b

    ir = extract_ir(Two(), (X, X), dynamic_shapes=({0: n}, {0: n}))
    with pytest.raises(ExecutionError, match="must be at least 2 and at most 5"):
        execute_ir(ir, (torch.ones(6, 4), torch.ones(6, 4)))
    with pytest.raises(ExecutionError, match="input b: dimension 0 is 3, the IR says 4"):
        execute_ir(ir, (torch.ones(4, 4), torch.ones(3, 4)))
    with pytest.raises(ExecutionError, match="input b: dimension 1 is 5, the IR says 4"):
        execute_ir(ir, (torch.ones(3, 4), torch.ones(3, 5)))


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
    with pytest.raises(
        WeightLoadError, match=r"fc\.bias: the IR says float32\[2\], got float64\[2\]"
    ):
        execute_ir(ir, (X,), {**state, "fc.bias": state["fc.bias"].double()})
    with pytest.raises(WeightLoadError, match=r"got float32\[4, 2\]"):
        execute_ir(ir, (X,), {**state, "fc.weight": state["fc.weight"].T})
    with pytest.raises(ExecutionError, match="on meta"):
        execute_ir(ir, (X,), {key: t.to("meta") for key, t in state.items()})


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
        "%x = [3, 4]",
        "size: [5]",
        "body.3",
        "model.py:7",
    ):
        assert part in text
    assert isinstance(failure.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("op", "arguments", "message"),
    [
        ("aten.relu.default", {"input": TensorRef("x")}, r"no argument input\n.*schema here is"),
        ("aten.relu.default", {"self": TensorRef("y")}, "uses 'y', which nothing before it makes"),
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


def test_a_subgraph_that_calls_itself_is_refused() -> None:
    from torch_ir.ir import GraphRef

    call = {"pred": True, "true_fn": GraphRef("g"), "false_fn": GraphRef("g"), "operands": []}
    node = OpNode("c", "higher_order.cond", [], [], arguments=call)
    ir = IR([node], [], [], subgraphs={"g": Subgraph([], [node], [])})
    with pytest.raises(ExecutionError, match="calls itself"):
        execute_ir(ir, ())


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


def test_nodes_built_by_hand_from_inputs_and_attributes() -> None:
    x = TensorMeta("x", (3, 4), "float32")
    node = OpNode("y", "aten.add.Scalar", [x], out("y"), {"other": 2.5})
    assert torch.equal(execute_ir(chain(node, outputs=["y"]), (X,)), X + 2.5)
    with pytest.raises(TypeError):
        node.attrs["other"] = 3  # type: ignore[index]
    with pytest.raises(TypeError, match="not both"):
        OpNode("y", "aten.add.Scalar", [x], out("y"), {"other": 2}, arguments={})


def test_register_executor_replaces_an_op(linear: tuple[IR, Linear]) -> None:
    ir, model = linear
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


def test_zero_and_negative_zero_are_two_numbers() -> None:
    class Signs(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.copysign(x, 0.0), torch.copysign(x, -0.0)

    plus, minus = execute_ir(extract_ir(Signs(), (X,)), (X,))
    assert torch.equal(plus, X.abs()) and torch.equal(minus, -X.abs())


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


class Factory(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return collections.defaultdict(list, a=x + 1)


@pytest.mark.parametrize(
    ("module", "name"), [("this", "s"), ("os", "getcwd"), ("builtins", "exec")]
)
def test_a_result_imports_and_calls_nothing_that_a_file_names(module: str, name: str) -> None:
    document = json.loads(serialize_ir(extract_ir(Factory(), (X,))))
    factory = {"default_factory_module": module, "default_factory_name": name}
    document["out_spec"]["context"] = json.dumps({**factory, "dict_context": ["a"]})
    result = execute_ir(deserialize_ir(json.dumps(document)), (X,))
    assert "this" not in sys.modules
    assert getattr(result, "default_factory", None) is None and torch.equal(result["a"], X + 1)


def test_a_defaultdict_stays_one() -> None:
    result = execute_ir(deserialize_ir(serialize_ir(extract_ir(Factory(), (X,)))), (X,))
    assert type(result) is collections.defaultdict and result.default_factory is list


@pytest.mark.parametrize("context", ["{", "[]", "3", '{"dict_context":["a","b"]}'])
def test_a_damaged_context_of_a_result(context: str) -> None:
    ir = extract_ir(Factory(), (X,))
    assert ir.out_spec is not None
    ir.out_spec.context = context
    with pytest.raises(ExecutionError, match=r"cannot be nested in a collections\.defaultdict"):
        execute_ir(ir, (X,))


def test_no_op_that_takes_a_file_name_can_run() -> None:
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if any("file" in argument.name for argument in schema.arguments):
            overload = schema.overload_name or "default"
            assert resolve_overload(f"{namespace}.{name}.{overload}") is None, schema


def test_a_size_expression_cannot_take_time_without_end() -> None:
    metas = [TensorMeta("x", ("s0",), "float32"), TensorMeta("y", ("((s0**64)**64)**64",), "int8")]
    ir = IR([], metas, metas[:1], symbols={"s0": Symbol("s0")})
    with pytest.raises(ExecutionError, match="input y: dimension 0 is 1"):
        execute_ir(ir, (torch.ones(9), torch.ones(1, dtype=torch.int8)))
