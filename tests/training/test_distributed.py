"""Two processes over gloo: DDP and FSDP train a compiled model as eager does."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("distributed")]


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_two_processes(how: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    # The example compares the losses itself, and fails where they differ or nothing ran on MAX.
    run = subprocess.run(
        [*command, "-m", "examples.distributed", how], capture_output=True, text=True, timeout=1200
    )
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    assert "largest relative difference" in run.stdout
