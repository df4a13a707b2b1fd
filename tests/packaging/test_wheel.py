"""The wheel that README.md tells to build: what is in it, and that it works without the checkout.

It is built from a source distribution, which is built from a copy of the checkout: a file that
either leaves out is missed here. Nothing is downloaded: the virtual environment has this one's
PyTorch and MAX, and only the two packages from the wheel.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from torch_max_backend.lowering import mojo_kernels

pytestmark = pytest.mark.xdist_group("packaging")

ROOT = Path(__file__).parents[2]
SOURCES = ("torch_max_backend", "torch_ir", "docs")
BUILD_FILES = (
    "max_backend.py",
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
)
PAGES = "torch_max_backend/tools/cli/pages"


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command outside the checkout and return its output; its errors fail the test."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    checkout = folder / "checkout"
    checkout.mkdir()
    for name in SOURCES:
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILD_FILES:
        shutil.copy2(ROOT / name, checkout)
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, folder, cwd=checkout)
    (archive,) = folder.glob("*.tar.gz")
    # fmt: off
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
        "--wheel-dir", folder, archive, cwd=folder,
    )
    # fmt: on
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment into which the wheel is installed."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    interpreter = folder / "bin" / "python"
    # fmt: off
    run(
        sys.executable, "-m", "pip", "--python", interpreter, "--disable-pip-version-check",
        "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder.parent,
    )
    # fmt: on
    (site_packages,) = folder.glob("lib/python*/site-packages")
    # Searched after the environment's own folder. The .pth of the editable install, which would
    # import the checkout, lies in one of these folders and is not read again.
    folders = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site_packages / "dependencies.pth").write_text("\n".join(folders))
    return interpreter


def expected_files() -> set[str]:
    found = {
        str(path.relative_to(ROOT))
        for package in ("torch_max_backend", "torch_ir")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    pages = {f"{PAGES}/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    return found | pages | {"max_backend.py", "torch_max_backend/py.typed"}


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == expected_files()
    needed = {
        "torch_ir/ir.schema.json",
        "torch_ir/py.typed",
        "torch_ir/visualize/viewer/page.html",
        "torch_ir/visualize/viewer/layout.js",
        "torch_ir/visualize/viewer/style.css",
        "torch_max_backend/lowering/mojo_kernels/__init__.mojo",
        "torch_max_backend/py.typed",
        f"{PAGES}/adding_an_op.md",
        f"{PAGES}/fallback.md",
    }
    assert needed <= names


def test_the_pages_are_those_of_the_repository(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    for page in (ROOT / "docs").glob("*.md"):
        assert archive.read(f"{PAGES}/{page.name}") == page.read_bytes(), page.name


PROBE = """
    import json, sys
    from importlib import resources

    import torch
    import torch_ir
    import torch_max_backend
    from torch._dynamo.backends.registry import lookup_backend
    from torch_ir.visualize import visualize
    from torch_max_backend.lowering import mojo_kernels

    ir = torch_ir.extract_ir(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    visualize(ir, "picture.html")
    schema = json.loads((resources.files("torch_ir") / "ir.schema.json").read_text())
    report = {
        "files": [torch_max_backend.__file__, torch_ir.__file__],
        "backends": torch._dynamo.list_backends(),
        "by_name": lookup_backend("max_backend") is torch_max_backend.max_backend,
        "schema": schema["$schema"],
        "kernels": [str(mojo_kernels.SOURCES), mojo_kernels.package().name],
    }
    print(json.dumps(report))
"""


def test_the_packages_work_without_the_checkout(python: Path, tmp_path: Path) -> None:
    report = json.loads(run(python, "-c", textwrap.dedent(PROBE), cwd=tmp_path))
    for file in report["files"]:
        assert Path(file).is_relative_to(python.parents[1]), file
    assert "max_backend" in report["backends"]
    assert report["by_name"]
    assert report["schema"].startswith("https://json-schema.org/")
    folder, package = report["kernels"]
    assert Path(folder).is_relative_to(python.parents[1])
    assert package == mojo_kernels.package().name, "the same kernels have the same hash"
    assert "<script" in (tmp_path / "picture.html").read_text()
    run("env", "TORCH_LOGS=max_backend", python, "-c", "import torch", cwd=tmp_path)


def test_the_commands_work_without_the_checkout(python: Path, tmp_path: Path) -> None:
    commands = python.parent
    assert run(commands / "torch-ir", "--help", cwd=tmp_path).startswith("usage: torch-ir")
    page = (ROOT / "docs" / "fallback.md").read_text()
    assert run(commands / "torch-max-backend", "docs", "fallback", cwd=tmp_path) == page
    listed = run(python, "-m", "torch_max_backend", "docs", cwd=tmp_path)
    assert {line.split()[0] for line in listed.splitlines()} == {
        path.stem for path in (ROOT / "docs").glob("*.md")
    }
