"""Reading FX nodes: types of values, arguments by name, places in the source."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch import fx

from torch_ir import ConversionError, TensorMeta
from torch_ir.analyzer import (
    NodeInfo,
    bind_inputs,
    call_arguments,
    convert_value,
    dtype_name,
    meta_of,
    module_of,
    outputs_of,
    source_of,
)
from torch_ir.ir import TensorRef

X = TensorMeta("x", (2, 3), "float32")
Y = TensorMeta("y", (2, 3), "float32")


def node(**meta: Any) -> fx.Node:
    made = fx.Graph().placeholder("x")
    made.meta.update(meta)
    return made


def test_dtype_name() -> None:
    assert dtype_name(torch.bfloat16) == "bfloat16"


@pytest.mark.parametrize(
    ("value", "described"),
    [
        (torch.ones(2, dtype=torch.int8), "int8[2]"),
        (torch.ones(()), "float32[]"),
        (3, "SymInt 3"),
        (True, "SymBool True"),
        (0.5, "SymFloat 0.5"),
    ],
)
def test_types_of_values(value: Any, described: str) -> None:
    meta = meta_of("x", value, "producer", 2)
    assert meta.describe() == described
    assert (meta.name, meta.producer_node, meta.producer_output_idx) == ("x", "producer", 2)


def test_a_value_that_is_neither_tensor_nor_number() -> None:
    with pytest.raises(ConversionError, match=r"x has the type str; .* must be tensors or numbers"):
        meta_of("x", "text")


def test_results_that_are_none_keep_the_index_of_the_others() -> None:
    found = outputs_of(node(val=(torch.ones(1), None, torch.ones(2))), "split")
    assert [(m.name, m.producer_output_idx) for m in found] == [("split.0", 0), ("split.2", 2)]
    assert outputs_of(node(), "none") == []
    with pytest.raises(ConversionError, match="output 1 is itself a sequence"):
        outputs_of(node(val=(torch.ones(1), [torch.ones(1)])), "split")


def test_arguments_are_named_and_ordered_by_the_schema() -> None:
    x = node()
    values = {x: TensorRef("x")}
    target = torch.ops.aten.add.Tensor
    found = call_arguments(target, (), {"alpha": 2, "other": x, "self": x}, values)
    assert list(found.items()) == [
        ("self", TensorRef("x")),
        ("other", TensorRef("x")),
        ("alpha", 2),
    ]
    assert call_arguments(operator.getitem, (x, 1), {}, values) == {
        "input": TensorRef("x"),
        "index": 1,
    }
    assert list(call_arguments(operator.mul, (3, 4), {}, {})) == ["arg0", "arg1"]


def test_an_argument_that_cannot_be_stored() -> None:
    assert convert_value([1, None, torch.float32], {}) == [1, None, torch.float32]
    with pytest.raises(ConversionError, match="has the type object, which an IR cannot store"):
        convert_value(object(), {})


def test_the_module_of_a_node() -> None:
    stack = {"a": ("net", torch.nn.Sequential), "b": ("net.fc@1", "my.Linear@1")}
    assert module_of(node(nn_module_stack=stack)) == ("net.fc", "my.Linear")
    only = {"a": ("net", torch.nn.Sequential)}
    name = "torch.nn.modules.container.Sequential"
    assert module_of(node(nn_module_stack=only)) == ("net", name)
    marked = {"a": ("_empty_nn_module_stack_from_metadata_hook", "")}
    assert module_of(node(nn_module_stack=marked)) == module_of(node()) == ("", "")


def test_the_source_of_a_node() -> None:
    trace = (
        'File "/somewhere/model.py", line 3, in forward\n    return self.fc(x)\n'
        'File "<eval_with_key>.7", line 9, in forward\n    linear = generated()\n'
    )
    assert source_of(node(stack_trace=trace)) == "model.py:3: return self.fc(x)"
    assert source_of(node(stack_trace="no frame")) == source_of(node()) == ""


def test_inputs_are_bound_to_the_tensor_arguments() -> None:
    assert bind_inputs("aten.add.Tensor", [X, Y], {"alpha": 2}) == {
        "self": TensorRef("x"),
        "other": TensorRef("y"),
        "alpha": 2,
    }
    assert bind_inputs("aten.cat.default", [X, Y], {"dim": 1}) == {
        "tensors": [TensorRef("x"), TensorRef("y")],
        "dim": 1,
    }
    part = TensorMeta("split.1", (1,), "float32", "split", 1)
    assert bind_inputs("getitem", [part], {"index": 1}) == {"input": TensorRef("split"), "index": 1}


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        (
            "aten.relu.default",
            [X, Y],
            {},
            "does not accept y; its schema: aten::relu",
        ),
        ("aten.relu.default", [X], {"slope": 1}, "does not accept slope"),
        ("nowhere.op.default", [X], {}, "nowhere.op.default has no schema"),
        ("getitem", [X, Y], {"index": 0}, "getitem takes one input, got 2"),
    ],
)
def test_inputs_that_cannot_be_bound(op: str, inputs: Any, attrs: Any, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        bind_inputs(op, inputs, attrs)


def test_attrs_are_the_arguments_without_tensors() -> None:
    arguments = {"self": TensorRef("x"), "dim": 1, "others": [TensorRef("y")], "sizes": [1, 2]}
    info = NodeInfo("n", "op", arguments, [], [], "", "", "")
    assert info.attrs == {"dim": 1, "sizes": [1, 2]}
