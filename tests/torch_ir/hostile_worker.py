"""Runs hostile files by number, one per line of stdin, in a process with limits; a child of tests.

Prints one line of JSON per file. The parent sees a death by the missing line.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch

from tests.torch_ir.hostile_files import POOL, Document, hostile_file, overload_of, real_files
from torch_ir import IR, IRExecutor, Limits, TorchIRError
from torch_ir.ir import TensorRef
from torch_ir.serializer import deserialize_ir

MEMORY = 2**30
LIMITS = Limits(memory_bytes=2**24, seconds=0.5)


def memory(field: str) -> int:
    """A line of the process's status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def weights_of(ir: IR) -> dict[str, torch.Tensor]:
    """Weights of the declared shapes, where those are small."""
    found = {}
    for meta in ir.weights:
        if all(isinstance(size, int) and size < 100 for size in meta.shape):
            dtype = getattr(torch, meta.dtype)
            found[ir.weight_name_mapping[meta.name]] = torch.ones(meta.shape).to(dtype)
    return found


def inputs_of(ir: IR) -> list[Any]:
    return [
        POOL[meta.name].clone() if meta.name in POOL else torch.ones(2, 3)
        for meta in ir.graph_inputs
    ]


def run(document: Document) -> str:
    """What came of the file: the class of its error, `right`, or what is wrong."""
    try:
        ir = deserialize_ir(json.dumps(document))
        inputs, weights = inputs_of(ir), weights_of(ir)
        kept = [value.clone() for value in (*inputs, *weights.values())]
        executor = IRExecutor(ir, weights, limits=LIMITS)
        ir.in_spec = None  # flat inputs
        torch.manual_seed(0)
        try:
            executor.run(inputs)
        finally:
            for value, old in zip((*inputs, *weights.values()), kept, strict=True):
                assert same(value, old), "the run changed an input or a weight"
        seen: dict[str, Any] = {}
        torch.manual_seed(0)
        executor.run(inputs, observe=lambda node, value: seen.__setitem__(node.name, value))
        compare(ir, inputs, weights, seen)
        return "right"
    except TorchIRError as error:
        text = str(error)
        assert len(text) < 20_000, "an error of more than 20,000 characters"
        assert "\x1b" not in text, "an escape sequence in an error"
        return type(error).__name__


def compare(ir: IR, inputs: list[Any], weights: dict[str, torch.Tensor], seen: Any) -> None:
    """Call each op of the graph directly, and compare with what the executor computed."""
    values = dict(zip((meta.name for meta in ir.graph_inputs), inputs, strict=True))
    values |= {meta.name: weights.get(ir.weight_name_mapping[meta.name]) for meta in ir.weights}
    values |= ir.constants
    torch.manual_seed(0)
    for node in ir.nodes:
        if node.op_type.startswith(("aten.", "prims.")) and "empty" not in node.op_type:
            arguments = {name: plain(value, values) for name, value in node.arguments.items()}
            expected = call(node.op_type, arguments)
            assert same(expected, seen[node.name]), f"{node.op_type} has a wrong result"
        values[node.name] = seen[node.name]


def call(op_type: str, arguments: dict[str, Any]) -> Any:
    overload = overload_of(op_type)
    if "batch_norm" in op_type or "instance_norm" in op_type:
        arguments = {
            name: value.clone() if isinstance(value, torch.Tensor) else value
            for name, value in arguments.items()
        }
    with torch.no_grad():
        return overload(**arguments)


def plain(value: Any, values: dict[str, Any]) -> Any:
    if isinstance(value, TensorRef):
        return values[value.name]
    if isinstance(value, list):
        return [plain(item, values) for item in value]
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    # PyTorch does not compare the small floats.
    return tensor.double() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor


def same(left: Any, right: Any) -> bool:
    """Bit by bit; NaN equals NaN."""
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        if left.shape != right.shape or left.dtype != right.dtype:
            return False
        a, b = _comparable(left), _comparable(right)
        return bool(((a == b) | (a.isnan() & b.isnan())).all())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and repr(left) == repr(right)


def main() -> None:
    torch.set_num_threads(1)
    real_files()
    hostile_file(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = memory("VmData") + MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        seed = int(line)
        document = hostile_file(seed)
        Path("/proc/self/clear_refs").write_text("5")  # the peak of memory starts anew
        before = memory("VmRSS")
        start, wall = time.process_time(), time.monotonic()
        try:
            outcome = run(document)
        except Exception as error:
            outcome = f"WRONG {type(error).__name__}: {error!s:.300}"
        report = {
            "seed": seed,
            "outcome": outcome,
            "seconds": time.process_time() - start,
            "wall": time.monotonic() - wall,
            "bytes": memory("VmHWM") - before,
        }
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
