"""The artifact store: found by content, whole or not at all, bounded, safe beside others."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from torch_max_backend.engine.artifacts import ArtifactStore
from torch_max_backend.lowering import mojo_kernels

MEGABYTE = 2**20


def writes(content: bytes):
    return lambda path: Path(path).write_bytes(content)


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path, 10 * MEGABYTE)


def test_a_graph_is_found_in_whatever_company(store: ArtifactStore) -> None:
    path = store.add(["a", None, "b"], writes(b"code"))
    assert store.find("a") == (path, 0)
    assert store.find("b") == (path, 2)
    assert store.find("c") is None


def test_the_newest_artifact_of_a_graph_wins(store: ArtifactStore) -> None:
    store.add(["a"], writes(b"one"))
    path = store.add(["x", "a"], writes(b"two"))
    assert store.find("a") == (path, 1)


@pytest.mark.parametrize("damage", ["truncated", "changed", "removed", "empty"])
def test_a_damaged_artifact_is_a_miss(store: ArtifactStore, damage: str) -> None:
    path = store.add(["a"], writes(b"compiled code"))
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(
            {"truncated": b"compiled", "changed": b"compiled c0de", "empty": b""}[damage]
        )
    assert store.find("a") is None
    assert store.find("a") is None and not (store.graphs / "a").exists()
    store.add(["a"], writes(b"compiled code"))
    assert store.find("a") is not None


@pytest.mark.parametrize("text", ["", "garbage", "x.mef zero abc", "../../etc/passwd 0 abc"])
def test_a_foreign_graph_entry_is_a_miss(store: ArtifactStore, text: str) -> None:
    store.add(["a"], writes(b"code"))
    (store.graphs / "a").write_text(text)
    assert store.find("a") is None


def test_the_least_recently_used_goes_first(store: ArtifactStore) -> None:
    content = b"x" * (3 * MEGABYTE)
    now = time.time()
    for age, key in enumerate(["old", "middle", "new"]):
        path = store.add([key], writes(content))
        os.utime(path, (now - 100 + age, now - 100 + age))
    assert store.find("old") is not None  # used now, so "middle" is the oldest
    store.add(["newest"], writes(content))
    assert store.find("middle") is None
    assert all(store.find(key) for key in ("old", "new", "newest"))
    assert store.size() <= store.limit


def test_an_artifact_above_the_limit_is_kept_for_its_own_process(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, 1)
    store.add(["a"], writes(b"too big"))
    assert store.find("a") is not None


def test_clear(store: ArtifactStore) -> None:
    store.add(["a"], writes(b"code"))
    assert store.clear() == 1
    assert store.find("a") is None and store.size() == 0 and list(store.artifacts()) == []


PART = b"0123456789" * 2000


def write_for_ever(store: ArtifactStore) -> None:
    def export(path: Path) -> None:
        with open(path, "wb") as file:
            for _ in range(50):
                file.write(PART)
                file.flush()

    for number in itertools.count():
        store.add([f"graph{number % 7}", "shared"], export)


def test_killed_writers_leave_a_usable_store(store: ArtifactStore) -> None:
    """50 writers, each killed at another moment: whatever is found is whole."""
    whole = PART * 50
    for number in range(50):
        child = os.fork()
        if child == 0:
            write_for_ever(store)
        time.sleep(0.0013 * number)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for key in ["shared", *(f"graph{n}" for n in range(7))]:
            found = store.find(key)
            assert found is None or found[0].read_bytes() == whole
    store.add(["shared"], writes(whole))
    assert store.find("shared") is not None


PROGRAM = """
    import sys

    import torch
    from torch._dynamo.utils import counters
    from torch_max_backend import compile_stats, compile_together, max_backend

    functions = {
        "square": lambda x: x * x + 0.125,
        "shift": lambda x: x - 3.5,
        "both": lambda x: (x + 2.25) * x,
    }
    with compile_together():
        for name in sys.argv[1:]:
            torch.compile(functions[name], backend=max_backend)(torch.ones(5))
    for name in sys.argv[1:]:
        x = torch.randn(5)
        torch.testing.assert_close(
            torch.compile(functions[name], backend=max_backend)(x), functions[name](x)
        )
    traced = counters["aot_autograd"]["autograd_cache_miss"]
    print(int(compile_stats()["modules"]), traced)
"""


def test_a_second_process_compiles_nothing_and_traces_nothing(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    cache = tmp_path / "cache"
    cache.mkdir()
    mojo_kernels.precompile(mojo_kernels.package())
    (cache / "kernels").symlink_to(mojo_kernels.package().parent)  # they are not the question

    def run(*names: str) -> tuple[int, int]:
        """How many Modules were compiled, and how many graphs AOTAutograd traced."""
        environment = {
            **os.environ,
            "TORCH_MAX_BACKEND_CACHE_DIR": str(cache),
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch"),
        }
        done = subprocess.run(
            [sys.executable, script, *names],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        modules, traced = map(int, done.stdout.split())
        return modules, traced

    assert run("square", "shift", "both") == (1, 3)
    assert run("both", "square") == (0, 0), "the same graphs in another batch were made again"
    for path in (cache / "artifacts").iterdir():
        path.unlink()
    assert run("square")[0] == 1, "traced graphs without their compiled code are compiled again"
