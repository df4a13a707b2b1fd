"""Files: whole or not at all, stable, validated, and never trusted."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.torch_ir.roundtrip import assert_same_ir, save_and_load
from torch_ir import (
    IR,
    SerializationError,
    TensorMeta,
    execute_ir,
    extract_ir,
    load_ir,
    save_ir,
)
from torch_ir import serializer as serializer_module
from torch_ir.serializer import deserialize_ir, serialize_ir

X = torch.arange(6.0).reshape(2, 3)


class Model(nn.Module):
    """Has a weight, a small and a large constant, a multi-output op and a subgraph."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.table = torch.arange(2000.0)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.fc(x) + torch.tensor([1.0, 2.0, 3.0, 4.0])
        best, _ = y.topk(2)
        z = torch.cond(y.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (best,))
        return {"z": z, "t": self.table[:3]}


@pytest.fixture(scope="module")
def ir() -> IR:
    return extract_ir(Model(), (X,), model_name="module")


@pytest.fixture
def document(ir: IR) -> Any:
    return json.loads(serialize_ir(ir))


def test_save_and_load(ir: IR, tmp_path: Path) -> None:
    save_and_load(ir, tmp_path)


def test_text_form_keeps_constants_inside(ir: IR) -> None:
    assert_same_ir(deserialize_ir(serialize_ir(ir)), ir)


def test_extracting_again_gives_the_same_bytes(ir: IR) -> None:
    assert serialize_ir(extract_ir(Model(), (X,), model_name="module")) == serialize_ir(ir)


def test_one_node_per_line(ir: IR) -> None:
    lines = serialize_ir(ir).splitlines()
    for node in ir.nodes:
        (line,) = [text for text in lines if text.startswith(f'{{"name":"{node.name}",')]
        assert json.loads(line.rstrip(","))["op"] == node.op_type


def test_no_machine_path_in_a_file(ir: IR) -> None:
    assert str(Path(torch.__file__).parent) not in serialize_ir(ir)
    assert os.getcwd() not in serialize_ir(ir)


