"""The artifact store: found by content, whole or not at all, bounded, safe beside others."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine import empty_caches
from tests.engine.empty_caches import script
from torch_max_backend.engine.artifacts import ArtifactStore, _seal

MEGABYTE = 2**20


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path, 10 * MEGABYTE)


def test_a_graph_is_found_in_whatever_company(store: ArtifactStore) -> None:
    path = store.add(["a", None, "b"], b"code")
    assert store.find("a") == (path, 0)
    assert store.find("b") == (path, 2)
    assert store.find("c") is None


def test_the_newest_artifact_of_a_graph_wins(store: ArtifactStore) -> None:
    store.add(["a"], b"one")
    path = store.add(["x", "a"], b"two")
    assert store.find("a") == (path, 1)


@pytest.mark.parametrize("damage", ["truncated", "changed", "removed", "empty"])
def test_a_damaged_artifact_is_a_miss(store: ArtifactStore, damage: str) -> None:
    path = store.add(["a"], b"compiled code")
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(
            {"truncated": b"compiled", "changed": b"compiled c0de", "empty": b""}[damage]
        )
    assert store.find("a") is None
    assert store.find("a") is None and not (store.graphs / "a").exists()
    store.add(["a"], b"compiled code")
    assert store.find("a") is not None


@pytest.mark.parametrize("text", ["", "garbage", "{name} zero {sum}", "{name} 0", "x.mef 0 {sum}"])
@pytest.mark.parametrize("sealed", [True, False])
def test_a_foreign_graph_entry_is_a_miss(store: ArtifactStore, text: str, sealed: bool) -> None:
    store.add(["a"], b"code")
    name, _, checksum, _ = (store.graphs / "a").read_text().split()
    line = text.format(name=name, sum=checksum)
    (store.graphs / "a").write_text(f"{line} {_seal('a', *line.split())}" if sealed else line)
    assert store.find("a") is None


@pytest.mark.parametrize("checksum", ["the right one", "another"])
def test_a_graph_entry_reaches_no_file_outside_the_store(
    store: ArtifactStore, tmp_path: Path, checksum: str
) -> None:
    """It is neither loaded nor, as a damaged artifact would be, removed."""
    store.add(["a"], b"code")
    entry = store.graphs / "a"
    right = entry.read_text().split()[2]
    outside = tmp_path / "outside.mef"
    for name in ("../outside.mef", str(outside)):
        outside.write_bytes(b"code")
        claimed = right if checksum == "the right one" else "abc"
        entry.write_text(f"{name} 0 {claimed} {_seal('a', name, '0', claimed)}")
        assert store.find("a") is None
        assert outside.read_bytes() == b"code"


def test_the_least_recently_used_goes_first(store: ArtifactStore) -> None:
    content = b"x" * (3 * MEGABYTE)
    now = time.time()
    for age, key in enumerate(["old", "middle", "new"]):
        path = store.add([key], content)
        os.utime(path, (now - 100 + age, now - 100 + age))
    assert store.find("old") is not None  # used now, so "middle" is the oldest
    store.add(["newest"], content)
    assert store.find("middle") is None
    assert all(store.find(key) for key in ("old", "new", "newest"))
    assert store.size() <= store.limit


def test_the_oldest_traced_graphs_go_too(store: ArtifactStore) -> None:
    store.add_trace("old", b"x" * (4 * MEGABYTE))
    store.add_trace("new", b"x" * (4 * MEGABYTE))
    for age, key in ((200, "old"), (100, "new")):
        (path,) = (store.traces / key).iterdir()
        os.utime(path, (time.time() - age,) * 2)
    store.add(["a"], b"x" * (4 * MEGABYTE))
    assert [path.name for path in store.traces.iterdir()] == ["new"]
    assert store.find("a") is not None and store.size() <= store.limit


def test_an_artifact_above_the_limit_is_kept_for_its_own_process(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, 1)
    store.add(["a"], b"too big")
    assert store.find("a") is not None


def test_clear(store: ArtifactStore) -> None:
    store.add(["a"], b"code")
    store.add_trace("key", b"traced")
    assert store.clear() == (1, 1)
    assert store.find("a") is None and store.size() == 0 and list(store.traced()) == []
    assert list(store.artifacts()) == []


CHANGES = {"open", "write", "close", "__exit__", "mkdir", "rmdir", "rename", "replace", "unlink"}
"""C functions that change files: between two of their calls the disk stays as it is."""


def killed_at(moment: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child that kills itself before its `moment`-th change; False if it ended."""
    child = os.fork()
    if child == 0:
        made = itertools.count()

        def kill_in_time(frame: object, event: str, argument: object) -> None:
            name = getattr(argument, "__name__", "")
            if event == "c_call" and name in CHANGES and next(made) == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        status = 1
        try:
            sys.setprofile(kill_in_time)
            work()
            sys.setprofile(None)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), f"the writer failed with {code}"
    return code != 0


