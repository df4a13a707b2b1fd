"""The public names, the examples in docstrings and docs, and the shape of the package."""

from __future__ import annotations

import doctest
import fnmatch
import importlib
import pkgutil
import re
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest
import torch

import torch_ir
from torch_ir.serializer import deserialize_ir

ROOT = Path(torch_ir.__file__).parent
PROMISED = [
    "IR", "extract_ir", "execute_ir", "verify_ir", "verify_ir_with_state_dict", "save_ir",
    "load_ir", "export_model", "convert_exported_program", "register_op", "register_executor",
    "load_weights",
    "ExportError", "ConversionError", "ExecutionError", "SerializationError", "WeightLoadError",
    "OpNode", "TensorMeta",
]  # fmt: skip
MODULES = [
    module.name
    for module in pkgutil.walk_packages([str(ROOT)], "torch_ir.")
    if not module.name.startswith("torch_ir.visualize") and module.name != "torch_ir.__main__"
]


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_exist(name: str) -> None:
    assert hasattr(torch_ir, name) and name in torch_ir.__all__


def test_ir_saves_and_loads_itself() -> None:
    assert callable(torch_ir.IR.save) and callable(torch_ir.IR.load)


def test_errors_are_torch_ir_errors() -> None:
    for name in torch_ir.__all__:
        if name.endswith("Error"):
            assert issubclass(getattr(torch_ir, name), torch_ir.TorchIRError)


@pytest.mark.parametrize("name", ["torch_ir", *MODULES])
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_all_names_exist(name: str) -> None:
    module = importlib.import_module(name)
    for public in getattr(module, "__all__", []):
        assert hasattr(module, public), public


def test_neither_max_nor_the_backend_is_imported() -> None:
    code = (
        "import sys, torch_ir, torch_ir.cli; print([m for m in sys.modules if m.split('.')[0] in "
    )
    code += "('max', 'torch_max_backend', 'transformers')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_package_data_is_declared_and_found() -> None:
    """What the code reads at run time must be in the wheel."""
    pyproject = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))
    declared = pyproject["tool"]["setuptools"]["package-data"]
    for package, name in [
        ("torch_ir", "ir.schema.json"),
        ("torch_ir", "py.typed"),
        ("torch_ir.visualize", "viewer.html"),
        ("torch_ir.visualize", "viewer.css"),
        ("torch_ir.visualize", "viewer.js"),
    ]:
        assert (resources.files(package) / name).is_file()
        assert any(fnmatch.fnmatch(name, pattern) for pattern in declared[package]), name
    known = {path.suffix for path in ROOT.rglob("*") if path.is_file()} - {".pyc"}
    assert known == {".py", ".json", ".typed", ".html", ".css", ".js"}


def test_files_are_small() -> None:
    for path in ROOT.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) < 600, path


DOCS = ROOT.parent / "docs"


@pytest.mark.parametrize(
    "name", ["torch_ir.md", "torch_ir.ko.md", "visualization.md", "visualization.ko.md"]
)
def test_examples_in_docs_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    torch_ir.extract_ir(torch.nn.ReLU(), (torch.ones(2),)).save("model.json")
    text = (DOCS / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), namespace)


@pytest.mark.parametrize("name", ["ir_format.md", "ir_format.ko.md"])
def test_the_example_of_the_format_page_loads_and_runs(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    (block,) = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    ir = deserialize_ir(block)
    weights = {"fc.weight": torch.ones(2, 8), "fc.bias": torch.zeros(2)}
    assert torch_ir.execute_ir(ir, (torch.ones(5, 8),), weights).tolist() == [[8.0, 8.0]] * 5


def test_english_and_korean_pages_have_the_same_parts() -> None:
    for page in DOCS.glob("*.ko.md"):
        other = DOCS / page.name.replace(".ko.md", ".md")
        shapes = []
        for path in (page, other):
            lines = path.read_text(encoding="utf-8").splitlines()
            marks = [line.partition(" ")[0] for line in lines if line.startswith("#")]
            shapes.append((marks, sum(line.startswith("|") for line in lines)))
        assert shapes[0] == shapes[1], page.name


def test_the_format_page_names_every_field() -> None:
    from torch_ir.schema import json_schema

    schema = json_schema()
    for page in ("ir_format.md", "ir_format.ko.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        for field in [*schema["properties"], *schema["$defs"]["node"]["properties"]]:
            assert f"`{field}`" in text, f"{page}: {field}"
