"""Processes killed at any moment of a real compile leave caches that the next one can use."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.engine import empty_caches
from torch_max_backend.engine.artifacts import ArtifactStore

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("runtime-kill")]

KILLS = 50
LONGEST = 20.0
"""Seconds of the longest life: about one compile."""

PROGRAM = """
    import os
    import sys

    import torch
    from torch_max_backend import compile_stats, max_backend

    torch.compile(lambda x: x, backend="eager")(torch.ones(1))  # a child's life is its compile
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            x = torch.randn(6, 5)
            for number in range(int(line), int(line) + 3):
                torch._dynamo.reset()
                function = lambda x: torch.sin(x) * (number + 0.5)
                result = torch.compile(function, backend=max_backend)(x)
                torch.testing.assert_close(result, function(x))
            print("done", int(compile_stats()["modules"]), flush=True)
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print("ended", os.waitstatus_to_exitcode(status), flush=True)
"""


def test_killed_compiles_leave_usable_caches(tmp_path: Path) -> None:
    environment = empty_caches.environment(tmp_path)
    store = ArtifactStore(tmp_path / "cache", 10 * 2**30)
    parent = subprocess.Popen(
        [sys.executable, empty_caches.script(tmp_path, PROGRAM)],
        env={**environment, "MODULAR_CACHE_DIR": str(tmp_path / "modular")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdin is not None and parent.stdout is not None

    def start(first: int) -> int:
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdin.write(f"{first}\n")
        parent.stdin.flush()
        return int(parent.stdout.readline())

    def lines() -> list[str]:
        """What the child said until it ended."""
        assert parent.stdout is not None
        said = []
        while not said or not said[-1].startswith("ended"):
            said.append(parent.stdout.readline().strip())
        return said

    moments = random.Random(0)
    killed = 0
    kept: set[str] = set()
    for number in range(KILLS):
        child = start(number % 5)  # neighbours share functions, so that some are found
        time.sleep(moments.uniform(0.5, LONGEST))
        with contextlib.suppress(ProcessLookupError):  # it was quicker
            os.kill(child, signal.SIGKILL)
        said = lines()
        killed += said[-1] == "ended -9"
        assert said[-1] in ("ended -9", "ended 0"), said
        keys = [entry.name for entry in store.graphs.glob("*")]
        found = {key for key in keys if store.find(key)}  # `find` checks the content
        assert kept <= found, "a graph that was stored is lost"
        kept = found
    assert killed >= KILLS // 2, f"only {killed} of {KILLS} were alive to be killed"
    assert kept, "no process lived long enough to store a graph"
    start(0)
    assert lines()[-1] == "ended 0"
    start(0)
    assert lines() == ["done 0", "ended 0"], "the second process compiled again"
    parent.stdin.close()
    assert parent.wait() == 0