OLD, NEW = b"old" * 100, b"new" * 100


def content(store: ArtifactStore, key: str) -> bytes | None:
    found = store.find(key)
    return None if found is None else found[0].read_bytes()


def test_a_writer_killed_at_any_moment_leaves_a_usable_store(store: ArtifactStore) -> None:
    """What was stored before stays found and whole; the new graph is found whole or not at all."""
    kept = store.add(["kept", "shared"], OLD)
    found = []
    for moment in itertools.count():
        killed = killed_at(moment, lambda: store.add(["new", "shared"], NEW))
        assert store.find("kept") == (kept, 0) and content(store, "kept") == OLD
        assert content(store, "shared") in (OLD, NEW)
        found.append(content(store, "new"))
        if not killed:
            break
        for path in [*store.graphs.glob("new"), *store.modules.glob("*.mef")]:
            path.unlink()  # the next writer begins where this one did
        store.add(["kept", "shared"], OLD)
    assert found[0] is None and found[-1] == NEW == content(store, "shared")
    assert set(found) == {None, NEW} and found.index(NEW) < len(found) - 1
    assert list(store.modules.glob("new-*")), "no writer was killed inside its export"


def test_an_artifact_that_is_written_again_is_found_throughout(store: ArtifactStore) -> None:
    store.add(["a", "b"], OLD)
    for moment in itertools.count():
        killed = killed_at(moment, lambda: store.add(["a", "b"], OLD))
        assert content(store, "a") == content(store, "b") == OLD
        if not killed:
            break
    assert moment > 10


def test_what_killed_writers_left_is_removed(store: ArtifactStore) -> None:
    for name, age in (("new-dead", 7200), ("new-alive", 0)):
        stray = store.modules / name
        stray.mkdir(parents=True)
        (stray / "half.mef").write_bytes(b"half")
        os.utime(stray, (time.time() - age,) * 2)
    store.add(["a"], b"code")
    assert [path.name for path in store.modules.glob("new-*")] == ["new-alive"]


PROGRAM = """
    import sys

    import torch
    from torch._dynamo.utils import counters
    from torch_max_backend import compile_stats, compile_together, max_backend

    functions = {
        "square": lambda x: x * x + 0.125,
        "shift": lambda x: x - 3.5,
        "both": lambda x: (x + 2.25) * x,
        "flat": lambda x: with_part(x.expand(3, 5).flatten()),
    }
    with_part = lambda y: (y, y[:4])
    trained = {"flat"}
    with compile_together():
        for name in sys.argv[1:]:
            x = torch.ones(5, requires_grad=name in trained)
            torch.compile(functions[name], backend=max_backend)(x)
    for name in sys.argv[1:]:
        x = torch.randn(5, requires_grad=name in trained)
        torch.testing.assert_close(
            torch.compile(functions[name], backend=max_backend)(x), functions[name](x)
        )
    traced = counters["aot_autograd"]["autograd_cache_miss"]
    print(int(compile_stats()["modules"]), traced, int(compile_stats()["kernels"]))
"""


def test_a_second_process_compiles_nothing_and_traces_nothing(tmp_path: Path) -> None:
    program, environment = script(tmp_path, PROGRAM), empty_caches.environment(tmp_path)
    kernels: list[int] = []

    def run(*names: str) -> tuple[int, int]:
        """How many Modules were compiled, and how many graphs AOTAutograd traced."""
        done = subprocess.run(
            [sys.executable, program, *names],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        modules, traced, compiled = map(int, done.stdout.split())
        kernels.append(compiled)
        return modules, traced

    assert run("square", "shift", "both", "flat") == (1, 4)
    assert not (tmp_path / "torch" / "aotautograd").exists(), "pickled where others can guess"
    folders = [tmp_path / "cache" / "traces", *(tmp_path / "cache" / "traces").iterdir()]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700} and len(folders) == 4
    assert run("both", "square") == (0, 0), "the same graphs in another batch were made again"
    assert run("flat")[0] == 0, "a trace that PyTorch would damage is not kept, its code is"
    for path in (tmp_path / "cache" / "artifacts").iterdir():
        path.unlink()
    assert run("square")[0] == 1, "traced graphs without their compiled code are compiled again"
    assert kernels[1:3] == [0, 0]
    assert 0 < kernels[3] < kernels[0], "kernels of the Module before came with MAX's object file"
