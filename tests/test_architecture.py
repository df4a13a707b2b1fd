"""The house rules of docs/architecture.md, kept by tests: imports, names, schema comments."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
import torch

import torch_max_backend

ROOT = Path(__file__).parent.parent
BACKEND = ROOT / "torch_max_backend"
IR = ROOT / "torch_ir"

# The floors of torch_max_backend, bottom first: a file imports from its own floor or from below.
FLOORS = [
    [
        "errors",
        "types",
        "stats",
        "foreach",
        "fractional_pooling",
        "gradients",
        "max_threads",
    ],
    ["flags", "devices", "program", "on_torch", "decompositions", "grouped_matmul"],
    [
        "constants",
        "shapes",
        "artifacts",
        "compile_history",
        "registry",
        "weights",
        "folding",
        "fusion",
    ],
    ["promotion", "mojo_kernels", "progress", "fingerprint"],
    ["aten_functions", "graph_builder"],
    ["fx_importer", "ir_importer", "complex_numbers"],
    ["partition"],
    ["runtime"],
    ["profiling"],
    ["compiled_graph"],
    ["engine"],
    ["aot_cache", "graph_compiler"],
    ["compiler"],
    ["__init__", "cli", "__main__"],
]
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}


def python_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def imports(path: Path) -> set[str]:
    """Full names of the modules that a file imports, `from package import module` included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def room(path: Path) -> str:
    """A file's name in FLOORS: its own, or its folder's."""
    relative = path.relative_to(BACKEND)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def test_every_file_has_a_floor() -> None:
    assert {room(path) for path in python_files(BACKEND)} <= FLOOR.keys()


@pytest.mark.parametrize("path", python_files(BACKEND), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    own = FLOOR[room(path)]
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "torch_max_backend" and len(parts) > 1 and parts[1] in FLOOR:
            assert FLOOR[parts[1]] <= own, f"{path.name} imports {name} from a floor above"


def test_torch_ir_depends_on_pytorch_alone() -> None:
    for path in python_files(IR):
        tops = {name.split(".")[0] for name in imports(path)}
        assert not tops & {"max", "mojo", "torch_max_backend"}, path


def uses(pattern: str, folder: Path = BACKEND) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in python_files(folder)
        if re.search(pattern, path.read_text())
    }


def test_one_place_each() -> None:
    assert uses(r"\bos\.environ|getenv") == {"flags.py"}
    assert uses(r"(?<!fx\.)\bGraph\(") == {"graph_builder.py"}
    assert uses(r"session\.compile|InferenceSession\(") == {"engine.py"}


def test_files_stay_small() -> None:
    for path in [*python_files(BACKEND), *python_files(IR), *python_files(ROOT / "tests")]:
        lines = len(path.read_text().splitlines())
        assert lines <= 650, f"{path} has {lines} lines: split it into rooms"
        assert path.stem != "utils", path


@pytest.mark.parametrize("package", ["torch_max_backend", "torch_ir"])
def test_public_names(package: str) -> None:
    module = importlib.import_module(package)
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    for name in module.__all__:
        assert hasattr(module, name), name
        if callable(getattr(module, name)):
            assert getattr(module, name).__doc__, f"{name} has no docstring"


def test_fixed_names_of_the_backend() -> None:
    fixed = {"max_backend", "get_accelerators", "MAPPING_TORCH_ATEN_TO_MAX", "map_to"}
    assert fixed | {"aten_functions", "MaxCompilerError"} <= set(torch_max_backend.__all__)


SCHEMA = re.compile(r"^# ((?:prims::)?\w+(?:\.\w+)?\(.*\) -> .*)$")


def schema_comments() -> list[tuple[str, str]]:
    found = []
    for path in python_files(BACKEND / "aten_functions"):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if match := SCHEMA.match(line):
                found.append((f"{path.name}:{number}", match[1]))
    return found


def test_schema_comments_match_torch() -> None:
    comments = schema_comments()
    assert len(comments) > 100
    wrong = []
    for where, comment in comments:
        name, _, overload = comment.partition("(")[0].partition(".")
        namespace = torch.ops.prims if name.startswith("prims::") else torch.ops.aten
        packet = getattr(namespace, name.removeprefix("prims::"), None)
        actual = packet and getattr(packet, overload or "default", None)
        if actual is None or str(actual._schema).removeprefix("aten::") != comment:
            wrong.append(f"{where}: {comment}\n   PyTorch: {actual and actual._schema}")
    assert not wrong, "\n".join(wrong)
