"""A compiled function that is dropped leaves nothing: no graph, no weights, no packed weights."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median

import pytest

pytestmark = [
    pytest.mark.xdist_group("engine-queue"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]
SETTLED = 4
"""Rounds after which allocators and caches have their size."""


def soak(rounds: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.leak_worker", str(rounds)],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    resident = report["resident"]
    growth = median(resident[-3:]) - median(resident[SETTLED : SETTLED + 3])
    print(
        f"{rounds} models of {report['weights']:.0f} MiB compiled and dropped: "
        f"{max(report['left'])} graphs left, {resident[0]:.0f} MiB after the first, "
        f"{resident[-1]:.0f} MiB after the last, {growth:.1f} MiB growth after the {SETTLED}th"
    )
    assert min(report["made"]) >= 3, "the graphs were not seen"
    assert report["left"] == [0] * rounds
    assert report["modules"] <= 2, "equal graphs were compiled again"
    # Each model that stays would add its weights, as many gradients and packed weights.
    assert growth < 3 * report["weights"], resident


def test_12_dropped_models_leave_nothing() -> None:
    soak(12)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_50_dropped_models_leave_nothing() -> None:
    soak(50)
