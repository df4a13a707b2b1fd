"""Other people's training loops: Accelerate and Lightning train a compiled model as eager does."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("trainers")]


@pytest.mark.parametrize("library", ["accelerate", "lightning"])
def test_a_trainer_runs_a_compiled_model(library: str) -> None:
    pytest.importorskip(library)
    # The example compares the losses itself, and fails where they differ or a node is not on MAX.
    run = subprocess.run(
        [sys.executable, "-m", f"examples.with_{library}"],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    assert "as in eager PyTorch" in run.stdout


def test_accelerate_takes_its_own_list_of_backends() -> None:
    """If this fails, docs/training.md can name a shorter way."""
    accelerate = pytest.importorskip("accelerate")
    with pytest.raises(ValueError, match="'MAX_BACKEND' is not a valid DynamoBackend"):
        accelerate.Accelerator(cpu=True, dynamo_backend="max_backend")
