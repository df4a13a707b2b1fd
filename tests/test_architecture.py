"""The rules of docs/architecture.md, checked: stages, files, names, schema comments."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
import torch

import torch_max_backend
from tests.testing.private_names import private_uses
from torch_max_backend.compat.torch import READ_IN_PLACE, schema_of

ROOT = Path(__file__).parent.parent
BACKEND = ROOT / "torch_max_backend"
IR = ROOT / "torch_ir"

# The stages of torch_max_backend. A file imports from its own stage or from an earlier one.
STAGES = [
    "compat",
    "errors",
    "flags",
    "program",
    "observe",
    "lowering",
    "runtime",
    "engine",
    "frontend",
    "tools",
    "__init__",
    "__main__",
]
TOOLS = ["__init__", "profiler", "explainer", "bisector", "cli"]
"""The same for the folders of `tools/`."""


def python_files(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    assert found, f"no Python file below {folder}"
    return found


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


def stage(path: Path) -> str:
    """The stage that a file belongs to: its top folder, or its own name."""
    first = path.relative_to(BACKEND).parts[0]
    return first.removesuffix(".py")


def position(parts: list[str]) -> tuple[int, int]:
    """Where the stage of a file or module is in the order, and its folder of `tools/`."""
    tool = TOOLS.index(parts[1]) if parts[0] == "tools" and len(parts) > 1 else 0
    return STAGES.index(parts[0]), tool


def test_the_tree_shows_the_stages() -> None:
    entries = {p.name.removesuffix(".py") for p in BACKEND.iterdir() if p.name != "__pycache__"}
    assert entries == set(STAGES), "a new stage belongs in STAGES and in docs/architecture.md"


@pytest.mark.parametrize("path", python_files(BACKEND), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_to_earlier_stages(path: Path) -> None:
    own = position(list(path.relative_to(BACKEND).with_suffix("").parts))
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "torch_max_backend" and len(parts) > 1 and parts[1] in STAGES:
            assert position(parts[1:]) <= own, f"{path} imports {name} of a later stage"


def test_the_page_lists_every_file() -> None:
    """docs/architecture.md names each file of the package, and no file that is not there."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = set(re.findall(r"^\| `([\w/]+(?:\.py|/))` \|", page, flags=re.MULTILINE))
    families = {"lowering/aten_functions/", "lowering/mojo_kernels/"}  # one row for each
    files = {str(path.relative_to(BACKEND)) for path in python_files(BACKEND)}
    files = {f for f in files if not f.startswith(tuple(families))} | families
    packages = {f for f in files if f.endswith("/__init__.py")}  # named where they hold code
    assert listed - files == set()
    assert files - packages - listed == set()


COMPLEX_NUMBERS = "frontend/test_complex_numbers.py"
COVERED_BY = {
    "tools/bisector/reproducer.py": "tools/bisector/test_bisect.py",
    "tools/bisector/result.py": "tools/bisector/test_bisect.py",
    "__init__.py": "test_architecture.py",
    "__main__.py": "tools/cli/test_main.py",
    "tools/cli/__init__.py": "tools/cli/test_main.py",
    "tools/cli/compile.py": "tools/cli/test_packages.py",
    "tools/cli/inspect.py": "tools/cli/test_packages.py",
    "tools/cli/run.py": "tools/cli/test_packages.py",
    "tools/cli/verify.py": "tools/cli/test_packages.py",
    "engine/compile_worker.py": "engine/test_compiler_process.py",
    "engine/crash_report.py": "engine/test_compiler_process.py",
    "engine/library.py": "engine/test_faults.py",
    "engine/machine.py": "engine/test_compiler_process.py",
    "engine/module_compiler.py": "engine/test_queue.py",
    "tools/explainer/analysis.py": "tools/explainer/test_explain.py",
    "tools/explainer/dry_run.py": "tools/explainer/test_explain.py",
    "tools/explainer/report.py": "tools/explainer/test_explain.py",
    "tools/explainer/text.py": "tools/explainer/test_explain.py",
    "frontend/aot_autograd.py": "engine/test_artifacts.py",
    "frontend/aot_cache.py": "engine/test_artifacts.py",
    "frontend/compiler.py": "test_errors.py",
    "frontend/complex_numbers/__init__.py": COMPLEX_NUMBERS,
    "frontend/complex_numbers/arithmetic.py": COMPLEX_NUMBERS,
    "frontend/complex_numbers/fourier.py": COMPLEX_NUMBERS,
    "frontend/complex_numbers/pair.py": COMPLEX_NUMBERS,
    "frontend/complex_numbers/rewrite.py": COMPLEX_NUMBERS,
    "frontend/fx_importer.py": "program/test_program.py",
    "frontend/graph_compiler.py": "frontend/test_partition.py",
    "frontend/random_numbers.py": "frontend/test_partition.py",
    "lowering/decompositions/__init__.py": "lowering/decompositions/test_basic.py",
    "lowering/graph_builder.py": "test_errors.py",
    "lowering/mojo_kernels/__init__.py": "lowering/test_mojo_kernels.py",
    "lowering/private_folder.py": "engine/test_faults.py",
    "lowering/types.py": "lowering/test_ops.py",
    "frontend/package/container.py": "frontend/package/test_hostile.py",
    "frontend/package/manifest.py": "frontend/package/test_hostile.py",
    "frontend/package/save.py": "frontend/package/test_load.py",
    "frontend/package/tensors.py": "frontend/package/test_hostile.py",
    "tools/profiler/chrome_trace.py": "tools/profiler/test_profile.py",
    "tools/profiler/result.py": "tools/profiler/test_explain.py",
    "tools/profiler/table.py": "tools/profiler/test_profile.py",
    "tools/profiler/torch_trace.py": "tools/profiler/test_profile.py",
    "program/__init__.py": "program/test_program.py",
    "program/foldable_ops.py": "program/passes/test_fold_weight_expressions.py",
    "program/image_layout.py": "program/passes/test_image_programs.py",
    "program/passes/__init__.py": "program/passes/test_run.py",
    "program/passes/chains.py": "program/passes/test_group_products.py",
    "program/passes/image_calls.py": "program/passes/test_image_programs.py",
    "program/passes/matching.py": "program/passes/test_fuse_rms_norm.py",
}
"""Modules without a test of their name, and the test that covers them."""


