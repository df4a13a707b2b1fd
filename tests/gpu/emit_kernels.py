"""Has MAX's graph compiler write the kernels of lowered graphs as Mojo, for `compile_kernels`.

    python -m tests.gpu.emit_kernels FOLDER              all graphs of the folder, in Modules
    python -m tests.gpu.emit_kernels FOLDER KEY...       these, as one Module

MAX stops before it compiles the Mojo, so a Module of 55 graphs takes 5 s of processor time. The
Mojo is the same for all kinds of GPU. A graph that MAX rejects here is found by halving.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.compile_graphs import cause, graphs_in_order
from tests.gpu.compile_module import pretend
from tests.gpu.kept_graphs import ARCH, OTHERS, Kept
from torch_max_backend.engine import compile_worker

CHUNK = 55
"""Graphs per Module. MAX makes a file's name of all their names, which are two letters here."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CONSTANTS = "_constant_subgraphs"
"""MAX writes what it computes while compiling into a file of its own, once per cache of MAX."""


def emit_all(kept: Kept) -> None:
    """Emit what is not known yet."""
    known = _known(kept)
    keys = [key for key in graphs_in_order(kept, ARCH, *OTHERS) if key not in known]
    chunks = [keys[i : i + CHUNK] for i in range(0, len(keys), CHUNK)]
    while chunks:
        chunk = chunks.pop(0)
        command = [sys.executable, "-m", "tests.gpu.emit_kernels", str(kept.folder), *chunk]
        ended = subprocess.run(command, capture_output=True, text=True)
        print(ended.stdout, end="", flush=True)
        if ended.returncode == 0:
            continue
        if len(chunk) == 1:
            kept.note_rejected(chunk[0], cause(ended.stderr))
        else:
            half = len(chunk) // 2
            chunks[:0] = [chunk[:half], chunk[half:]]


def _known(kept: Kept) -> set[str]:
    files = (json.loads(file.read_text()) for file in kept.emitted.glob("*.json"))
    return {*kept.rejected(), *(key for file in files for key in file["graphs"])}


def emit(kept: Kept, keys: Sequence[str]) -> int:
    """Emit the kernels of one Module, in this process."""
    from max.engine import InferenceSession

    pretend(ARCH)
    start = time.process_time()
    module = compile_worker._compat().module_of([kept.path(key).read_bytes() for key in keys])
    names = {}
    for place, graph in enumerate(module.mlir_module.regions[0].front):
        names[LETTERS[place // 26] + LETTERS[place % 26]] = graph.sym_name
        graph.sym_name = LETTERS[place // 26] + LETTERS[place % 26]
    with tempfile.TemporaryDirectory() as folder:
        InferenceSession.debug.ir_output_dir = folder
        InferenceSession.debug.pre_jit = True
        try:
            compile_worker.compiler().compile(module, custom_extensions=[kept.kernels.read_text()])
        except Exception as error:
            messages = compile_worker._messages(error)
            if not any("pre-jit" in message for message in messages):
                print("\n".join(messages), file=sys.stderr)
                return 1
        (mojo,) = (f for f in Path(folder).glob("*.mojo") if not f.stem.endswith(CONSTANTS))
        (calls,) = Path(folder).glob("*.mgp.mlir")
        found = symbols(calls, names)
        graphs = {key: found.get(key, []) for key in keys}
        stored = {"graphs": graphs, "mojo": mojo.read_text()}
    (kept.emitted / f"{keys[0]}.json").write_text(json.dumps(stored))
    print(f"{len(keys)} graphs: {time.process_time() - start:.0f} s of processor time")
    return 0


def symbols(calls: Path, names: dict[str, str]) -> dict[str, list[str]]:
    """The functions that each graph loads, by the last form that MAX writes of them."""
    found: dict[str, list[str]] = {}
    graph = ""
    with calls.open() as lines:
        for line in lines:
            if model := re.match(r"\s*mgp\.model @(\w+)", line):
                graph = names[model[1]]
            elif load := re.search(r"mogg\.compiled\.load.*?symbols = \[(.*?)\]", line):
                found.setdefault(graph, []).extend(re.findall(r'"(\w+)"', load[1]))
            elif "mogg.kernel.decl" in line:
                break  # MAX's kernels follow, 59 MB of them
    return found


def main(folder: str, *keys: str) -> int:
    kept = Kept(Path(folder))
    if keys:
        return emit(kept, keys)
    emit_all(kept)
    return 0


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # MAX's destructors abort now and then, and there is nothing left to do
