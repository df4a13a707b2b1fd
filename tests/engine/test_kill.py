"""Processes killed at any moment of a real compile leave caches that the next one can use."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from torch_max_backend.engine.artifacts import ArtifactStore
from torch_max_backend.lowering import mojo_kernels

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
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    cache = tmp_path / "cache"
    cache.mkdir()
    mojo_kernels.precompile(mojo_kernels.package())
    (cache / "kernels").symlink_to(mojo_kernels.package().parent)
    store = ArtifactStore(cache, 10 * 2**30)
    parent = subprocess.Popen(
        [sys.executable, script],
        env={
            **os.environ,
            "TORCH_MAX_BACKEND_CACHE_DIR": str(cache),
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch"),
            "MODULAR_CACHE_DIR": str(tmp_path / "modular"),
        },
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
    for number in range(KILLS):
        child = start(number % 5)  # neighbours share functions, so that some are found
        time.sleep(moments.uniform(0.5, LONGEST))
        with contextlib.suppress(ProcessLookupError):  # it was quicker
            os.kill(child, signal.SIGKILL)
        said = lines()
        killed += said[-1] == "ended -9"
        assert said[-1] in ("ended -9", "ended 0"), said
        for key in [entry.name for entry in store.graphs.glob("*")]:
            found = store.find(key)  # checks the content
            assert found is None or found[0].is_file()
    assert killed >= KILLS // 2, f"only {killed} of {KILLS} were alive to be killed"
    start(0)
    assert lines()[-1] == "ended 0"
    start(0)
    assert lines() == ["done 0", "ended 0"], "the second process compiled again"
    parent.stdin.close()
    assert parent.wait() == 0
