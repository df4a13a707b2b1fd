"""Damaged and hostile packages: `PackageError` and nothing else, whatever is changed."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.frontend.package import models
from tests.testing.joined import joined
from torch_max_backend import PackageError, load_package
from torch_max_backend.frontend.package import container
from torch_max_backend.frontend.package.container import Container
from torch_max_backend.frontend.package.manifest import MANIFEST, WEIGHTS

pytestmark = joined("package")
compile_all = models.compile_all


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "decoder.maxpkg"
    models.save(path)
    return path


def _members(path: Path) -> dict[str, bytes]:
    found = Container(path)
    return {name: found.read(name, 2**31) for name in found.members}


def _resealed(members: dict[str, bytes]) -> dict[str, list[Any]]:
    """With sizes and checksums that fit: what a hostile author can do."""
    manifest = json.loads(members[MANIFEST])
    for name in manifest["files"]:
        if name in members:
            content = members[name]
            manifest["files"][name] = [len(content), container.checksum([content])]
    members = {**members, MANIFEST: json.dumps(manifest).encode()}
    return {name: [content] for name, content in members.items()}


def _load(path: Path) -> None:
    """Load it, but run no native code of it."""
    package = load_package(path)
    assert len(package) == 2


@pytest.mark.parametrize("count", [120, pytest.param(5000, marks=pytest.mark.slow)])
def test_damaged_bytes(count: int, path: Path, tmp_path: Path) -> None:
    """Bytes changed, cut off, doubled: every single one is noticed."""
    content, chance = path.read_bytes(), random.Random(0)
    damaged = tmp_path / "damaged.maxpkg"
    noticed = 0
    for _ in range(count):
        changed = bytearray(content)
        at = chance.randrange(len(changed))
        kind = chance.randrange(4)
        if kind == 0:
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            changed[at : at + 64] = chance.randbytes(64)
        else:
            changed[at:at] = changed[: chance.randrange(1, 200)]
        damaged.write_bytes(changed)
        try:
            _load(damaged)
        except PackageError:
            noticed += 1
        else:  # padding between members, and the dates that a zip keeps, mean nothing
            assert _members(damaged) == _members(path)
    print(f"{noticed} of {count} noticed, the others changed nothing")
    assert noticed > count * 0.9
    assert [file.name for file in tmp_path.iterdir()] == ["damaged.maxpkg"]


def _edit(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, bytes]], None]:
    def edit(members: dict[str, bytes]) -> None:
        data = json.loads(members[name])
        data = change(data) or data
        members[name] = json.dumps(data).encode()

    return edit


PROGRAM = "targets/0/decode.program.json"


def _raw(name: str, content: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda members: members.update({name: content})


def _weights(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, bytes]], None]:
    def edit(members: dict[str, bytes]) -> None:
        content = members[WEIGHTS]
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        change(header)
        text = json.dumps(header).encode().ljust(size)
        members[WEIGHTS] = len(text).to_bytes(8, "little") + text + content[8 + size :]

    return edit


def _input(program: dict[str, Any]) -> dict[str, Any]:
    """The argument that a call fills."""
    return next(argument for argument in program["arguments"] if "input" in argument)


HOSTILE: dict[str, Callable[[dict[str, bytes]], Any]] = {
    "another format": _edit(MANIFEST, lambda m: m.update(format="x")),
    "another version": _edit(MANIFEST, lambda m: m.update(version=2)),
    "no entries": _edit(MANIFEST, lambda m: m.update(entries={})),
    "an entry that is a path": _edit(MANIFEST, lambda m: m["entries"].update({"../x": "y"})),
    "a member that is not there": _edit(MANIFEST, lambda m: m["files"].update({"z": [1, "0"]})),
    "a member that nobody lists": lambda members: members.update({"extra.bin": b"x"}),
    "a target without programs": _edit(MANIFEST, lambda m: m["targets"][0].update(programs={})),
    "a place outside": _edit(MANIFEST, lambda m: m["targets"][0]["places"].update(decode=[9, 0])),
    "a graph outside": _edit(MANIFEST, lambda m: m["targets"][0]["places"].update(decode=[0, 99])),
    "features that are numbers": _edit(MANIFEST, lambda m: m["targets"][0].update(features=[1])),
    "a manifest that is a list": _raw(MANIFEST, b"[]"),
    "a deep manifest": _raw(MANIFEST, b"[" * 100_000),
    "an alias of nothing": _edit(MANIFEST, lambda m: m["aliases"].update({"a": "b"})),
    "a mutated nothing": _edit(MANIFEST, lambda m: m.update(mutated=["nothing"])),
    "an IR that is none": _raw("entries/decode.ir.json", b"{}"),
    "a module that is none": _raw("targets/0/0.mef", b"no code" * 100),
    "a program that is none": _raw(PROGRAM, b"[]"),
    "a class of Python's": _edit(
        PROGRAM, lambda p: p["program"]["inputs"].append({"class": "Popen", "args": "x"})
    ),
    "an op of another namespace": _edit(
        PROGRAM, lambda p: p["program"]["calls"][0].update(op={"op": "os.system.default"})
    ),
    "an op that is a number": _edit(
        PROGRAM, lambda p: p["program"]["calls"][0].update(op={"op": 1})
    ),
    "a layout without columns": _edit(
        "targets/0/prefill.program.json",
        lambda p: p["program"]["packed"][0]["layout"].update(columns=0),
    ),
    "a flag that is none": _edit(PROGRAM, lambda p: p["program"]["inputs"][0].update(static=None)),
    "a size that is code": _edit(
        PROGRAM,
        lambda p: p["program"]["inputs"][0].update(spec={"size": "__import__('os')"}),
    ),
    "an argument that is not there": _edit(
        PROGRAM, lambda p: p["arguments"].__setitem__(0, {"state": "nothing"})
    ),
    "a missing input": _edit(PROGRAM, lambda p: _input(p).update(input=7)),
    "an input that is a number": _edit(PROGRAM, lambda p: _input(p).update(input="x")),
    "packed weights of another": _edit(PROGRAM, lambda p: p.update(packed=["x"])),
    "a tensor outside": _weights(lambda h: h["up.weight"].update(data_offsets=[0, 2**40])),
    "a tensor of another size": _weights(lambda h: h["up.weight"].update(shape=[1, 2])),
    "a tensor of no dtype": _weights(lambda h: h["up.weight"].update(dtype="F7")),
    "a negative shape": _weights(lambda h: h["up.weight"].update(shape=[-1, -18432])),
    "no weight": _weights(lambda h: h.pop("up.weight")),
    "a header as large as the file": _raw(WEIGHTS, (2**62).to_bytes(8, "little") + b"{}"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str, path: Path, tmp_path: Path) -> None:
    members = _members(path)
    HOSTILE[name](members)
    hostile = tmp_path / "hostile.maxpkg"
    readable = members[MANIFEST].startswith(b"{")
    container.write(hostile, _resealed(members) if readable else _plain(members))
    with pytest.raises(PackageError, match=str(hostile)):
        _load(hostile)
    assert [file.name for file in tmp_path.iterdir()] == ["hostile.maxpkg"]


def _plain(members: dict[str, bytes]) -> dict[str, list[Any]]:
    return {name: [content] for name, content in members.items()}


def _zip(*entries: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "too short"),
        (b"x" * 100, "not a package"),
        (_zip(("../../etc/passwd", b"x")), "is called"),
        (_zip(("/absolute", b"x")), "is called"),
        (_zip(("a\\b", b"x")), "is called"),
        (_zip((MANIFEST, b"x" * 10_000), method=zipfile.ZIP_DEFLATED), "compressed"),
        (_zip((MANIFEST, b"{}")), "not where it should be"),
        (_zip(*((f"m{i}", b"") for i in range(5000))), "5000 members"),
    ],
    # Named: a zip holds the time at which it was made, and pytest's workers compare the names.
    ids=[
        "empty",
        "no-zip",
        "parent-folder",
        "absolute-path",
        "backslash",
        "compressed",
        "manifest-alone",
        "many-members",
    ],
)
def test_zips_that_are_no_packages(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.maxpkg"
    path.write_bytes(content)
    with pytest.raises(PackageError, match=message):
        load_package(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="cannot be read"):
        load_package(tmp_path / "no.maxpkg")


def test_weights_may_be_trusted(path: Path, tmp_path: Path) -> None:
    """Without their check, loading does not read them."""
    content = bytearray(path.read_bytes())
    found = Container(path).members[WEIGHTS]
    content[found.start + found.size - 1] ^= 1
    damaged = tmp_path / "damaged.maxpkg"
    damaged.write_bytes(content)
    with pytest.raises(PackageError, match=r"weights\.safetensors is damaged"):
        load_package(damaged)
    load_package(damaged, check_weights=False)


def test_a_manifest_has_a_checksum_too(path: Path, tmp_path: Path) -> None:
    """A version in it that was damaged is a text as good as another."""
    content = path.read_bytes()
    at = content.index(b'"made_with"') + 25
    damaged = tmp_path / "damaged.maxpkg"
    damaged.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(PackageError, match=r"manifest\.json is damaged: its checksum differs"):
        load_package(damaged)


def test_a_key_needs_a_signature(path: Path) -> None:
    with pytest.raises(PackageError, match="it is not signed"):
        load_package(path, public_key=bytes(32))


def test_tensors_of_other_devices_and_layouts() -> None:
    from torch_max_backend.frontend.package import tensors

    with pytest.raises(PackageError, match="not dense on the CPU"):
        tensors.encode({"x": torch.ones(2, device="meta")})
    with pytest.raises(PackageError, match="which a package cannot hold"):
        tensors.encode({"x": torch.ones(2, dtype=torch.complex128)})
