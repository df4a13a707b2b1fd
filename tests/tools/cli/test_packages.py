"""`compile`, `run`, `inspect` and `verify`: one package from a .pt2 and an IR file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch

from tests.frontend.package import models
from tests.testing.joined import joined
from torch_ir import extract_ir
from torch_max_backend.tools.cli import main

pytestmark = joined("package")
compile_all = models.compile_all


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graphs of tests/frontend/package: a machine that has run those compiles nothing."""
    folder = tmp_path_factory.mktemp("packages")
    model = models.decoder()
    batch = torch.export.Dim("batch", min=2, max=9)
    with torch.no_grad():
        program = torch.export.export(model, (models.PROMPT,), dynamic_shapes={"ids": {0: batch}})
    torch.export.save(program, folder / "prefill.pt2")
    extract_ir(model, (models.TOKEN,), kwargs={"scale": 2.0}).save(folder / "decode.json")
    torch.save(model.state_dict(), folder / "weights.pt")
    return folder


@pytest.fixture(scope="module")
def package(folder: Path) -> Path:
    path = folder / "decoder.maxpkg"
    sources = [f"prefill={folder / 'prefill.pt2'}", f"decode={folder / 'decode.json'}"]
    weights = ["--weights", str(folder / "weights.pt")]
    assert main(["compile", *sources, *weights, "-o", str(path)]) == 0
    return path


def test_run(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs, output = tmp_path / "inputs.safetensors", tmp_path / "out.safetensors"
    safetensors.torch.save_file({"ids": models.TOKEN}, inputs)
    command = ["run", str(package), "--entry", "decode", "--inputs", str(inputs)]
    assert main([*command, "-o", str(output)]) == 0
    assert "['logits']: float32[1, 1, 300] mean" in capsys.readouterr().out
    with torch.no_grad():
        expected = models.decoder()(models.TOKEN, scale=2.0)["logits"]
    actual = safetensors.torch.load_file(output)["['logits']"]
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_run_with_random_inputs(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(package)]) == 2
    assert "name an entry: --entry prefill | decode" in capsys.readouterr().err
    assert main(["run", str(package), "--entry", "train"]) == 2
    assert "no entry 'train'" in capsys.readouterr().err
    assert main(["run", str(package), "--entry", "decode", "--size", "n"]) == 2


def test_verify(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(package)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("(")[0] for line in lines] == ["prefill: the same ", "decode: the same "]
    assert main(["verify", str(package), "--rtol", "0", "--atol", "0"]) == 1


def test_inspect(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(package)]) == 0
    text = capsys.readouterr().out
    assert "entry   prefill" in text and "runs here" in text and "weights.safetensors" in text
    assert main(["inspect", str(package), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["entries"]) == {"prefill", "decode"}


def test_a_file_that_is_no_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.maxpkg"
    path.write_bytes(b"no")
    for command in ("run", "inspect", "verify"):
        assert main([command, str(path)]) == 2
        assert "not a package" in capsys.readouterr().err


def test_several_sources_need_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "a.pt2", "b.pt2", "-o", str(tmp_path / "x")]) == 2
    assert "several entries need names" in capsys.readouterr().err