def test_every_module_has_a_test_of_its_name() -> None:
    """`engine/queue.py` is tested by `tests/engine/test_queue.py`; op rows test the lowerings."""
    missing = {}
    for path in python_files(BACKEND):
        module = path.relative_to(BACKEND)
        own = ROOT / "tests" / module.parent / f"test_{path.stem}.py"
        has_code = path.stem != "__init__" or len(path.read_text().splitlines()) > 1
        if "aten_functions" not in module.parts and has_code and not own.exists():
            missing[str(module)] = own
    assert missing.keys() == COVERED_BY.keys(), "add the test, or name the one that covers it"
    for test in COVERED_BY.values():
        assert (ROOT / "tests" / test).exists(), test


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
    assert uses(r"(?<!fx\.)(?<!class )\b(BroadcastOnce)?Graph\(") == {"lowering/graph_builder.py"}
    assert uses(r"session\.compile|InferenceSession\(") == {"engine/compile_worker.py"}


@pytest.mark.parametrize(
    "path",
    [path for path in python_files(BACKEND) if stage(path) != "compat"],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_private_names_are_used_in_compat_only(path: Path) -> None:
    """What PyTorch and MAX do not promise stands in compat/, where a new release breaks it."""
    uses = private_uses(path.read_text(), {"torch", "max", "mojo"})
    found = [use for use in uses if use.name not in READ_IN_PLACE]
    assert not found, f"{path.name}: move these into compat/, with the reason: {found}"


def test_private_attributes_that_are_read_in_place() -> None:
    """The attributes that compat allows elsewhere are read there, and stay few."""
    read = {
        use.name
        for path in python_files(BACKEND)
        if stage(path) != "compat"
        for use in private_uses(path.read_text(), {"torch", "max", "mojo"})
    }
    assert read == READ_IN_PLACE.keys()


def test_files_stay_small() -> None:
    for path in [*python_files(BACKEND), *python_files(IR), *python_files(ROOT / "tests")]:
        lines = len(path.read_text().splitlines())
        assert lines <= 600, f"{path} has {lines} lines: split it"
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


def test_functions_are_sorted_as_claimed() -> None:
    claims = 0
    for path in python_files(BACKEND / "lowering" / "aten_functions"):
        tree = ast.parse(path.read_text())
        if "Sorted by ATen name" not in (ast.get_docstring(tree) or "").replace("\n", " "):
            continue
        claims += 1
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        lowerings = [name for name in functions if name.startswith("aten_")]
        assert lowerings == sorted(lowerings), path
    assert claims > 10


def test_every_lowered_op_has_its_function() -> None:
    for op in torch_max_backend.MAPPING_TORCH_ATEN_TO_MAX:
        namespace, name = str(op).split(".")[:2]
        if namespace == "aten":
            assert callable(getattr(torch_max_backend.aten_functions, f"aten_{name}")), op


SCHEMA = re.compile(r"(?:^|\s)# ((?:prims::)?\w+(?:\.\w+)?\(.*\) -> .*)$")


def schema_comments() -> list[tuple[str, str]]:
    found = []
    for path in python_files(BACKEND / "lowering" / "aten_functions"):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if match := SCHEMA.search(line):
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
        if actual is None or str(schema_of(actual)).removeprefix("aten::") != comment:
            wrong.append(f"{where}: {comment}\n   PyTorch: {actual and schema_of(actual)}")
    assert not wrong, "\n".join(wrong)
