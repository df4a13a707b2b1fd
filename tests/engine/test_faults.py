"""What goes wrong around a compile costs a warning, never the result; no graph waits for ever."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.engine import empty_caches
from tests.engine.empty_caches import script
from tests.engine.fake_compiler import FakeCompiler
from tests.engine.test_queue import _ready, graph_of
from torch_max_backend.engine import artifacts, compile_history
from torch_max_backend.engine.artifacts import ArtifactStore
from torch_max_backend.engine.graph import CompiledGraph, State
from torch_max_backend.engine.library import Library
from torch_max_backend.engine.queue import Engine
from torch_max_backend.errors import FallbackWarning
from torch_max_backend.lowering import mojo_kernels, private_folder

pytestmark = pytest.mark.xdist_group("engine-queue")
KEYS = ["a" * 32, "b" * 32]


def filled(folder: Path) -> ArtifactStore:
    store = ArtifactStore(folder, 2**30)
    store.add(KEYS, b"a module")
    return store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(artifacts, "_WARNED", set())
    return filled(tmp_path / "cache")


def test_folders_are_private(store: ArtifactStore) -> None:
    for folder in (store.modules, store.graphs, store.modules.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("change", ["place", "name", "key", "cut"])
def test_a_damaged_entry_is_a_miss(store: ArtifactStore, change: str) -> None:
    assert store.find(KEYS[0]) == (store.modules / os.listdir(store.modules)[0], 0)
    entry = store.graphs / KEYS[0]
    name, place, checksum, seal = entry.read_text().split()
    texts = {
        "place": f"{name} 1 {checksum} {seal}",
        "name": f"{'0' * 32}.mef {place} {checksum} {seal}",
        "key": (store.graphs / KEYS[1]).read_text(),
        "cut": f"{name} {place}",
    }
    entry.write_text(texts[change])
    assert store.find(KEYS[0]) is None
    assert not entry.exists() and store.find(KEYS[1]) is not None


def test_a_store_that_others_can_write_to_is_not_used(store: ArtifactStore) -> None:
    assert artifacts.default_store().limit > 0
    store.graphs.chmod(0o777)
    with pytest.warns(UserWarning, match=r"others can write to .*graphs .*chmod go-w"):
        assert artifacts.default_store().limit == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert artifacts.default_store().limit == 0, "one warning is enough"


def test_a_store_of_another_user_is_not_used(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    if store.modules.stat().st_uid == 0:  # what root wrote is trusted
        os.chown(store.modules, 54321, -1)
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert artifacts.default_store().limit == 0


PLANTED = """
    import warnings
    import torch
    from torch_max_backend import max_backend

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.arange(17.0)
        compiled = torch.compile(lambda x: x * 5 - 2, backend=max_backend, dynamic=False)
        assert torch.equal(compiled(x), x * 5 - 2)
    print([str(w.message)[:41] for w in caught if "nor kept" in str(w.message)])