def test_failed_save_leaves_the_old_file(
    ir: IR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.json"
    save_ir(ir, path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def full(source: str, target: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", full)
    changed = extract_ir(nn.ReLU(), (X,))
    with pytest.raises(SerializationError, match="no space"):
        save_ir(changed, path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_saving_again_removes_constants_that_nothing_refers_to(ir: IR, tmp_path: Path) -> None:
    other = tmp_path / "model.notes.safetensors"
    other.write_bytes(b"mine")
    save_ir(ir, tmp_path / "model.json")
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    save_ir(extract_ir(nn.ReLU(), (X,)), tmp_path / "model.json")
    assert list(tmp_path.glob("*.safetensors")) == [other]


def test_unwritable_place(ir: IR, tmp_path: Path) -> None:
    with pytest.raises(SerializationError, match="cannot be written"):
        save_ir(ir, tmp_path / "missing" / "model.json")


def test_missing_or_other_constants_file(ir: IR, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    save_ir(ir, path)
    (beside,) = tmp_path.glob("*.safetensors")
    content = beside.read_bytes()
    beside.write_bytes(content[:-100])
    with pytest.raises(SerializationError, match="damaged"):
        load_ir(path)
    beside.unlink()
    with pytest.raises(SerializationError, match="missing"):
        load_ir(path)


@pytest.mark.parametrize("name", ["../x.safetensors", "/etc/passwd", "", "..", None, 3])
def test_constants_file_must_lie_beside(ir: IR, tmp_path: Path, name: Any) -> None:
    path = tmp_path / "model.json"
    save_ir(ir, path)
    document = json.loads(path.read_text())
    document["constants_file"] = name
    path.write_text(json.dumps(document))
    with pytest.raises(SerializationError, match="constants_file"):
        load_ir(path)


def change(path: str, value: Any) -> Callable[[Any], None]:
    """Set the field at `nodes.0.op` and the like."""

    def apply(document: Any) -> None:
        *parents, last = path.split(".")
        place = document
        for part in parents:
            place = place[int(part) if isinstance(place, list) else part]
        place[int(last) if isinstance(place, list) else last] = value

    return apply


BAD = [
    ("other format", change("format", "onnx"), "format is 'onnx'"),
    ("future version", change("schema_version", 99), "schema_version is 99"),
    ("boolean version", change("schema_version", True), "schema_version"),
    ("unknown field", change("extra", 1), "unknown fields extra"),
    ("nodes no list", change("nodes", {}), "nodes: expected a list"),
    ("node no object", change("nodes.0", "x"), r"nodes\[0\]"),
    ("node without op", lambda d: d["nodes"][0].pop("op"), r"nodes\[0\] .*missing op"),
    ("unknown field of a node", change("nodes.0.code", "x"), "unknown fields code"),
    ("undefined edge", change("nodes.0.args.input", "%nobody"), "nothing .* is called 'nobody'"),
    ("edge from later", change("nodes.0.args.input", "%topk"), "nothing .* is called 'topk'"),
    ("edge to itself", change("nodes.0.args.input", "%linear"), "nothing before it"),
    ("name twice", change("nodes.1.name", "linear"), "used twice"),
    ("name of an input", change("nodes.1.name", "x"), "used twice"),
    ("empty name", change("nodes.0.name", ""), "must be texts"),
    ("unknown dtype", change("nodes.0.out", "float33[2]"), "unknown dtype 'float33'"),
    ("no shape", change("nodes.0.out", "float32"), "needs a shape"),
    ("negative size", change("nodes.0.out", "float32[-1]"), "is no size"),
    ("huge size", change("nodes.0.out", "float32[99999999999999999999]"), "beyond 64 bits"),
    ("code as size", change("nodes.0.out", "float32[__import__('os')]"), "no size"),
    ("text without tag", change("nodes.0.args.input", "hello"), "is no value"),
    ("unknown tag", change("nodes.0.args.input", "python:print(1)"), "is no value"),
    ("object as value", change("nodes.0.args.input", {"a": 1}), "an object where a value"),
    ("bad device", change("nodes.0.args.input", "device:../x"), "no device"),
    ("unknown subgraph", change("nodes.0.args.input", "@nobody"), "no subgraph"),
    ("getitem out of range", lambda d: _getitem(d)["args"].update(index=9), "has no output 9"),
    ("output undefined", change("outputs.0", "nobody"), r"outputs\[0\]: nothing is called"),
    ("leaf twice", change("out_spec", {"tuple": [0, 0]}), "out_spec: its leaves"),
    ("unknown tree", change("out_spec", {"set": [0]}), "unknown kind"),
    ("tree too deep", change("out_spec", functools.reduce(
        lambda inner, _: {"tuple": [inner]}, range(100), 0)), "deeper than"),
    ("in_spec of another form", change("in_spec", {"list": [0]}), "tuple of a tuple"),
    ("constant of other size", change("constants.0.1", "float32[9]"), "bytes of data"),
    ("constant not base64", change("constants.0.2", "&&&"), "not base64"),
    ("huge empty constant", change("constants.0", ["c", "float32[0,9999999999999]", ""]),
     "absurd shape"),
    ("symbol without bounds", change("symbols", {"s0": [1]}), "symbols"),
    ("mutation of nothing", change("mutations", [["buffer", "b", "nobody"]]), r"mutations\[0\]"),
]  # fmt: skip


def _getitem(document: Any) -> Any:
    return next(node for node in document["nodes"] if node["op"] == "getitem")


@pytest.mark.parametrize(("damage", "message"), [pytest.param(d, m, id=i) for i, d, m in BAD])
def test_damage_is_named(document: Any, damage: Callable[[Any], Any], message: str) -> None:
    damage(document)
    with pytest.raises(SerializationError, match=message):
        deserialize_ir(json.dumps(document))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "expected an object"),
        ('{"format":"torch_ir","format":"torch_ir"}', "occurs twice"),
        ('{"format":NaN}', "not JSON"),
        ("[" * 100_000, "nests too deeply|not JSON"),
        ('{"a":' * 100_000, "nests too deeply|not JSON"),
        ("1" * 5000, "not JSON"),
    ],
)
def test_text_that_is_no_ir(text: str, message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        deserialize_ir(text)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"\xff\xfe\x00\x80 {}")
    with pytest.raises(SerializationError):
        load_ir(path)


def test_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with path.open("wb") as file:
        file.truncate(10 * 2**30)  # sparse: takes no disk
    with pytest.raises(SerializationError, match="the limit is"):
        load_ir(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(SerializationError, match="cannot be read"):
        load_ir(tmp_path / "none.json")
    with pytest.raises(SerializationError, match="cannot be read"):
        load_ir(tmp_path)


@pytest.mark.parametrize(
    "op",
    ["os.system.default", "aten.from_file.default", "aten.save.default", "prim.Print.default"],
)
def test_a_hostile_op_is_loaded_as_a_name_and_never_run(document: Any, op: str) -> None:
    document["nodes"][0]["op"] = op
    loaded = deserialize_ir(json.dumps(document))
    with pytest.raises(Exception, match="nothing runs") as failure:
        execute_ir(loaded, (X,), Model().state_dict())
    assert type(failure.value).__name__ == "ExecutionError"


GOLDENS = Path(__file__).with_name("goldens")


@pytest.mark.parametrize("path", sorted(GOLDENS.glob("v*.json")), ids=lambda path: path.stem)
def test_files_of_old_versions_keep_loading_and_give_the_same(path: Path) -> None:
    loaded = load_ir(path)
    expected = json.loads((GOLDENS / f"expected_{path.stem}.txt").read_text())
    weights = {
        loaded.weight_name_mapping[meta.name]: torch.linspace(
            -1, 1, int(torch.tensor(meta.shape).prod())
        ).reshape([int(size) for size in meta.shape])
        for meta in loaded.weights
    }
    result = execute_ir(loaded, (X,), weights)
    for name, values in expected.items():
        torch.testing.assert_close(result[name].flatten(), torch.tensor(values))


def test_there_is_a_golden_of_each_version() -> None:
    versions = {json.loads(path.read_text())["schema_version"] for path in GOLDENS.glob("v*.json")}
    assert versions == set(range(1, serializer_module.SCHEMA_VERSION + 1))


def test_an_ir_that_cannot_be_written_leaves_nothing(ir: IR, tmp_path: Path) -> None:
    broken = deserialize_ir(serialize_ir(ir))
    broken.nodes[0].arguments["input"] = object()
    with pytest.raises(SerializationError, match="cannot be stored"):
        save_ir(broken, tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


def test_constants_are_taken_back_if_the_json_cannot_be_written(
    ir: IR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def full(source: str, target: Path) -> None:
        if Path(target).suffix == ".json":
            raise OSError("no space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(SerializationError, match="no space"):
        save_ir(ir, tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_only_be_read(ir: IR, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(SerializationError, match="cannot be written"):
        save_ir(ir, tmp_path / "model.json")


def test_a_size_that_could_not_be_read_back_is_not_written() -> None:
    meta = TensorMeta("x", ("s0['a']",), "float32")
    with pytest.raises(SerializationError, match="is no size"):
        serialize_ir(IR([], [meta], [meta]))


def test_what_has_no_end_is_not_read() -> None:
    with pytest.raises(SerializationError, match="the limit is"):
        load_ir("/dev/zero", max_bytes=1000)


@pytest.mark.parametrize("field", ["format", "model_name", "inputs", "nodes", "out_spec"])
def test_any_depth_of_nesting(field: str) -> None:
    document = {"format": "torch_ir", "schema_version": 1, "inputs": [], "nodes": [], "outputs": []}
    text = json.dumps({**document, field: "HERE"})
    for depth in range(800, 1010, 3):  # about as deep as Python's own limit
        with pytest.raises(SerializationError):
            deserialize_ir(text.replace('"HERE"', "[" * depth + "]" * depth))


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
    count = 5000
    picks = [
        {"name": f"n{i}", "op": "getitem", "args": {"input": "%many", "index": i}, "out": "int8[]"}
        for i in range(count)
    ]
    loaded = deserialize_ir(small_document(many(count), *picks))
    assert [node.inputs[0].name for node in loaded.nodes[1:]] == [f"many.{i}" for i in range(count)]
    keys = ",".join(f'"k{i}":1' for i in range(300_000))
    start = time.process_time()
    with pytest.raises(SerializationError, match="'k299999' occurs twice"):
        deserialize_ir(f'{{{keys},"k299999":1}}')
    assert time.process_time() - start < 20
