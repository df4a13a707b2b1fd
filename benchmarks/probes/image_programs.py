"""Where the time of a convolution network goes: `python -m benchmarks.probes.image_programs unet`.

The network's image programs are compiled with an instruction at their end that returns how long
each of the others took. Equal instructions are one line: medians of 20 calls, added up.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.export.graph_signature import InputKind

from benchmarks.models import make
from torch_max_backend import compile_together, max_backend
from torch_max_backend.flags import Options
from torch_max_backend.frontend.graph_compiler import GraphCompiler
from torch_max_backend.lowering.registry import decomposition_table
from torch_max_backend.program import Kind
from torch_max_backend.program.image_program import LENGTH, Instruction, What, decode, timed
from torch_max_backend.program.own_ops import image_program

CALLS = 20


def programs(name: str) -> list[tuple[torch.Tensor, torch.Tensor, tuple[Any, ...]]]:
    """The image programs of a benchmark: an input, the packed weights, the other arguments."""
    benchmark = make(name)
    with torch.no_grad():
        exported = torch.export.export(benchmark.model, benchmark.args, strict=False)
        exported = exported.run_decompositions(decomposition_table())
    specs = exported.graph_signature.input_specs
    own = {spec.arg.name: spec.target for spec in specs if spec.kind is not InputKind.USER_INPUT}
    program = GraphCompiler(Options(), ()).program(exported.graph_module, Kind.INFERENCE, list(own))
    values = {**exported.state_dict, **exported.constants}
    found = []
    for call in program.calls:
        if call.op is image_program.default:
            x, weights, *rest = call.args
            packed = next(item for item in program.packed if item.name == weights.name)
            tensors = [values[own[source]] for source in packed.sources]
            (spec,) = program.specs()[x.name]
            assert spec is not None
            found.append((torch.randn(spec.shape), packed.layout.pack(*tensors), tuple(rest)))
    return found


def timed_call(rest: tuple[Any, ...]) -> Callable[..., torch.Tensor]:
    """A function of input and weights that returns the nanoseconds of each instruction."""
    lines, numbers, workspace, past, outputs, columns = rest
    program, size = timed(lines, outputs)

    def run(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        result = image_program(x, weights, program, numbers, workspace, past, size, columns)
        return result[0, outputs:]

    return torch.compile(run, backend=max_backend, dynamic=False)


def products(line: Instruction) -> int:
    """Multiplications that the instruction stands for, whatever the algorithm."""
    n, h, w, c = line.size
    taps = line.window[0] * line.window[1]
    if line.what in (What.CONVOLUTION, What.WINOGRAD):
        return n * h * w * c * taps * line.input[2]
    return n * h * w * c * taps if line.what is What.DEPTHWISE else 0


def show(lines: list[Instruction], microseconds: list[float]) -> None:
    """A table, the most expensive first."""
    table: dict[str, list[float]] = {}
    for line, time in zip(lines, microseconds, strict=True):
        n, h, w, c = line.size
        what = f"{line.what.name} {n} x {h} x {w} x {c}"
        if line.window != (1, 1) or line.stride != (1, 1):
            what += f", {line.window[0]} x {line.window[1]} / {line.stride[0]}"
        if products(line):
            what += f", from {line.input[2]}"
        what += "".join(f" {step.then.name.lower()}" for step in line.steps)
        row = table.setdefault(what, [0, 0, 0])
        row[0] += 1
        row[1] += time
        row[2] += products(line)
    total = sum(microseconds)
    print(f"{total / 1e3:.2f} ms, {len(lines)} instructions\n   us   share  count  GFLOP/s")
    for what, (count, time, flops) in sorted(table.items(), key=lambda row: -row[1][1]):
        rate = f"{2 * flops / time / 1e3:7.0f}" if flops and time else " " * 7
        print(f"{time:8.1f} {time / total:5.1%} {count:4.0f} {rate}  {what}")


def main() -> None:
    for name in sys.argv[1:]:
        found = programs(name)
        with compile_together():
            calls = [timed_call(rest) for _, _, rest in found]
            for call, (x, weights, _) in zip(calls, found, strict=True):
                call(x, weights)
        for call, (x, weights, rest) in zip(calls, found, strict=True):
            runs = [call(x, weights).tolist() for _ in range(CALLS)]
            numbers = rest[0]
            starts = range(0, len(numbers), LENGTH)
            lines = [decode(numbers[start : start + LENGTH]) for start in starts]
            print(name)
            show(lines, [statistics.median(times) / 1e3 for times in zip(*runs, strict=True)])


if __name__ == "__main__":
    main()
