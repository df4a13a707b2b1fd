"""The output of TORCH_MAX_BACKEND_PROFILE and TORCH_MAX_BACKEND_VERBOSE."""

from __future__ import annotations

import sys
import time
from collections import Counter

import torch
from max.graph import Graph
from torch import fx

from torch_max_backend import flags
from torch_max_backend.program import BoxedCall


def report(stage: str, seconds: float, what: str = "") -> None:
    """Print one line to stderr if profiling is on."""
    if flags.profile():
        print(f"[max_backend] {stage:<8} {seconds * 1e3:10.2f} ms  {what}", file=sys.stderr)


def show_graph(gm: fx.GraphModule, kind: str) -> None:
    """Print the ATen graph and the count of each op if verbose output is on."""
    if not flags.verbose():
        return
    ops = Counter(str(node.target) for node in gm.graph.nodes if node.op == "call_function")
    print(f"[max_backend] {kind} graph, {sum(ops.values())} calls", file=sys.stderr)
    print(gm.print_readable(print_output=False), file=sys.stderr)
    for op, count in ops.most_common():
        print(f"[max_backend] {count:5d} × {op}", file=sys.stderr)


def show_max_graph(graph: Graph) -> None:
    """Print the lowered graph in MAX's own text form if verbose output is on."""
    if flags.verbose():
        print(f"[max_backend] MAX graph\n{graph}", file=sys.stderr)


def timed(call: BoxedCall, what: str) -> BoxedCall:
    """`call`, reporting each run. Chosen at compile time, so that other runs have no overhead."""

    def run(args: list[object]) -> list[object]:
        start = time.perf_counter()
        results = call(args)
        report("run", time.perf_counter() - start, what)
        return results

    return run


def describe(gm: fx.GraphModule, kind: str) -> str:
    """A short name of a graph for the reports."""
    tensors = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    inputs = sum(isinstance(value, torch.Tensor) for value in tensors)
    return f"{kind}, {inputs} tensors in"
