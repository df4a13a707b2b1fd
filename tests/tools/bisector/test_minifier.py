"""PyTorch's own minifier works with this backend, after Dynamo.

Its other place, `TORCHDYNAMO_REPRO_AFTER=aot`, is TorchInductor's alone: its scripts call
TorchInductor's compiler by name, so the setting changes nothing here.
"""

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
    root = Path(__file__).parents[3]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{root}{os.pathsep}{folder}",
        "TORCHDYNAMO_REPRO_AFTER": "dynamo",
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "lowering", "message"),
    [
        ("2", "fails", "RuntimeError: planted"),
        ("4", "lambda self: ops.exp(self)", "Bad accuracy detected"),
    ],
    ids=["an error", "a wrong result"],
)
def test_after_dynamo(tmp_path: Path, level: str, lowering: str, message: str) -> None:
    (tmp_path / "planted.py").write_text(PLANTED.format(lowering=lowering))
    (tmp_path / "script.py").write_text(SCRIPT)
    failed = run(tmp_path, "script.py", TORCHDYNAMO_REPRO_LEVEL=level)
    assert failed.returncode != 0 and message in failed.stderr
    (launcher,) = tmp_path.rglob("minifier_launcher.py")
    # The lowering is one of the user's process, so the script has to import it.
    launcher.write_text(f"import planted\n{launcher.read_text()}")
    minified = run(tmp_path, str(launcher), TORCHDYNAMO_REPRO_LEVEL=level)
    found = sorted(tmp_path.rglob("repro.py"), key=lambda path: path.stat().st_mtime)
    assert found, minified.stderr[-2000:]
    body = found[-1].read_text()
    assert "sinh" in body and ".cos()" not in body, minified.stderr[-2000:]
