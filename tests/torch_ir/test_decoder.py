"""Decoding: whatever is wrong with a file is named, in bounded time and memory."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.torch_ir.small_models import AllKinds
from torch_ir import ExecutionError, SerializationError, execute_ir, extract_ir
from torch_ir.serializer import deserialize_ir, serialize_ir

X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(scope="module")
def text() -> str:
    return serialize_ir(extract_ir(AllKinds(), (X,), model_name="module"))


@pytest.fixture
def document(text: str) -> Any:
    return json.loads(text)


def change(path: str, value: Any) -> Callable[[Any], None]:
    """Set the field at `nodes.0.op` and the like."""

    def apply(document: Any) -> None:
        *parents, last = path.split(".")
        place = document
        for part in parents:
            place = place[int(part) if isinstance(place, list) else part]
        place[int(last) if isinstance(place, list) else last] = value

    return apply


def tree(value: Any) -> Callable[[Any], None]:
    return change("out_spec", value)


def writes_into_nothing(document: Any) -> None:
    node = {"name": "made", "op": "aten.zeros.default", "args": {"size": [2]}, "out": "float32[2]"}
    document["nodes"].append(node)
    document["eager"]["in_place"] = ["made"]


BAD = [
    ("other format", change("format", "onnx"), "format is 'onnx'"),
    ("future version", change("schema_version", 99), "schema_version is 99"),
    ("boolean version", change("schema_version", True), "schema_version"),
    ("unknown field", change("extra", 1), "unknown fields extra"),
    ("nodes no list", change("nodes", {}), "nodes: expected a list"),
    ("node no object", change("nodes.0", "x"), r"nodes\[0\]"),
    ("node without op", lambda d: d["nodes"][0].pop("op"), r"nodes\[0\] .*missing op"),
    ("unknown field of a node", change("nodes.0.code", "x"), "unknown fields code"),
    ("undefined edge", change("nodes.0.args.input", "%nobody"), "no earlier .* 'nobody'"),
    ("edge from later", change("nodes.0.args.input", "%topk"), "no earlier .* 'topk'"),
    ("edge to itself", change("nodes.0.args.input", "%linear"), "no earlier .* 'linear'"),
    ("name twice", change("nodes.1.name", "linear"), "used twice"),
    ("name of an input", change("nodes.1.name", "x"), "used twice"),
    ("empty name", change("nodes.0.name", ""), "must be non-empty strings"),
    ("unknown dtype", change("nodes.0.out", "float33[2]"), "unknown dtype 'float33'"),
    ("no shape", change("nodes.0.out", "float32"), "needs a shape"),
    ("negative size", change("nodes.0.out", "float32[-1]"), "is not a size"),
    ("huge size", change("nodes.0.out", "float32[99999999999999999999]"), "not fit in 64 bits"),
    ("code as size", change("nodes.0.out", "float32[__import__('os')]"), "is not a size"),
    ("text without tag", change("nodes.0.args.input", "hello"), "is not a value"),
    ("unknown tag", change("nodes.0.args.input", "python:print(1)"), "is not a value"),
    ("object as value", change("nodes.0.args.input", {"a": 1}), "got an object"),
    ("bad device", change("nodes.0.args.input", "device:../x"), "is not a device"),
    ("unknown subgraph", change("nodes.0.args.input", "@nobody"), "no subgraph"),
    ("getitem out of range", lambda d: _getitem(d)["args"].update(index=9), "has no output 9"),
    ("output undefined", change("outputs.0", "nobody"), r"outputs\[0\]: no value is called"),
    ("leaf twice", change("out_spec", {"tuple": [0, 0]}), "out_spec: the leaves"),
    ("unknown tree", change("out_spec", {"set": [0]}), "unknown kind"),
    ("tree too deep", change("out_spec", functools.reduce(
        lambda inner, _: {"tuple": [inner]}, range(100), 0)), "deeper than"),
    ("in_spec of another form", change("in_spec", {"list": [0]}), "tuple of a tuple"),
    ("constant of other size", change("constants.0.1", "float32[9]"), "bytes of data"),
    ("constant not base64", change("constants.0.2", "&&&"), "not base64"),
    ("huge empty constant", change("constants.0", ["c", "float32[0,9999999999999]", ""]),
     "is too large"),
    ("symbols no object", change("symbols", []), "symbols: must be an object"),
    ("symbol without bounds", change("symbols", {"s0": [1]}), "symbols"),
    ("mutation of nothing", change("mutations", [["buffer", "b", "nobody"]]), r"mutations\[0\]"),
    ("modules no object", change("modules", []), "modules must be an object with string values"),
    ("module no string", change("modules", {"fc": 3}), r"modules\['fc'\] must be a string"),
    ("long name", change("nodes.0.name", "x" * 2000), "at most 1024 characters"),
    ("args no object", change("nodes.0.args", []), "args must be an object"),
    ("module of a node", change("nodes.0.module", 3), "module and source must be strings"),
    ("source of a node", change("nodes.0.source", 3), "module and source must be strings"),
    ("type of a module", change("nodes.0.module_type", 3), "module_type must be a string"),
    ("edge in a list", change("nodes.0.args.input", [1, "%nobody"]), "no earlier .* 'nobody'"),
    ("getitem of nothing", lambda d: _getitem(d)["args"].pop("index"), "getitem must have"),
    ("getitem with more", lambda d: _getitem(d)["args"].update(more=1), "getitem must have"),
    ("outputs of one name", change("outputs.0", "topk"), "'topk' has 2 results"),
    ("two inputs of one name", lambda d: d["inputs"].append(d["inputs"][0]), "used twice"),
    ("input that is a weight", lambda d: d["inputs"].append(d["weights"][0][:2]), "used twice"),
    ("dynamic weight", change("weights.0.1", "float32[s0]"), "a weight must be a tensor of fixed"),
    ("weight no tensor", change("weights.0.1", "SymInt"), "a weight must be a tensor of fixed"),
    ("extra of a weight", lambda d: d["weights"][0].append({"a": 1}), "unknown fields a"),
    ("persistent", lambda d: d["weights"][0].append({"persistent": 1}), "must be true or false"),
    ("dynamic constant", change("constants.0.1", "int8[s0]"), "a constant must be a tensor"),
    ("constant no string", change("constants.0.2", 3), "must be a base64 string"),
    ("constant no bool", change("constants.0", ["c", "bool[3]", "AAEC"]), "other than 0 and 1"),
    ("subgraphs no object", change("subgraphs", []), "subgraphs must be an object"),
    ("output of a subgraph", change("subgraphs.true_graph_0.outputs", [[1]]), "a reference or a"),
    ("kind of mutation", change("mutations", [["b", "b", "x"]]), "must be 'buffer' or 'input'"),
    ("mutated input", change("mutations", [["input", "y", "x"]]), "'y' is not an input"),
    ("bounds of a symbol", change("symbols", {"s0": [1, "x"]}), "the bounds of 's0'"),
    ("reference in a tree", tree({"const": "%x"}), "must be a number, a string or null"),
    ("key of a tree", tree({"dict": [[None, 0]]}), "a key must be a string, a number or a"),
    ("key twice", tree({"dict": [["a", 0], ["a", 1]]}), "a key occurs twice"),
    ("namedtuple", tree({"namedtuple": [["a b", 0], ["c", 1]], "type": "m.T"}), "be identifiers"),
    ("name of a namedtuple", tree({"namedtuple": [["a", 0]], "type": "m.T()"}), "be identifiers"),
    ("keys of a type", tree({"custom": [0, 1], "type": "m.T", "keys": ["a"]}), "for each child"),
    ("context of a type", tree({"custom": [0, 1], "type": "m.T", "context": 3}), "context must"),
    ("tree no tree", tree("x"), "is not a tree"),
    ("type no type", change("inputs.0.1", 3), "is not a type"),
    ("row too long", change("inputs.0", ["x", "int8[]", 3]), "a list of 2 to 2 items"),
    ("eager no object", change("eager", []), "eager: expected an object"),
    ("eager without a field", change("eager", {"held": {}}), "eager: missing in_place"),
    ("held by nobody", change("eager.held", {"linear": "nobody"}), "'nobody' is not a node"),
    ("held to before it", change("eager.held", {"topk": "linear"}), "'linear', which is before it"),
    ("held no name", change("eager.held", {"linear": 3}), "must be a string"),
    ("in place no node", change("eager.in_place", ["x"]), "'x' is not a node"),
    ("in place no name", change("eager.in_place", [[]]), "is not a node"),
    ("in place of nothing", writes_into_nothing, "no argument that it could write into"),
    ("name of a model", change("model_name", "x" * 5000), "at most 4096 characters"),
]  # fmt: skip


def _getitem(document: Any) -> Any:
    return next(node for node in document["nodes"] if node["op"] == "getitem")


@pytest.mark.parametrize(("damage", "message"), [pytest.param(d, m, id=i) for i, d, m in BAD])
def test_damage_is_named(document: Any, damage: Callable[[Any], Any], message: str) -> None:
    damage(document)
    with pytest.raises(SerializationError, match=message):
        deserialize_ir(json.dumps(document))


@pytest.mark.parametrize(
    "op",
    ["os.system.default", "aten.from_file.default", "aten.save.default", "prim.Print.default"],
)
def test_a_hostile_op_is_loaded_as_a_name_and_never_run(document: Any, op: str) -> None:
    document["nodes"][0]["op"] = op
    loaded = deserialize_ir(json.dumps(document))
    with pytest.raises(ExecutionError, match="cannot run"):
        execute_ir(loaded, (X,), AllKinds().state_dict())


def small_document(*nodes: Any) -> str:
    document = {"format": "torch_ir", "schema_version": 1, "inputs": [], "outputs": []}
    return json.dumps({**document, "nodes": nodes})


def many(count: int) -> Any:
    return {"name": "many", "op": "a.b.c", "args": {}, "out": ["int8[]"] * count}


def test_a_small_file_cannot_stand_for_endless_edges() -> None:
    lists = {"name": "n", "op": "a.b.c", "args": {"x": ["%many"] * 10_000}}
    singles = {"name": "n", "op": "a.b.c", "args": {f"x{i}": "%many" for i in range(10_000)}}
    for node in (lists, singles):
        with pytest.raises(SerializationError, match="read more than"):
            deserialize_ir(small_document(many(10_000), node))


def test_files_with_many_of_something_load_in_time() -> None:
    count = 20_000
    picks = [
        {"name": f"n{i}", "op": "getitem", "args": {"input": "%many", "index": i}, "out": "int8[]"}
        for i in range(count)
    ]
    text = small_document(many(count), *picks)
    start = time.process_time()
    loaded = deserialize_ir(text)
    assert time.process_time() - start < 3, "usual is 0.15 s"
    assert [node.inputs[0].name for node in loaded.nodes[1:]] == [f"many.{i}" for i in range(count)]
    keys = ",".join(f'"k{i}":1' for i in range(300_000))
    start = time.process_time()
    with pytest.raises(SerializationError, match="'k299999' occurs twice"):
        deserialize_ir(f'{{{keys},"k299999":1}}')
    assert time.process_time() - start < 10, "usual is 0.3 s"


@pytest.mark.parametrize("field", ["format", "model_name", "inputs", "nodes", "out_spec"])
def test_any_depth_of_nesting(field: str) -> None:
    document = {"format": "torch_ir", "schema_version": 1, "inputs": [], "nodes": [], "outputs": []}
    text = json.dumps({**document, field: "HERE"})
    for depth in range(800, 1010, 3):  # about as deep as Python's own limit
        with pytest.raises(SerializationError):
            deserialize_ir(text.replace('"HERE"', "[" * depth + "]" * depth))
