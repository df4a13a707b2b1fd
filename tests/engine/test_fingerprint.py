"""What decides the key of an artifact: the code of passes, lowerings and kernels, nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from max import driver

import torch_max_backend
from torch_max_backend.engine import fingerprint
from torch_max_backend.lowering import mojo_kernels

PACKAGE = Path(torch_max_backend.__file__).parent


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package that `fingerprint` reads in place of it."""
    copy = tmp_path / "torch_max_backend"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprint, "_PACKAGE", copy)
    fingerprint.sources.cache_clear()
    yield copy
    fingerprint.sources.cache_clear()


def _key_after(change: Path) -> str:
    assert change.is_file()
    with change.open("a") as file:
        file.write("\n# changed\n")
    fingerprint.sources.cache_clear()
    return fingerprint.context({}, [])


@pytest.mark.parametrize(
    "file",
    [
        "observe/progress.py",
        "tools/cli/__init__.py",
        "frontend/compiler.py",
        "engine/queue.py",
        "runtime/call.py",
        "flags.py",
    ],
)
def test_a_change_that_cannot_change_the_code_keeps_every_artifact(
    package: Path, file: str
) -> None:
    before = fingerprint.context({}, [])
    assert _key_after(package / file) == before


@pytest.mark.parametrize(
    "file",
    [
        "lowering/aten_functions/matmul.py",
        "lowering/decompositions/basic.py",
        "lowering/graph_builder.py",
        "program/passes/fold_constants.py",
        "program/own_ops.py",
    ],
)
def test_a_change_of_the_code_is_another_key(package: Path, file: str) -> None:
    before = fingerprint.context({}, [])
    assert _key_after(package / file) != before


def test_a_changed_kernel_is_another_package(package: Path) -> None:
    folder = package / "lowering" / "mojo_kernels"
    before = mojo_kernels._digest(folder)
    with (folder / "matmul.mojo").open("a") as file:
        file.write("\n# changed\n")
    assert mojo_kernels._digest(folder) != before


def test_a_renamed_file_is_another_key(package: Path) -> None:
    before = fingerprint.context({}, [])
    folder = package / "program" / "passes"
    (folder / "fold_constants.py").rename(folder / "folded.py")
    fingerprint.sources.cache_clear()
    assert fingerprint.context({}, []) != before


def test_another_gpu_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint.context({}, [])
    keys = {before}
    for name in ("sm_90", "sm_80"):
        monkeypatch.setattr(driver, "accelerator_count", lambda: 1)
        monkeypatch.setattr(driver, "accelerator_api", lambda: "cuda")
        monkeypatch.setattr(driver, "accelerator_architecture_name", lambda name=name: name)
        fingerprint.gpus.cache_clear()
        keys.add(fingerprint.context({}, []))
    monkeypatch.undo()
    fingerprint.gpus.cache_clear()
    assert len(keys) == 3 and fingerprint.context({}, []) == before
