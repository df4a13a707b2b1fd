"""Compiles lowered graphs for a GPU that this machine does not have. Nothing is run.

    python -m tests.gpu.compile_graphs sm_90 FOLDER          all that was lowered into the folder
    python -m tests.gpu.compile_graphs sm_90 FOLDER 200      the first 200 graphs
    python -m tests.gpu.compile_graphs sm_90 FOLDER failed   those that failed, once more
    python -m tests.gpu.compile_graphs sm_90 FOLDER instantiate   see `compile_module.instantiate`

A Module has a fixed cost, so CHUNK graphs are one; a Module that fails is halved, until the graph
that MAX rejects stands alone. Graphs with a product of MAX are in Modules of their own: they
cost MAX far more time and memory than others. A run that was stopped goes on where it was.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.kept_graphs import Kept

CHUNK = 100
CHUNK_OF_PRODUCTS = 2
"""Graphs per Module: about 10 s of processor time whatever is in it, and up to 5 GB of memory."""

TELLING = ("constraint failed", "LLVM ERROR", "error:")
"""What the lines of MAX's messages hold that tell most, the best first."""


def graphs_in_order(kept: Kept, *archs: str) -> list[str]:
    """The keys of the graphs for some GPUs, each once, in the order of the rows."""
    return list(dict.fromkeys(key for arch in archs for key in kept.keys(arch).values()))


def _chunks(kept: Kept, keys: Sequence[str]) -> list[list[str]]:
    found = []
    for size, product in ((CHUNK, False), (CHUNK_OF_PRODUCTS, True)):
        some = [key for key in keys if kept.has_product(key) == product]
        found += [some[i : i + size] for i in range(0, len(some), size)]
    return found


def compile_all(arch: str, kept: Kept, keys: Sequence[str]) -> None:
    """Compile the graphs of which nothing is known yet; a Module that fails is halved."""
    known = kept.compiled(arch)
    chunks = _chunks(kept, [key for key in keys if key not in known])
    while chunks:
        chunk_keys = chunks.pop(0)
        said = _in_child(arch, kept, chunk_keys)
        known = kept.compiled(arch)
        left = [key for key in chunk_keys if key not in known]
        if len(left) == 1:
            kept.note_compiled(arch, left[0], "failed", why=cause(said))
        elif left:
            half = len(left) // 2
            chunks[:0] = [left[:half], left[half:]]


def instantiate_all(arch: str, kept: Kept, keys: Sequence[str]) -> None:
    """Instantiate the kernels of the graphs that were not compiled; print what is rejected."""
    known = {*kept.compiled(arch), *kept.compiled(f"{arch}.instantiated")}
    for chunk in _chunks(kept, [key for key in keys if key not in known]):
        said = _in_child(arch, kept, ["instantiate", *chunk])
        if chunk[0] not in kept.compiled(f"{arch}.instantiated"):
            print(said, flush=True)


def _in_child(arch: str, kept: Kept, keys: Sequence[str]) -> str:
    """Compile a Module in a process of its own: virtual devices hold for a whole process."""
    command = [sys.executable, "-m", "tests.gpu.compile_module", arch, str(kept.folder), *keys]
    ended = subprocess.run(command, capture_output=True, text=True)
    print(ended.stdout, end="", flush=True)
    if ended.returncode < 0:
        return f"{ended.stderr[-4000:]}\nthe compiler was ended by signal {-ended.returncode}"
    return ended.stderr[-4000:]


def cause(text: str) -> str:
    """The line of MAX's message that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for words in TELLING:
        if telling := [line[line.index(words) :] for line in lines if words in line]:
            return telling[-1][:400]
    return (lines or ["the process ended without a message"])[-1][:400]


def main(arch: str, folder: str, what: str = "") -> int:
    kept = Kept(Path(folder))
    keys = graphs_in_order(kept, arch)
    if what == "instantiate":
        instantiate_all(arch, kept, keys)
        return 0
    if what == "failed":
        failed = {k for k, entry in kept.compiled(arch).items() if entry["outcome"] == "failed"}
        kept.forget(arch, failed)
        keys = [key for key in keys if key in failed]
    elif what:
        keys = keys[: int(what)]
    compile_all(arch, kept, keys)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
