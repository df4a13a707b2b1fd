"""The output of TORCH_MAX_BACKEND_PROFILE and TORCH_MAX_BACKEND_VERBOSE, and the same as a log.

PyTorch's own settings turn the log on: with TORCH_LOGS=max_backend it has what PROFILE prints,
with TORCH_LOGS=+max_backend what VERBOSE prints as well. PyTorch reads the variable while it is
imported, before others can register a name; it takes that of any module, and max_backend.py is
one. The package's name, `torch_max_backend`, is a logger too, for users of `logging`.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter

import torch
from max.graph import Graph
from torch import fx

from torch_max_backend import flags
from torch_max_backend.program import BoxedCall

_LOG = logging.getLogger("torch_max_backend")
_SHORT = logging.getLogger("max_backend")


def report(stage: str, seconds: float, what: str = "") -> None:
    """Log one line, and print it to stderr if profiling is on."""
    for log in _loggers(logging.INFO):
        log.info("%s %.2f ms  %s", stage, seconds * 1e3, what)
    if flags.profile():
        print(f"[max_backend] {stage:<8} {seconds * 1e3:10.2f} ms  {what}", file=sys.stderr)


def show_graph(gm: fx.GraphModule, kind: str) -> None:
    """Show the ATen graph and the count of each op if verbose output is on."""
    if not _is_verbose():
        return
    ops = Counter(str(node.target) for node in gm.graph.nodes if node.op == "call_function")
    lines = [f"{kind} graph, {sum(ops.values())} calls", gm.print_readable(print_output=False)]
    lines += [f"{count:5d} × {op}" for op, count in ops.most_common()]
    _show(*lines)


def show_max_graph(graph: Graph) -> None:
    """Show the lowered graph in MAX's own text form if verbose output is on."""
    if _is_verbose():
        _show(f"MAX graph\n{graph}")


def _is_verbose() -> bool:
    return flags.verbose() or bool(_loggers(logging.DEBUG))


def _loggers(level: int) -> list[logging.Logger]:
    """The loggers that are on. A level of the root logger turns on one of them, not both."""
    names = (_LOG, _SHORT) if _SHORT.level else (_LOG,)
    return [log for log in names if log.isEnabledFor(level)]


def _show(*texts: str) -> None:
    for log in _loggers(logging.DEBUG):
        log.debug("%s", "\n".join(texts))
    if flags.verbose():
        for text in texts:
            print(f"[max_backend] {text}", file=sys.stderr)


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
