"""IR files: written whole or not at all, stable, validated, and never trusted."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.torch_ir.roundtrip import assert_same_ir, save_and_load
from tests.torch_ir.small_models import AllKinds
from torch_ir import IR, SerializationError, TensorMeta, extract_ir, load_ir, save_ir
from torch_ir import serializer as serializer_module
from torch_ir.serializer import deserialize_ir, serialize_ir

X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(scope="module")
def ir() -> IR:
    return extract_ir(AllKinds(), (X,), model_name="module")


def test_save_and_load(ir: IR, tmp_path: Path) -> None:
    save_and_load(ir, tmp_path)


def test_text_form_keeps_constants_inside(ir: IR) -> None:
    assert_same_ir(deserialize_ir(serialize_ir(ir)), ir)


def test_extracting_again_gives_the_same_bytes(ir: IR) -> None:
    assert serialize_ir(extract_ir(AllKinds(), (X,), model_name="module")) == serialize_ir(ir)


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
    with pytest.raises(SerializationError, match=r"is missing$"):
        load_ir(path)


def test_a_constants_file_with_other_tensors(ir: IR, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    save_ir(ir, path)
    text = path.read_text()
    path.write_text(text.replace("float32[2000]", "float32[1000]"))
    message = r"has U8\[8000\], not the 4000 bytes of float32\[1000\]"
    with pytest.raises(SerializationError, match=message):
        load_ir(path)
    path.write_text(text.replace("c_table", "c_other"))
    with pytest.raises(SerializationError, match=r"does not contain 'c_other'"):
        load_ir(path)


def test_a_text_has_a_limit(ir: IR, monkeypatch: pytest.MonkeyPatch) -> None:
    text = serialize_ir(ir)
    monkeypatch.setattr(serializer_module, "MAX_FILE_BYTES", len(text))
    assert deserialize_ir(text).model_name == "module"
    monkeypatch.setattr(serializer_module, "MAX_FILE_BYTES", len(text) - 1)
    with pytest.raises(SerializationError, match=r"the text has \d+ characters; the limit is"):
        deserialize_ir(text)


def test_a_text_cannot_refer_to_a_file(ir: IR, tmp_path: Path) -> None:
    save_ir(ir, tmp_path / "model.json")
    with pytest.raises(SerializationError, match="'c_table' is in the constants file; use load_ir"):
        deserialize_ir((tmp_path / "model.json").read_text())


def name_constants_file(path: Path, name: Any) -> str:
    """Change the name that an IR file has for its constants; returns the old one."""
    document = json.loads(path.read_text())
    old = document["constants_file"]
    document["constants_file"] = name
    path.write_text(json.dumps(document))
    return old


@pytest.mark.parametrize("place", ["../outside.safetensors", "{outside}", "sub/inside.safetensors"])
def test_constants_are_read_from_the_same_folder_only(ir: IR, tmp_path: Path, place: str) -> None:
    """The named files exist and have the constants: only the check keeps them from being read."""
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    path = folder / "model.json"
    save_ir(ir, path)
    outside = tmp_path / "outside.safetensors"
    name = place.format(outside=outside)
    content = (folder / name_constants_file(path, name)).read_bytes()
    outside.write_bytes(content)
    (folder / "sub" / "inside.safetensors").write_bytes(content)
    assert (folder / name).is_file()
    with pytest.raises(SerializationError, match="constants_file must name a file in the same"):
        load_ir(path)


@pytest.mark.parametrize("name", ["", ".", "..", None, 3])
def test_the_constants_file_must_be_a_name(ir: IR, tmp_path: Path, name: Any) -> None:
    save_ir(ir, tmp_path / "model.json")
    name_constants_file(tmp_path / "model.json", name)
    with pytest.raises(SerializationError, match="constants_file must name a file in the same"):
        load_ir(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "expected an object"),
        ('{"format":"torch_ir","format":"torch_ir"}', "occurs twice"),
        ('{"format":NaN}', "not JSON"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ('{"a":' * 100_000, "nested too deeply|not JSON"),
        ("1" * 5000, "not JSON"),
    ],
)
def test_text_that_is_no_ir(text: str, message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        deserialize_ir(text)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'{"\xff": 1}')
    with pytest.raises(SerializationError, match="not UTF-8"):
        load_ir(path)


def test_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    size = 10 * 2**30
    with path.open("wb") as file:
        file.truncate(size)  # sparse: takes no disk
    with pytest.raises(SerializationError, match=f"has {size} bytes; the limit is"):
        load_ir(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(SerializationError, match="cannot be read"):
        load_ir(tmp_path / "none.json")
    with pytest.raises(SerializationError, match="cannot be read"):
        load_ir(tmp_path)


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


def test_a_folder_that_may_only_be_read(
    ir: IR, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> Any:  # chmod does not stop root
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(SerializationError, match=r"cannot be written: .*Permission denied"):
        save_ir(ir, tmp_path / "model.json")


def test_a_size_that_could_not_be_read_back_is_not_written() -> None:
    meta = TensorMeta("x", ("s0['a']",), "float32")
    with pytest.raises(SerializationError, match="is not a size"):
        serialize_ir(IR([], [meta], [meta]))


def test_what_has_no_end_is_not_read() -> None:
    with pytest.raises(SerializationError, match="the limit is"):
        load_ir("/dev/zero", max_bytes=1000)
