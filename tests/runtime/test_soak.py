"""Many calls from many threads: right, memory bounded, no result's memory is used again."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median

import pytest

pytestmark = [
    pytest.mark.xdist_group("runtime-soak"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def soak(calls: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.soak_worker", str(calls)],
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    resident = report["resident"]
    growth = median(resident[-3:]) - median(resident[2:5])
    print(
        f"{report['calls']} calls of {report['graphs']:.0f} graphs: {resident[0]:.0f} MiB at "
        f"first, {resident[-1]:.0f} MiB at the end, {growth:.1f} MiB growth"
    )
    assert (report["calls"], report["graphs"], report["on_torch"]) == (calls, 10, 0)
    assert growth < 16, resident


def test_4000_calls_from_four_threads() -> None:
    soak(4000)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_100000_calls_from_four_threads() -> None:
    soak(100_000)
