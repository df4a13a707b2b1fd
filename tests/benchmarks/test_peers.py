"""The processes of a benchmark: their turns, their results, their failures."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from benchmarks import prepare
from benchmarks.failure import reason
from benchmarks.peers import Absent, Effort, Peer, measure, take_turns

LEAST = Effort(rounds=1, calls=2, seconds=0.0)


def test_a_benchmark_is_measured_and_compared(tmp_path: Path) -> None:
    found = measure("mlp", 1, ["eager"], LEAST, exports=tmp_path, warm=False)
    result = found["engines"]["eager"]
    assert result["calls"] == 2 and result["median_ms"] > 0
    assert result["error"] == 0.0
    assert 50 < result["rss_mb"] <= result["peak_mb"]


def test_an_engine_that_fails_is_a_row(tmp_path: Path) -> None:
    peer = Peer(["benchmarks.worker", "no such engine"])
    take_turns([peer, Absent("onnx: ValueError: no")], LEAST)
    peer.close()
    assert "main() missing" in peer.result()["failure"]


def test_a_model_that_cannot_be_made_fails_on_every_engine(tmp_path: Path) -> None:
    found = measure("no such model", 1, ["eager", "max"], LEAST, exports=tmp_path)
    assert {"eager", "max"} == found["engines"].keys()
    assert "KeyError" in found["engines"]["max"]["failure"]
    assert not list(tmp_path.rglob("*no such model*")), "half of a preparation was kept"


@pytest.mark.parametrize(
    ("errors", "code", "expected"),
    [
        ("Traceback\n  File\nValueError: no\nSet TORCH_LOGS for more", 1, "ValueError: no"),
        ("", -signal.SIGKILL, "ended by signal 9"),
        ("killed by hand\n", 3, "killed by hand"),
        ("", 3, "exit code 3"),
    ],
)
def test_a_failure_is_one_line(errors: str, code: int, expected: str) -> None:
    assert reason(errors, code) == expected


def results(folder: Path, *arrays: np.ndarray) -> Path:
    folder.mkdir(parents=True)
    for index, array in enumerate(arrays):
        np.save(folder / f"{index}.npy", array)
    return folder


def test_results_are_compared_with_eagers(tmp_path: Path) -> None:
    results(tmp_path / "reference" / "expected", np.zeros(3), np.array([1, 2, 3]))
    reference = tmp_path / "reference"
    good = results(tmp_path / "good", np.array([0, 0.5, 0]), np.array([1, 2, 3]))
    assert prepare.error(reference, good) == 0.5
    tokens = results(tmp_path / "tokens", np.zeros(3), np.array([9, 2, 8]))
    assert prepare.error(reference, tokens) == 2
    broken = results(tmp_path / "broken", np.full(3, np.nan), np.array([1, 2, 3]))
    assert prepare.error(reference, broken) == float("inf")
    short = results(tmp_path / "short", np.zeros(2), np.array([1, 2, 3]))
    with pytest.raises(ValueError, match="shape"):
        prepare.error(reference, short)
