"""The artifact store: compiled Modules on disk, found by a graph's own content.

    <cache dir>/artifacts/<module>.mef   what MAX's compiler made of a batch of graphs
    <cache dir>/graphs/<graph key>       one line: its place in which module, that .mef's checksum

Files are written aside and renamed, so a reader sees all of one or nothing, and a killed writer
leaves only a stray temporary file. A graph file that points to a missing, damaged or foreign .mef
is a miss and is removed. Nothing is locked: two processes that compile the same graph write the
same content twice. The least recently used artifacts go when the store outgrows its limit.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torch_max_backend import flags

_STRAY_AGE = 3600.0
"""Seconds after which a temporary file belongs to a writer that died."""


@dataclass(frozen=True)
class Artifact:
    """One compiled Module on disk."""

    path: Path
    bytes: int
    used: float
    """When it was last written or loaded, in seconds since the epoch."""


class ArtifactStore:
    """Compiled Modules below `folder`, at most `limit` bytes of them."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.modules = folder / "artifacts"
        self.graphs = folder / "graphs"
        self.limit = limit

    def find(self, key: str) -> tuple[Path, int] | None:
        """The intact artifact that holds the graph `key`, and the graph's place in it."""
        entry = self.graphs / key
        try:
            name, place, checksum = entry.read_text().split()
            index = int(place)
            path = self.modules / name
            if path.parent != self.modules:
                raise ValueError(f"{name} is not a file of the store")
            actual = _checksum_of(path)
        except (OSError, ValueError):
            entry.unlink(missing_ok=True)
            return None
        if actual != checksum:
            entry.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            return None
        return path, index

    def add(self, keys: Iterable[str | None], export: Callable[[Path], object]) -> Path:
        """Store what `export` writes as the artifact of the graphs `keys`, in their order.

        A graph whose key is None is in the artifact, but nobody will look for it.
        """
        self.modules.mkdir(parents=True, exist_ok=True)
        self.graphs.mkdir(parents=True, exist_ok=True)
        keys = list(keys)
        name = hashlib.sha256("\n".join(map(str, keys)).encode()).hexdigest()[:32] + ".mef"
        path = self.modules / name
        with tempfile.TemporaryDirectory(dir=self.modules, prefix="new-") as staging:
            written = Path(staging) / name
            export(written)
            content = written.read_bytes()
            os.replace(written, path)
        checksum = _checksum(content)
        for index, key in enumerate(keys):
            if key is not None:
                write_whole(self.graphs / key, f"{name} {index} {checksum}\n")
        self._evict(keep=path)
        return path

    def forget(self, path: Path) -> None:
        """Remove an artifact that turned out to be unusable."""
        path.unlink(missing_ok=True)

    def artifacts(self) -> Iterator[Artifact]:
        """Every artifact, the least recently used first."""
        found = []
        for path in self.modules.glob("*.mef"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # evicted by another process
            found.append(Artifact(path, status.st_size, status.st_mtime))
        yield from sorted(found, key=lambda artifact: artifact.used)

    def graphs_of(self, artifact: Artifact) -> int:
        """How many graphs point to an artifact."""
        name = artifact.path.name
        return sum(entry.read_text().startswith(name) for entry in self.graphs.glob("*"))

    def size(self) -> int:
        """Bytes of all artifacts."""
        return sum(artifact.bytes for artifact in self.artifacts())

    def clear(self) -> int:
        """Remove everything; returns how many artifacts there were."""
        removed = 0
        for artifact in self.artifacts():
            artifact.path.unlink(missing_ok=True)
            removed += 1
        if self.graphs.is_dir():
            for entry in self.graphs.iterdir():
                entry.unlink(missing_ok=True)
        return removed

    def _evict(self, keep: Path) -> None:
        artifacts = list(self.artifacts())
        total = sum(artifact.bytes for artifact in artifacts)
        for artifact in artifacts:
            if total <= self.limit:
                break
            if artifact.path != keep:
                artifact.path.unlink(missing_ok=True)
                total -= artifact.bytes
        for stray in self.modules.glob("new-*"):
            if time.time() - stray.stat().st_mtime > _STRAY_AGE:
                for path in stray.iterdir():
                    path.unlink(missing_ok=True)
                stray.rmdir()


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


def _checksum(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Write a file aside and rename it: a reader sees all of it or what was there before."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.replace(temporary, path)


def default_store() -> ArtifactStore:
    """The store that the environment asks for."""
    return ArtifactStore(flags.cache_dir(), flags.cache_mb() * 1024 * 1024)
