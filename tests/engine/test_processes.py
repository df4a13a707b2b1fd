"""Other processes than the usual one: spawned children, and a home that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.empty_caches import script
from torch_max_backend.lowering import mojo_kernels

pytestmark = pytest.mark.xdist_group("engine-queue")
ROOT = Path(__file__).parents[2]

SPAWNED = """
    import multiprocessing, warnings
    import torch
    from torch_max_backend import compile_stats, max_backend

    @torch.compile(backend=max_backend, dynamic=False)
    def function(x):
        return x * 5 - 2

    def work(x):
        warnings.simplefilter("error")
        right = torch.equal(function(x), x * 5 - 2)
        counted = compile_stats()
        print(right, counted["graphs"], counted["nodes_on_torch"], flush=True)

    if __name__ == "__main__":
        x = torch.arange(17.0)
        assert torch.equal(function(x), x * 5 - 2)
        child = multiprocessing.get_context("spawn").Process(target=work, args=(x,))
        child.start()
        child.join(240)
        assert torch.equal(function(x), x * 5 - 2)
        print(child.exitcode)
"""


def test_a_spawned_child_uses_max(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path, SPAWNED)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout) == (0, "True 1 0\n0\n"), done.stderr


HOMELESS = """
    import os, warnings
    import torch
    from torch_max_backend import compile_stats, max_backend

    try:
        os.mkdir(os.path.expanduser("~/writable"))
    except OSError as error:
        print(error.strerror)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.arange(17.0)
        compiled = torch.compile(torch.sin, backend=max_backend, dynamic=False)
        torch.testing.assert_close(compiled(x), x.sin())
        counted = compile_stats()
    print(counted["modules"], counted["nodes_on_torch"])
    for warning in caught:
        if warning.filename == __file__:  # of the line that called us
            print(str(warning.message).partition(":")[0])
"""

NAMESPACE = """
    set -e
    mount -t tmpfs tmpfs "$HOME"
    if [ -n "$KERNELS" ]; then
        mkdir -p "$HOME/.cache/torch_max_backend"
        chmod 700 "$HOME/.cache/torch_max_backend"
        cp -r "$KERNELS" "$HOME/.cache/torch_max_backend/kernels"
    fi
    mount -o remount,ro "$HOME"
    exec "$0" "$1"
"""
CANNOT_KEEP = {
    "compiled graphs could not be kept for next time",
    "the time of a compile could not be kept",
    "traced graphs could not be kept for next time",
}


def in_a_read_only_home(tmp_path: Path, kernels: str) -> list[str]:
    """What the program prints; the kernel has to allow mounts of one's own."""
    allowed = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True, check=False)
    if allowed.returncode != 0:
        pytest.skip(f"no mount namespace: {allowed.stderr.strip()}")
    home = tmp_path / "home"
    home.mkdir()
    ours = ("TORCH_MAX_BACKEND_CACHE", "XDG_CACHE_HOME", "MODULAR_", "TORCHINDUCTOR")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"HOME": str(home), "KERNELS": kernels, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", NAMESPACE, sys.executable, script(tmp_path, HOMELESS)],
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="mount namespaces")
def test_a_home_that_cannot_be_written_costs_warnings(tmp_path: Path) -> None:
    package = mojo_kernels.package()
    mojo_kernels.precompile(package)
    lines = in_a_read_only_home(tmp_path, str(package.parent))
    assert lines[:2] == ["Read-only file system", "1 0"], lines
    assert set(lines[2:]) == CANNOT_KEEP


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform != "linux", reason="mount namespaces")
def test_kernels_are_compiled_without_a_home(tmp_path: Path) -> None:
    lines = in_a_read_only_home(tmp_path, "")
    assert lines[:2] == ["Read-only file system", "1 0"], lines
    assert set(lines[2:]) == CANNOT_KEEP | {"Mojo kernels are compiled for this process only"}
