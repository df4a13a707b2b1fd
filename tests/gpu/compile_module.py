"""Compiles one Module for a GPU that is not there, in this process.

    python -m tests.gpu.compile_module sm_90 FOLDER KEY...     graphs that `lower_rows` wrote
    python -m tests.gpu.compile_module sm_90 FOLDER refusal    a CPU kernel, which is rejected
    python -m tests.gpu.compile_module sm_90 FOLDER instantiate KEY...

Like the child of the engine, it imports MAX and not PyTorch.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.kept_graphs import Kept
from torch_max_backend.engine import compile_worker

APIS = {"sm_": "cuda", "gfx": "hip", "apple": "metal", "metal": "metal"}
PROCESSOR_SECONDS = 3600
MEMORY = 7 << 30
"""A compiler that takes more of either is ended, and its Module is halved."""
NO_SINE = "constraint failed: DType.float64 is not supported for sin on NVIDIA GPU"


def pretend(arch: str) -> None:
    """Let MAX compile for one GPU of this kind, in this process."""
    from max import driver

    api = next(api for start, api in APIS.items() if arch.startswith(start))
    driver.set_virtual_device_api(api)
    driver.set_virtual_device_target_arch(arch)
    driver.set_virtual_device_count(1)


def compile_module(arch: str, kept: Kept, keys: Sequence[str]) -> int:
    """Compile graphs as one Module and note what became of them; print MAX's message if not."""
    _limit()
    pretend(arch)
    packages = [kept.kernels.read_text()]
    start = time.process_time()
    job = compile_worker.Job([kept.path(key).read_bytes() for key in keys], packages)
    reply = compile_worker.do(job, compile_worker.compiler())
    seconds = time.process_time() - start
    if "artifact" not in reply:
        print("\n".join(reply["rejected"]), file=sys.stderr)
        return 1
    launched = sorted(name.decode() for name in launched_functions(reply["artifact"]))
    for key in keys:
        more = {"seconds": round(seconds / len(keys), 2), "kernels": Path(packages[0]).stem}
        kept.note_compiled(arch, key, "compiled", **more)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{len(keys)} graphs for {arch}: {seconds:.0f} s of processor time, {peak} MiB, "
        f"{len(reply['artifact']) >> 10} KiB, {len(launched)} bodies of `each`"
    )
    return 0


def instantiate(arch: str, kept: Kept, keys: Sequence[str]) -> int:
    """Have MAX instantiate the kernels of graphs for an NVIDIA GPU, and compile none of them.

    It stops because of a graph that it rejects, which is put beside them. That takes a fifth of
    the time, and shows the constraints that fail, but not what LLVM would reject.
    """
    _limit()
    pretend(arch)
    packages = [kept.kernels.read_text()]
    start = time.process_time()
    job = compile_worker.Job(
        [float64_graph("sin", "sine"), *(kept.path(key).read_bytes() for key in keys)], packages
    )
    reply = compile_worker.do(job, compile_worker.compiler())
    errors = "\n".join(reply["rejected"]).split("error: function instantiation failed")[1:]
    others = [error for error in errors if NO_SINE not in error]
    print(f"{len(keys)} graphs for {arch}: {time.process_time() - start:.0f} s of processor time")
    if not errors or others:
        print("\n".join(others or reply["rejected"]), file=sys.stderr)
        return 1
    for key in keys:
        kept.note_compiled(f"{arch}.instantiated", key, "instantiated")
    return 0


def float64_graph(function: str, name: str) -> bytes:
    """A graph on a GPU as MLIR: `function` of MAX, of float64; NVIDIA's have no "sin" and "cos"."""
    from max.dtype import DType
    from max.graph import DeviceRef, Graph, Module, TensorType, ops

    from torch_max_backend.compat.max import bytecode_of

    module = Module()
    type_ = TensorType(DType.float64, [4], DeviceRef.GPU(0))
    with Graph(name, input_types=[type_], module=module) as graph:
        graph.output(getattr(ops, function)(graph.inputs[0].tensor))
    return bytecode_of(module)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def refusal(arch: str, kept: Kept) -> str:
    """What MAX says of a CPU kernel in a graph for a GPU, past the check in Python."""
    pretend(arch)
    from max.dtype import DType
    from max.graph import DeviceRef, Graph, Module, TensorType, ops

    from torch_max_backend.compat.max import bytecode_of

    gpu, package = DeviceRef.GPU(0), Path(kept.kernels.read_text())
    type_ = TensorType(DType.float32, [4, 4], gpu)
    module = Module()
    with Graph("g", input_types=[type_] * 2, module=module, custom_extensions=[package]) as graph:
        inputs = [value.tensor for value in graph.inputs]
        how = {"transposed": False}
        graph.output(ops.custom("tmb_matmul", gpu, inputs, [type_], parameters=how)[0].tensor)
    job = compile_worker.Job([bytecode_of(module)], [str(package)])
    return "\n".join(compile_worker.do(job, compile_worker.compiler()).get("rejected", []))


def launched_functions(artifact: bytes) -> set[bytes]:
    """The bodies of `each` among an artifact's functions for an NVIDIA GPU.

    MAX also puts functions of Modules that it compiled before into an artifact.
    """
    return set(re.findall(rb"\.nv\.info\.(\w+_launch__\w+)", artifact))


def main(arch: str, folder: str, *keys: str) -> int:
    kept = Kept(Path(folder))
    if keys == ("refusal",):
        print(refusal(arch, kept))
        return 0
    if keys[0] == "instantiate":
        return instantiate(arch, kept, keys[1:])
    return compile_module(arch, kept, keys)


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # MAX's destructors abort now and then, and there is nothing left to do
