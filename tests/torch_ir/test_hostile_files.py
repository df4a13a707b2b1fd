"""Hostile IR files: a `TorchIRError` or a right result, in 2 s and 1 GiB, and never a signal."""

from __future__ import annotations

import collections
import json
import selectors
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.torch_ir.hostile_worker import MEMORY

SECONDS = 2.0
HANG = 60.0
"""Wall-clock time after which a worker hangs; a loaded machine can be much slower than its CPU."""


class Worker:
    """A process that runs files; started again only after it died."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.torch_ir.hostile_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._answer(300) == {"ready": True}

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def run(self, seed: int) -> dict[str, Any] | None:
        """The worker's report; None if it died or hangs."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        return self._answer(HANG)

    def end(self, seconds: float = HANG) -> str:
        """End the process; returns how it ended before, within `seconds`."""
        try:
            return f"ended with {self.process.wait(timeout=seconds)}"
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "hung"


@dataclass
class Found:
    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    largest: int = 0


def attack(seeds: range) -> Found:
    """Run the files; a failure names the file's number."""
    found = Found()
    worker = Worker()
    for seed in seeds:
        report = worker.run(seed)
        if report is None:
            found.failures.append(f"{seed}: {worker.end()}")
            worker = Worker()
            continue
        found.outcomes[report["outcome"].partition(":")[0]] += 1
        found.slowest = max(found.slowest, report["seconds"])
        found.largest = max(found.largest, report["bytes"])
        if report["outcome"].startswith("WRONG"):
            found.failures.append(f"{seed}: {report['outcome']}")
        if report["seconds"] > SECONDS or report["bytes"] > MEMORY:
            found.failures.append(f"{seed}: {report['seconds']:.1f} s, {report['bytes']} bytes")
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    end = worker.end(10 * HANG)  # Python and PyTorch shut down, at the speed of the machine
    if end != "ended with 0":
        found.failures.append(f"after the last file: {end}")
    print(len(seeds), dict(found.outcomes), f"{found.slowest:.2f} s, {found.largest >> 20} MiB")
    return found


def test_400_hostile_files() -> None:
    found = attack(range(400))
    assert not found.failures, "\n".join(found.failures)
    assert found.outcomes["right"] > 20 and found.outcomes["ExecutionError"] > 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_10000_hostile_files() -> None:
    found = attack(range(10_000))
    assert not found.failures, "\n".join(found.failures)
    assert found.outcomes["right"] > 500
