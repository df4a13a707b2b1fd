"""Compiles op rows for a GPU that this machine does not have. Nothing is run.

    python -m tests.gpu.compile_rows sm_90 results.jsonl ID...    these rows, as one Module
    python -m tests.gpu.compile_rows sm_90 results.jsonl          all rows, in Modules of CHUNK
    python -m tests.gpu.compile_rows sm_90 results.jsonl refusals a CPU kernel, to be refused

MAX's virtual devices are set for a whole process, so each Module is compiled in a child. What
became of a row is appended to the file as one JSON object per line. A run that was stopped goes on
where it was: a row that is in the file is not compiled again.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CHUNK = 60
"""Rows per Module."""
TIMEOUT = 3600
APIS = {"sm_": "cuda", "gfx": "hip", "apple": "metal"}


def results(file: Path) -> dict[str, dict[str, Any]]:
    """What is known of each row, by its id."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {entry["row"]: entry for entry in map(json.loads, lines)}


def _note(file: Path, row: str, outcome: str, **more: Any) -> None:
    with file.open("a") as to:
        to.write(json.dumps({"row": row, "outcome": outcome, **more}) + "\n")


def compile_all(arch: str, file: Path, rows: Sequence[str]) -> None:
    """Compile the rows that are not in `file` yet; a Module that fails is halved."""
    known = results(file)
    waiting = [row for row in rows if row not in known]
    chunks = [waiting[i : i + CHUNK] for i in range(0, len(waiting), CHUNK)]
    while chunks:
        chunk = chunks.pop(0)
        command = [sys.executable, "-m", "tests.gpu.compile_rows", arch, str(file), *chunk]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
            text = ended.stderr[-2000:]
        except subprocess.TimeoutExpired:
            text = f"MAX compiled for more than {TIMEOUT} s"
        known = results(file)
        left = [row for row in chunk if row not in known]
        if len(left) == 1:
            _note(file, left[0], "failed", why=_cause(text))
        elif left:
            half = len(left) // 2
            chunks[:0] = [left[:half], left[half:]]


def _cause(text: str) -> str:
    """The line of MAX's message that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error:" in line or "constraint failed" in line]
    return (telling or lines or ["the process ended without a message"])[-1][:300]


def _pretend(arch: str) -> None:
    """Let MAX compile for one GPU of this kind, in this process."""
    from max import driver

    api = next(api for start, api in APIS.items() if arch.startswith(start))
    driver.set_virtual_device_api(api)
    driver.set_virtual_device_target_arch(arch)
    driver.set_virtual_device_count(1)


def compile_refusals(arch: str, file: Path) -> int:
    """Compile a CPU kernel for a GPU, past the check in Python, and note what MAX says."""
    _pretend(arch)

    from max.dtype import DType
    from max.graph import DeviceRef, Graph, Module, TensorType, ops

    from torch_max_backend.compat.max import bytecode_of
    from torch_max_backend.engine import compile_worker
    from torch_max_backend.lowering import mojo_kernels

    packages = mojo_kernels.packages()
    for package in packages:
        mojo_kernels.precompile(package)
    gpu = DeviceRef.GPU(0)
    type_ = TensorType(DType.float32, [4, 4], gpu)
    module = Module()
    extensions = list(packages)
    with Graph("g", input_types=[type_] * 2, module=module, custom_extensions=extensions) as graph:
        inputs = [value.tensor for value in graph.inputs]
        how = {"transposed": False}
        graph.output(ops.custom("tmb_matmul", gpu, inputs, [type_], parameters=how)[0].tensor)
    job = compile_worker.Job([bytecode_of(module)], [str(path) for path in packages])
    reply = compile_worker.do(job, compile_worker.compiler())
    said = "\n".join(reply.get("rejected", []))
    outcome = "refused" if "tmb_matmul has no GPU form" in said else "not refused"
    _note(file, "tmb_matmul", outcome, why=said[-1500:])
    return 0


def compile_one_module(arch: str, file: Path, wanted: Sequence[str]) -> int:
    """Compile rows as one Module in this process, and note what became of them."""
    _pretend(arch)

    from tests.gpu.fake_cuda import call_of, lowered, trace
    from tests.lowering.test_ops import ROWS
    from torch_max_backend.engine import compile_worker
    from torch_max_backend.errors import MaxCompilerError
    from torch_max_backend.lowering import mojo_kernels
    from torch_max_backend.lowering.registry import decomposition_table

    table = decomposition_table()
    by_id = {row.id: row for row in ROWS}
    packages = mojo_kernels.packages()
    for package in packages:
        mojo_kernels.precompile(package)
    graphs: dict[str, bytes] = {}
    for number, row in enumerate(wanted):
        try:
            gm = trace(call_of(by_id[row]), table)
        except Exception as error:
            _note(file, row, "not traced", why=_first_line(error))
            continue
        try:
            graphs[row] = lowered(gm, f"g{number}")
        except MaxCompilerError as error:
            _note(file, row, "on PyTorch", why=_first_line(error))
    if not graphs:
        return 0
    start = time.perf_counter()
    job = compile_worker.Job(list(graphs.values()), [str(path) for path in packages])
    reply = compile_worker.do(job, compile_worker.compiler())
    seconds = time.perf_counter() - start
    if "artifact" not in reply:
        print("\n".join(reply["rejected"]), file=sys.stderr)
        return 1
    launched = len(launched_functions(reply["artifact"]))
    for row in graphs:
        _note(file, row, "compiled", seconds=round(seconds / len(graphs), 2), launched=launched)
    print(f"{len(graphs)} rows for {arch} in {seconds:.1f} s, {launched} bodies of `each`")
    return 0


def launched_functions(artifact: bytes) -> set[bytes]:
    """The bodies of `each` among an artifact's functions for an NVIDIA GPU.

    MAX also puts functions of Modules that it compiled before into an artifact.
    """
    return set(re.findall(rb"\.nv\.info\.(\w+_launch__\w+)", artifact))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]


def main(arch: str, path: str, *rows: str) -> int:
    file = Path(path)
    if rows == ("refusals",):
        return compile_refusals(arch, file)
    if rows:
        return compile_one_module(arch, file, rows)
    from tests.lowering.test_ops import ROWS

    compile_all(arch, file, [row.id for row in ROWS if row.xfail is None])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