"""


class Planted:
    """A pickle that prints where it is loaded."""

    def __reduce__(self) -> Any:
        return print, ("planted code ran",)


def test_a_traced_graph_of_another_user_is_not_loaded(tmp_path: Path) -> None:
    program, environment = script(tmp_path, PLANTED), empty_caches.environment(tmp_path)

    def output() -> str:
        done = subprocess.run(
            [sys.executable, program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert output() == "[]\n"
    (key,) = (tmp_path / "cache" / "traces").iterdir()
    (key / "0").write_bytes(pickle.dumps(Planted()))  # before the right one
    assert output() == "planted code ran\n[]\n", "the pickle is where PyTorch looks for it"
    key.parent.chmod(0o777)
    assert output() == "['compiled graphs are neither read nor kept']\n"


def test_traces_that_cannot_be_written_cost_one_warning(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.traces.write_text("not a folder")
    with pytest.warns(UserWarning, match="traced graphs could not be kept"):
        store.add_trace("key", b"pickled")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.add_trace("key", b"pickled")


def test_a_full_disk_costs_a_warning(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(path: Path, content: bytes) -> None:
        write(path, content[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.warns(UserWarning, match="could not be kept"):
        Library(lambda path: []).keep([graph_of(torch.exp)], b"a module")
    assert len(list(store.modules.iterdir())) == 1, "what was half written is gone"


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError):
        artifacts.write_whole(tmp_path / "entry", "text")
    assert list(tmp_path.iterdir()) == []


def test_kernels_without_a_writable_home(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.warns(UserWarning, match="compiled for this process only"):
        folder = mojo_kernels._kernel_folder(blocked / "cache", "tmb_x.mojoc")
    assert folder.is_dir() and private_folder.unwritable(folder) is None


def test_damaged_kernels_are_not_used(tmp_path: Path) -> None:
    package = tmp_path / "tmb_x.mojoc"
    package.write_bytes(b"code")
    assert not mojo_kernels._is_intact(package), "no checksum"
    mojo_kernels._checksum_file(package).write_text(mojo_kernels._checksum(package))
    assert mojo_kernels._is_intact(package)
    package.write_bytes(b"c0de")
    assert not mojo_kernels._is_intact(package)


class Failing(FakeCompiler):
    broken = False

    def compile(self, graphs: Any, keep: Any) -> Any:
        if self.broken:
            raise RuntimeError("nobody expected this")
        return super().compile(graphs, keep)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "0")
    monkeypatch.setattr(CompiledGraph, "ready", _ready)
    return Failing()


def test_the_background_survives_any_error(failing: Failing) -> None:
    engine = Engine(failing)
    first, second = graph_of(torch.exp), graph_of(torch.sin)
    failing.broken = True
    engine.submit([first], background=True)
    with pytest.warns(FallbackWarning, match="nobody expected this"):
        engine.wait(60)
    assert first.state is State.FAILED
    failing.broken = False
    engine.submit([second], background=True)
    engine.wait(60)
    assert second.state is State.READY


@pytest.fixture
def warnings_are_errors() -> Iterator[None]:
    """`-W error`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def full(*args: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.usefixtures("warnings_are_errors")
@pytest.mark.parametrize("what", ["store", "history", "rejected graph"])
def test_warnings_as_errors_lose_no_graph(
    failing: Failing, store: ArtifactStore, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(failing)
    first, second = graph_of(torch.exp), graph_of(torch.sin)
    second.may_fall_back = True
    engine.submit([first, second])
    if what == "store":
        monkeypatch.setenv("TORCH_MAX_BACKEND_CACHE_MB", "64")
        monkeypatch.setattr(ArtifactStore, "add", full)
    elif what == "history":
        monkeypatch.setattr(compile_history, "record", full)
    else:
        assert second.lowered is not None
        failing.bad = {second.lowered}
    rejected = what == "rejected graph"
    with pytest.raises(UserWarning, match="stays on PyTorch" if rejected else "kept"):
        engine.flush()
    assert first.state is State.READY and engine.waiting == ()
    assert second.state is (State.FAILED if rejected else State.READY)
    twin = graph_of(torch.exp)
    engine.submit([twin])
    assert twin.state is State.READY


@pytest.mark.usefixtures("warnings_are_errors")
def test_warnings_as_errors_do_not_end_the_background(
    failing: Failing, capfd: pytest.CaptureFixture[str]
) -> None:
    engine = Engine(failing)
    first, second = graph_of(torch.exp), graph_of(torch.sin)
    first.may_fall_back = True
    failing.broken = True
    engine.submit([first], background=True)
    engine.wait(60)
    assert first.state is State.FAILED
    assert "FallbackWarning: a graph stays" in capfd.readouterr().err
    failing.broken = False
    engine.submit([second], background=True)
    engine.wait(60)
    assert second.state is State.READY


@pytest.mark.usefixtures("warnings_are_errors")
def test_warnings_as_errors_forget_an_artifact_that_cannot_be_read(store: ArtifactStore) -> None:
    def unreadable(path: Path) -> list[Any]:
        raise ValueError("another build of the engine")

    graph = graph_of(torch.exp)
    path = store.add([graph.key], b"a module")
    library = Library(unreadable)
    with pytest.raises(UserWarning, match="not usable: another build"):
        library.find(graph)
    assert not path.exists() and library.find(graph) is None


def test_only_the_age_of_files_is_read_from_a_clock_that_can_jump() -> None:
    package = Path(artifacts.__file__).parents[1]
    users = {path.name for path in package.rglob("*.py") if "time.time(" in path.read_text()}
    assert users == {"artifacts.py"}


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_a_clock_that_jumps(
    store: ArtifactStore, failing: Failing, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    """Files keep the times at which they were written; the newest graph stays, within the limit."""
    path, _ = store.find(KEYS[0]) or (None, 0)
    assert path is not None
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + jump)
    os.utime(path, (time.time(), time.time()))
    limited = ArtifactStore(store.modules.parent, 10)
    newest = limited.add(["c" * 32], b"another")
    assert limited.find("c" * 32) == (newest, 0), "the newest was evicted"
    assert limited.size() <= limited.limit and not path.exists()
    # A compile, its limits and the wait for it use clocks that do not jump.
    engine = Engine(failing)
    graph = graph_of(torch.exp)
    engine.submit([graph], background=True)
    engine.wait(60)
    assert graph.state is State.READY


FORKED = """
    import multiprocessing, warnings
    import torch
    from torch_max_backend import max_backend

    @torch.compile(backend=max_backend, dynamic=False)
    def function(x):
        return x * 5 - 2

    x = torch.arange(17.0)
    expected = x * 5 - 2

    def work():
        torch.set_num_threads(1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            same = torch.equal(function(x), expected)
            sine = torch.compile(torch.sin, backend=max_backend, dynamic=False)
            other = torch.equal(sine(x), x.sin())
        told = any("forked" in str(warning.message) for warning in caught)
        print(same, other, told, flush=True)

    assert torch.equal(function(x), expected)
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(120)
    assert torch.equal(function(x), expected)
    print(child.exitcode)
"""


@pytest.mark.parametrize("start", ["first", "from the cache"])
def test_a_forked_child_runs_on_pytorch(tmp_path: Path, start: str) -> None:
    script = tmp_path / "forked.py"
    script.write_text(textwrap.dedent(FORKED))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "True True True\n0\n"), done.stderr
