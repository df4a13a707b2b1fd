"""Packages of a hostile author: any structure, and checksums that fit it."""

from __future__ import annotations

import collections
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.frontend.package import models
from tests.frontend.package.hostile_packages import changed
from tests.testing.joined import joined
from torch_max_backend import PackageError, load_package
from torch_max_backend.frontend import exported
from torch_max_backend.frontend.package import container
from torch_max_backend.frontend.package.container import Container
from torch_max_backend.runtime.compiled_program import CompiledProgram

pytestmark = joined("package")
compile_all = models.compile_all

SECONDS = 5.0
"""Of a processor, for one package."""
MEMORY = 512 * 2**20
"""Bytes that the process may grow by, over all packages."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_ALWAYS = ("os.system", "os.exec", "subprocess.Popen", "os.mkdir", "os.rename", "os.remove")
_ALWAYS += ("os.symlink", "os.link", "os.chmod", "socket.connect", "pickle.find_class")
_seen: list[tuple[str, Any]] | None = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what Python does to the world outside while somebody watches."""
    if _seen is None:
        return
    if event in _ALWAYS or (event == "open" and arguments[2] & _WRITES):
        _seen.append((event, arguments[0]))


@pytest.fixture
def watched() -> Iterator[list[tuple[str, Any]]]:
    global _seen
    _seen = []
    if not getattr(sys, "_package_audit", False):  # a hook cannot be taken away again
        sys.addaudithook(_audit)
        sys._package_audit = True  # type: ignore[attr-defined]
    yield _seen
    _seen = None


@pytest.mark.parametrize("count", [150, pytest.param(5000, marks=pytest.mark.slow)])
def test_changed_structure(
    count: int,
    tmp_path: Path,
    watched: list[tuple[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    record_property: Any,
) -> None:
    """`PackageError`, or a package whose change means nothing; no call is made of it."""
    # For a target that is not this machine a package is compiled from its IR: up to there.
    monkeypatch.setattr(exported, "compile_program", lambda *_: object.__new__(CompiledProgram))
    original = tmp_path / "decoder.maxpkg"
    models.save(original)
    found = Container(original)
    members = {name: found.read(name, 2**31) for name in found.members}
    hostile = tmp_path / "hostile.maxpkg"
    told: collections.Counter[str] = collections.Counter()
    slowest, grown = 0.0, 0
    wrong: list[str] = []
    for seed in range(count):
        container.write(hostile, {n: [c] for n, c in changed(members, seed).items()})
        watched.clear()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        try:
            load_package(hostile)
            told["loaded"] += 1
        except PackageError:
            told["PackageError"] += 1
        except Exception as error:
            wrong.append(f"{seed}: {error!r:.200}")
        slowest = max(slowest, time.process_time() - start)
        if seed > 20:  # the first ones import modules
            grown += (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024
        assert watched == [], f"{seed} touched something"
    text = f"{dict(told)}, slowest {slowest:.2f} s of a processor, grew by {grown / 2**20:.0f} MiB"
    record_property("packages", text)
    print(text)
    assert not wrong, f"{len(wrong)}, the first: " + "; ".join(wrong[:8])
    assert slowest < SECONDS and grown < MEMORY
    assert told["PackageError"] > count / 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["decoder.maxpkg", "hostile.maxpkg"]
