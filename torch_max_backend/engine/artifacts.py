"""The artifact store: compiled Modules on disk, found by a graph's own content.

    <cache dir>/artifacts/<module>.mef   what MAX's compiler made of a batch of graphs
    <cache dir>/graphs/<graph key>       one line: which module, the place in it, checksums
    <cache dir>/traces/<trace key>/      what AOTAutograd traced: pickles, which PyTorch reads

Files are written aside and renamed, so a reader sees all of one or nothing, and a killed writer
leaves only a stray temporary file. A graph file that points to a missing, damaged or foreign .mef
is a miss and is removed. Nothing is locked: two processes that compile the same graph write the
same content twice. The least recently used artifacts and the oldest traces go when the store
outgrows its limit.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torch_max_backend import flags
from torch_max_backend.lowering.private_folder import distrust, make_private_folder
from torch_max_backend.observe.held_warnings import warn

_STRAY_AGE = 3600.0
"""Seconds after which a temporary file belongs to a writer that died."""


@dataclass(frozen=True)
class Artifact:
    """One compiled Module on disk, or one traced graph."""

    path: Path
    bytes: int
    used: float
    """When it was last written or, if it is a Module, loaded, in seconds since the epoch."""


class ArtifactStore:
    """Compiled Modules below `folder`, at most `limit` bytes of them."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.modules = folder / "artifacts"
        self.graphs = folder / "graphs"
        self.traces = folder / "traces"
        self.limit = limit

    def find(self, key: str) -> tuple[Path, int] | None:
        """The intact artifact that holds the graph `key`, and the graph's place in it."""
        entry = self.graphs / key
        try:
            name, place, checksum, seal = entry.read_text().split()
            if seal != _seal(key, name, place, checksum):
                raise ValueError("the entry was damaged")
            index = int(place)
            path = self.modules / name
            if path.parent != self.modules:
                raise ValueError(f"{name} is not a file of the store")
            actual = _checksum_of(path)
        except (OSError, ValueError):
            _remove(entry)
            return None
        if actual != checksum:
            _remove(entry)
            _remove(path)
            return None
        return path, index

    def add(self, keys: Iterable[str | None], content: bytes) -> Path:
        """Store the artifact of the graphs `keys`, in their order.

        A graph whose key is None is in the artifact, but nobody will look for it.
        """
        for folder in (self.modules.parent, self.modules, self.graphs):
            make_private_folder(folder)
        keys = list(keys)
        name = hashlib.sha256("\n".join(map(str, keys)).encode()).hexdigest()[:32] + ".mef"
        path = self.modules / name
        with tempfile.TemporaryDirectory(dir=self.modules, prefix="new-") as staging:
            written = Path(staging) / name
            written.write_bytes(content)
            os.replace(written, path)
        checksum = _checksum(content)
        for index, key in enumerate(keys):
            if key is not None:
                seal = _seal(key, name, str(index), checksum)
                write_whole(self.graphs / key, f"{name} {index} {checksum} {seal}\n")
        self._evict(keep=path)
        return path

    def add_trace(self, key: str, content: bytes) -> None:
        """Keep what AOTAutograd traced, if it can be written; PyTorch looks for it by `key`."""
        folder = self.traces / key
        try:
            for path in (self.traces.parent, self.traces, folder):
                make_private_folder(path)
            write_whole(folder / hashlib.sha256(content).hexdigest(), content)
        except OSError as error:
            _warn_once(f"traced graphs could not be kept for next time: {error}")

    def forget(self, path: Path) -> None:
        """Remove an artifact that turned out to be unusable."""
        _remove(path)

    def artifacts(self) -> Iterator[Artifact]:
        """Every artifact, the least recently used first."""
        yield from _files(self.modules.glob("*.mef"))

    def traced(self) -> Iterator[Artifact]:
        """Every traced graph, the oldest first."""
        yield from _files(self.traces.glob("*/*"))

    def graphs_by_artifact(self) -> Counter[str]:
        """How many graphs point to each artifact, by its file's name."""
        entries = (entry.read_text() for entry in self.graphs.glob("*"))
        return Counter(entry.partition(" ")[0] for entry in entries)

    def size(self) -> int:
        """Bytes of all artifacts and traced graphs."""
        return sum(file.bytes for file in (*self.artifacts(), *self.traced()))

    def clear(self) -> tuple[int, int]:
        """Remove everything; returns how many artifacts and how many traced graphs there were."""
        artifacts, traced = list(self.artifacts()), list(self.traced())
        for file in (*artifacts, *traced):
            self._drop(file)
        if self.graphs.is_dir():
            for entry in self.graphs.iterdir():
                entry.unlink(missing_ok=True)
        return len(artifacts), len(traced)

    def _drop(self, file: Artifact) -> None:
        file.path.unlink(missing_ok=True)
        if file.path.parent != self.modules:
            with contextlib.suppress(OSError):  # PyTorch keeps several graphs under one key
                file.path.parent.rmdir()

    def _evict(self, keep: Path) -> None:
        files = sorted((*self.artifacts(), *self.traced()), key=lambda file: file.used)
        total = sum(file.bytes for file in files)
        for file in files:
            if total <= self.limit:
                break
            if file.path != keep:
                self._drop(file)
                total -= file.bytes
        for stray in self.modules.glob("new-*"):
            if time.time() - stray.stat().st_mtime > _STRAY_AGE:
                for path in stray.iterdir():
                    path.unlink(missing_ok=True)
                stray.rmdir()


def _files(paths: Iterable[Path]) -> list[Artifact]:
    found = []
    for path in paths:
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # evicted by another process
        found.append(Artifact(path, status.st_size, status.st_mtime))
    return sorted(found, key=lambda file: file.used)


_CHECKSUMS: dict[Path, tuple[tuple[int, int, int], str]] = {}
"""By path: the file's state and its checksum. Many graphs of one process share an artifact."""


def _state(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_ctime_ns


def _checksum_of(path: Path) -> str:
    known = _CHECKSUMS.get(path)
    if known is None or known[0] != _state(path):
        checksum = _checksum(path.read_bytes())
        with contextlib.suppress(PermissionError):  # a store that others fill
            os.utime(path)  # used now: the last to be evicted
        known = _CHECKSUMS[path] = (_state(path), checksum)
    return known[1]


def _seal(*fields: str) -> str:
    """Ties the fields of an entry to its key: a damaged one would pick another model."""
    return _checksum(" ".join(fields).encode())


def _remove(path: Path) -> None:
    """Remove a file if that is possible: a store may be read-only, or filled by others."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file aside and rename it: a reader sees all of it or what was there before."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.replace(temporary, path)
    except BaseException:
        _remove(Path(temporary))
        raise


_WARNED: set[str] = set()


def _warn_once(message: str) -> None:
    if message not in _WARNED:
        _WARNED.add(message)
        warn(message)


def default_store() -> ArtifactStore:
    """The store that the environment asks for; one that keeps nothing if it cannot be trusted."""
    folder, limit = flags.cache_dir(), flags.cache_mb() * 1024 * 1024
    reason = distrust(folder) if limit else None
    if reason is not None:
        _warn_once(
            f"compiled graphs are neither read nor kept: {reason}; "
            "TORCH_MAX_BACKEND_CACHE_DIR names another folder"
        )
        limit = 0
    return ArtifactStore(folder, limit)
