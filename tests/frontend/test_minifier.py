"""PyTorch's own minifier works with this backend, after Dynamo and after AOTAutograd."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import fx

from torch_max_backend import max_backend
from torch_max_backend.engine.queue import ENGINE

PLANTED = """
import torch
from max.graph import ops
from torch_max_backend import MAPPING_TORCH_ATEN_TO_MAX


def fails(self):
    raise RuntimeError("planted")


MAPPING_TORCH_ATEN_TO_MAX[torch.ops.aten.sinh] = {lowering}
"""
SCRIPT = """
import planted
import torch


@torch.compile(backend="max_backend")
def function(x):
    return torch.sinh(x.exp() + 1).cos() * 2


function(torch.ones(4))
"""


def run(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{root}{os.pathsep}{folder}",
        "TORCH_COMPILE_DEBUG_DIR": str(folder),
        **variables,
    }
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_what_the_minifier_calls_does_not_claim_to_take_a_list() -> None:
    """It calls the backend outside of Dynamo's tracing, and the result by what it claims."""
    gm = fx.symbolic_trace(lambda x: (torch.cos(x.exp()) * 2,))
    with ENGINE.defer():
        function = max_backend(gm, [torch.ones(4)])
        ENGINE.drop_waiting()
    assert not getattr(function, "_boxed_call", False)
    torch.testing.assert_close(function(torch.ones(4))[0], torch.ones(4).exp().cos() * 2)


LEVELS = pytest.mark.parametrize(
    ("level", "lowering", "message"),
    [
        ("2", "fails", "RuntimeError: planted"),
        ("4", "lambda self: ops.exp(self)", "Bad accuracy detected"),
    ],
    ids=["an error", "a wrong result"],
)


def launcher_of_a_failure(
    folder: Path, level: str, lowering: str, message: str, after: str
) -> Path:
    """The script that PyTorch writes for a call that fails."""
    (folder / "planted.py").write_text(PLANTED.format(lowering=lowering))
    (folder / "script.py").write_text(SCRIPT)
    failed = run(folder, "script.py", TORCHDYNAMO_REPRO_AFTER=after, TORCHDYNAMO_REPRO_LEVEL=level)
    assert failed.returncode != 0 and message in failed.stderr, failed.stderr[-2000:]
    (launcher,) = folder.rglob("minifier_launcher.py")
    return launcher


def assert_one_node_is_left(folder: Path, minified: subprocess.CompletedProcess[str]) -> None:
    found = sorted(folder.rglob("repro.py"), key=lambda path: path.stat().st_mtime)
    assert found, minified.stderr[-2000:]
    body = found[-1].read_text()
    assert "sinh" in body, minified.stderr[-2000:]
    assert not any(gone in body for gone in (".cos()", "aten.cos")), minified.stderr[-2000:]


@pytest.mark.slow
@LEVELS
def test_after_dynamo(tmp_path: Path, level: str, lowering: str, message: str) -> None:
    launcher = launcher_of_a_failure(tmp_path, level, lowering, message, "dynamo")
    # The lowering is one of the user's process, so the script has to import it.
    launcher.write_text(f"import planted\n{launcher.read_text()}")
    how = {"TORCHDYNAMO_REPRO_AFTER": "dynamo", "TORCHDYNAMO_REPRO_LEVEL": level}
    assert_one_node_is_left(tmp_path, run(tmp_path, str(launcher), **how))


@pytest.mark.slow
@LEVELS
def test_after_aot(tmp_path: Path, level: str, lowering: str, message: str) -> None:
    """In one process: by default PyTorch starts another one for each of some 20 questions."""
    launcher = launcher_of_a_failure(tmp_path, level, lowering, message, "aot")
    assert "import planted; " in launcher.read_text()
    assert_one_node_is_left(tmp_path, run(tmp_path, str(launcher), "minify", "--no-isolate"))
