"""Compiled models by their graph's key: made in this process, or found in the artifact store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from max.engine import Model

from torch_max_backend.engine import artifacts
from torch_max_backend.engine.graph import CompiledGraph, LoadedArtifact
from torch_max_backend.observe.held_warnings import warn
from torch_max_backend.observe.profiling import report


@dataclass(frozen=True)
class Found:
    """A graph's model, and the object that keeps its artifact loaded, if it came from one."""

    model: Model
    artifact: LoadedArtifact | None


class Library:
    """What is compiled already. It keeps nothing alive: graphs hold their models."""

    def __init__(self, read: Callable[[Path], list[Model]]) -> None:
        self._read = read
        # An equal graph shares a model for as long as a function uses it.
        self._graphs: WeakValueDictionary[str, CompiledGraph] = WeakValueDictionary()
        self._loaded: WeakValueDictionary[Path, LoadedArtifact] = WeakValueDictionary()

    def find(self, graph: CompiledGraph) -> Found | None:
        """The graph's model, compiled earlier in this process or in another one."""
        twin = self._graphs.get(graph.key)
        if twin is not None and twin.model is not None:
            return Found(twin.model, twin.artifact)
        store = artifacts.default_store()
        if not graph.portable or not store.limit:
            return None
        found = store.find(graph.key)
        if found is None:
            return None
        path, index = found
        artifact = self._loaded.get(path)
        if artifact is None:
            try:
                start = time.perf_counter()
                artifact = LoadedArtifact(self._read(path))
                report("load", time.perf_counter() - start, path.name)
            except Exception as error:
                # Intact, yet MAX rejects it (another build of the engine): compile it again.
                store.forget(path)
                warn(f"stored artifact {path.name} is not usable: {error}")
                return None
            self._loaded[path] = artifact
        return Found(artifact.models[index], artifact)

    def stored(self, graph: CompiledGraph) -> tuple[bytes, int] | None:
        """The artifact on disk that holds a graph, and the graph's place in it."""
        store = artifacts.default_store()
        if not graph.portable or not store.limit:
            return None
        found = store.find(graph.key)
        return None if found is None else (found[0].read_bytes(), found[1])

    def add(self, graph: CompiledGraph) -> None:
        """Let equal graphs find a graph that is ready."""
        self._graphs[graph.key] = graph

    def keep(self, graphs: Sequence[CompiledGraph], artifact: bytes) -> None:
        """Store a compiled Module for other processes."""
        keys = [graph.key if graph.portable else None for graph in graphs]
        store = artifacts.default_store()
        if not any(keys) or not store.limit:
            return
        try:
            store.add(keys, artifact)
        except OSError as error:
            warn(f"compiled graphs could not be kept for next time: {error}")
