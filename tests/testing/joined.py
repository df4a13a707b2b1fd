"""Test files that are compiled as one Module: by itself, each would cost eight seconds and more.

Such a file says `pytestmark = joined("frontend")`, or another group, and has a `TABLE` or a
function `compile_all` that compiles what its tests call. Before the first test of a group, all of
that runs once in one `compile_together`. Each file then compiles for itself, as if it were alone,
and finds its graphs in the artifact store; so what fails here is left for its own tests to find.
Where an earlier run of the same sources left all of its graphs in the store, a group is not run
beforehand.

Several groups, since a Module takes memory and time in one worker.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
import torch

from torch_max_backend import compile_together, flags
from torch_max_backend.engine.artifacts import ArtifactStore, default_store, write_whole

ROOT = Path(__file__).parents[2]
SOURCES = ("torch_max_backend", "torch_ir", "examples", "tests", "docs", "README.md")
"""What decides the graphs of a group; pages have examples."""

_PREFIX = "joined-"
_DONE: set[str] = set()


def group(name: str) -> pytest.MarkDecorator:
    """The mark of single tests; they also use the fixture `joined`."""
    return pytest.mark.xdist_group(_PREFIX + name)


def joined(name: str) -> list[pytest.MarkDecorator]:
    """The marks of a file."""
    return [group(name), pytest.mark.usefixtures("joined")]


def groups_of(items: Iterable[pytest.Item]) -> dict[str, dict[ModuleType, None]]:
    """The files of each group of which tests are selected."""
    found: dict[str, dict[ModuleType, None]] = {}
    for item in items:
        marker = item.get_closest_marker("xdist_group")
        slow = item.get_closest_marker("slow")
        if marker is None or slow is not None or not isinstance(item, pytest.Function):
            continue
        if marker.args[0].startswith(_PREFIX):
            found.setdefault(marker.args[0], {})[item.module] = None
    return found


def compile_group_of(module: ModuleType, items: Iterable[pytest.Item]) -> None:
    """Compile what the files of the module's group compile, the first time one of them asks."""
    for name, modules in groups_of(items).items():
        if module in modules and name not in _DONE:
            _DONE.add(name)
            if len(modules) > 1:
                functions = [
                    m.TABLE.compile if hasattr(m, "TABLE") else m.compile_all for m in modules
                ]
                compile_unless_stored(name, dict.fromkeys(functions))  # files may share one


def compile_unless_stored(name: str, functions: Iterable[Callable[[], object]]) -> None:
    """`compile_joined`, unless an earlier run did and the store still has each of its graphs."""
    done = flags.cache_dir() / "joined" / f"{name}-{_sources()}"
    keys = set(done.read_text().split()) if done.exists() else set()
    if keys and all((default_store().graphs / key).exists() for key in keys):
        return
    with _stored_keys() as keys:
        compile_joined(functions)
    with contextlib.suppress(OSError):
        done.parent.mkdir(exist_ok=True)
        write_whole(done, "\n".join(sorted(keys)))


@functools.cache
def _sources() -> str:
    """A hash of the sources: whatever is edited, all groups run again."""
    digest = hashlib.sha256()
    for path in sorted(path for name in SOURCES for path in _files(ROOT / name)):
        digest.update(f"{path.relative_to(ROOT)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    suffixes = (".py", ".mojo", ".md")
    return [path] if path.is_file() else [p for p in path.rglob("*") if p.suffix in suffixes]


@contextlib.contextmanager
def _stored_keys() -> Iterator[set[str]]:
    """The keys of the graphs that are found in the store, or added to it, meanwhile."""
    keys: set[str] = set()
    find, add = ArtifactStore.find, ArtifactStore.add

    def found(store: ArtifactStore, key: str) -> tuple[Path, int] | None:
        if (place := find(store, key)) is not None:
            keys.add(key)
        return place

    def added(store: ArtifactStore, graphs: Iterable[str | None], content: bytes) -> Path:
        graphs = list(graphs)
        keys.update(key for key in graphs if key is not None)
        return add(store, graphs, content)

    with (
        mock.patch.object(ArtifactStore, "find", found),
        mock.patch.object(ArtifactStore, "add", added),
    ):
        yield keys


def compile_joined(functions: Iterable[Callable[[], object]]) -> None:
    """Run all of `functions` in one Module."""
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with compile_together():
            for function in functions:
                torch._dynamo.reset()
                with contextlib.suppress(Exception):
                    function()
    torch._dynamo.reset()
    gc.collect()
