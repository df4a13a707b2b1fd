"""One blob of torch.compiler carries traced and compiled graphs to a machine with empty caches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from torch_max_backend.engine.artifacts import ArtifactStore
from torch_max_backend.frontend.carried_cache import MaxArtifact, encoded

WORKER = """
import json, sys, torch
from pathlib import Path
from torch_max_backend import compile_stats, max_backend

blob = Path(sys.argv[1])
if blob.exists():
    torch.compiler.load_cache_artifacts(blob.read_bytes())

@torch.compile(backend=max_backend)
def function(x):
    return (x.sin() * 3).tanh() + 1

with torch.no_grad():
    result = function(torch.arange(6.0))
if not blob.exists():
    content, info = torch.compiler.save_cache_artifacts()
    blob.write_bytes(content)
print(json.dumps({**compile_stats(), "sum": result.sum().item()}))
"""


def _run(folder: Path, caches: str) -> dict[str, float]:
    (folder / "worker.py").write_text(WORKER)
    environment = {
        "TORCH_MAX_BACKEND_CACHE_DIR": str(folder / caches / "max"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / caches / "inductor"),
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder / caches),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [sys.executable, str(folder / "worker.py"), str(folder / "blob")],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.slow
def test_a_blob_starts_another_machine_warm(tmp_path: Path) -> None:
    first = _run(tmp_path, "here")
    assert first["modules"] == 1
    second = _run(tmp_path, "there")
    assert second["modules"] == 0 and second["cache_hits"] == 1
    assert second["sum"] == pytest.approx(first["sum"])
    assert list((tmp_path / "there" / "max" / "traces").glob("*/*")), "AOTAutograd's entry too"


def test_a_module_goes_to_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path))
    MaxArtifact("name", encoded(["a" * 32, None, "b" * 32], b"code")).populate_cache()
    store = ArtifactStore(tmp_path, 2**20)
    found = store.find("b" * 32)
    assert found is not None and found[1] == 2 and found[0].read_bytes() == b"code"


def test_a_store_that_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "0")
    MaxArtifact("name", encoded(["a" * 32], b"code")).populate_cache()
    assert not (tmp_path / "none").exists()
