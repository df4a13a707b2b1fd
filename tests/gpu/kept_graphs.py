"""Graphs lowered for a GPU, kept in a folder, and what became of each when MAX compiled it.

    lowered.jsonl       a line per item (an op row, a model): its graph's key, or why it has none
    graphs/KEY.mlirbc   a graph for MAX; items whose graphs are equal share it
    kernels.txt         the path of our precompiled kernels
    sm_90.jsonl         a line per graph: compiled, or MAX's message
    mojo/KEY.json       the Mojo that MAX emits for some graphs, and the symbols of each
    rejected.jsonl      a line per graph for which MAX emits none, with its message
    sm_90.kernels.jsonl a line per kernel: compiled, or the compiler's message

Lowering asks for the GPU in few places, so one folder serves all of them: an item has a graph, and
another one for each GPU of OTHERS that gets another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

PLACEHOLDER = "graph_" + "0" * 16
"""The name under which a graph is lowered; its key, which is as long, replaces it."""
ARCH = "sm_90"
"""The GPU for which all is lowered, and the kernels are emitted."""
OTHERS = ("gfx942", "sm_80")
"""The GPUs for which rows are lowered once more."""


class Kept:
    """The folder of a sweep. Every line is written at once, so a run can be stopped anywhere."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.graphs = folder / "graphs"
        self.kernels = folder / "kernels.txt"
        self.emitted = folder / "mojo"
        self.graphs.mkdir(parents=True, exist_ok=True)
        self.emitted.mkdir(exist_ok=True)

    def items(self) -> dict[str, dict[str, Any]]:
        """What lowering made of each item, in the order of the sweep."""
        return {entry["item"]: entry for entry in _lines(self.folder / "lowered.jsonl")}

    def keys(self, arch: str) -> dict[str, str]:
        """The key of each lowered item's graph for a GPU, in the order of the sweep."""
        entries = {item: entry for item, entry in self.items().items() if "key" in entry}
        return {item: entry.get(arch, entry["key"]) for item, entry in entries.items()}

    def note(self, item: str, outcome: str, **more: Any) -> None:
        """Record an item: "lowered" with its `key`, or another outcome with the reason (`why`).

        A GPU of OTHERS that gets another graph is a name as well, with that graph's key.
        """
        _append(self.folder / "lowered.jsonl", {"item": item, "outcome": outcome, **more})

    def keep(self, bytecode: bytes) -> str:
        """Store a graph that was lowered as PLACEHOLDER; returns its key, by which equal ones meet.

        A Module needs graphs of different names, so each is renamed to its key.
        """
        key = "graph_" + hashlib.sha256(bytecode).hexdigest()[:16]
        assert bytecode.count(PLACEHOLDER.encode()) == 1
        self.path(key).write_bytes(bytecode.replace(PLACEHOLDER.encode(), key.encode()))
        return key

    def path(self, key: str) -> Path:
        """The file of a graph."""
        return self.graphs / f"{key}.mlirbc"

    def has_product(self, key: str) -> bool:
        """Whether a graph has a product of MAX's own, not of our kernel."""
        return b"matmul" in self.path(key).read_bytes().replace(b"tmb_direct_matmul", b"")

    def compiled(self, arch: str) -> dict[str, dict[str, Any]]:
        """What MAX's compiler made of each graph for a GPU; the last word counts."""
        return {entry["key"]: entry for entry in _lines(self.folder / f"{arch}.jsonl")}

    def forget(self, arch: str, keys: Collection[str]) -> None:
        """Drop what is known of graphs, to compile them again."""
        file = self.folder / f"{arch}.jsonl"
        left = [entry for entry in _lines(file) if entry["key"] not in keys]
        file.write_text("".join(json.dumps(entry) + "\n" for entry in left))

    def note_compiled(self, arch: str, key: str, outcome: str, **more: Any) -> None:
        """Record a graph: "compiled", or "failed" with MAX's message (`why`)."""
        _append(self.folder / f"{arch}.jsonl", {"key": key, "outcome": outcome, **more})

    def rejected(self) -> dict[str, str]:
        """MAX's message by graph, where it emits no Mojo."""
        return {entry["key"]: entry["why"] for entry in _lines(self.folder / "rejected.jsonl")}

    def note_rejected(self, key: str, why: str) -> None:
        """Record a graph for which MAX emits no Mojo, with its message."""
        _append(self.folder / "rejected.jsonl", {"key": key, "why": why})

    def kernels_compiled(self, arch: str) -> dict[str, dict[str, Any]]:
        """What became of kernels for a GPU, by `emitted.Kernel.alike`."""
        return {entry["alike"]: entry for entry in _lines(self.folder / f"{arch}.kernels.jsonl")}

    def note_kernel(self, arch: str, alike: str, outcome: str, **more: Any) -> None:
        """Record a kernel: "compiled", or "failed" with the compiler's message (`why`)."""
        entry = {"alike": alike, "outcome": outcome, **more}
        _append(self.folder / f"{arch}.kernels.jsonl", entry)

    def forget_failed_kernels(self, arch: str) -> None:
        """Drop what is known of kernels that failed, to compile them again."""
        known = self.kernels_compiled(arch).values()
        left = [entry for entry in known if entry["outcome"] != "failed"]
        file = self.folder / f"{arch}.kernels.jsonl"
        file.write_text("".join(json.dumps(entry) + "\n" for entry in left))


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _append(file: Path, entry: dict[str, Any]) -> None:
    with file.open("a") as to:
        to.write(json.dumps(entry) + "\n")
