"""The overhead of a call: `python -m benchmarks.overhead`.

Compares the compiled function with a bare `Model.execute` of the same compiled graph on buffers
that exist already: interleaved in one run, medians of many rounds. Measures `x + 1` on 8 floats,
and what 150 unchanged parameters add. MAX's threads fall asleep between two calls, and waking them
takes longer after a longer pause. `execute` is therefore also measured inside a function that
Dynamo compiled: the difference to that is this package's own overhead.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from max.driver import Buffer
from max.engine import Model
from rich.console import Console
from rich.table import Table

from torch_max_backend import compile_together, max_backend
from torch_max_backend.engine.graph import CompiledGraph

PARAMETERS = 150


class Sum(torch.nn.Module):
    """Adds `count` parameters of 8 floats to its argument."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.terms = torch.nn.ParameterList(torch.randn(8) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for term in self.terms:
            x = x + term
        return x


def microseconds(calls: dict[str, Callable[[], object]], rounds: int, batch: int) -> dict:
    """Median time of each call, interleaved so that noise affects all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(batch):
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(batch):
                call()
            times[name].append((time.perf_counter() - start) / batch * 1e6)
    return {name: median(values) for name, values in times.items()}


@contextmanager
def recorded_models() -> Iterator[list[Model]]:
    """Collects the MAX models of the graphs that are compiled inside the block."""
    models: list[Model] = []
    ready = CompiledGraph.ready

    def record(graph: CompiledGraph, model: Model, *artifact: Any) -> None:
        models.append(model)
        ready(graph, model, *artifact)

    CompiledGraph.ready = record  # type: ignore[method-assign]
    try:
        yield models
    finally:
        CompiledGraph.ready = ready  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()

    x, many = torch.randn(8), Sum(PARAMETERS)
    add_one = torch.compile(lambda x: x + 1, backend=max_backend)
    add_many = torch.compile(many, backend=max_backend)
    with torch.no_grad(), recorded_models() as models, compile_together():
        add_one(x)
        add_many(x)
    bare_one, bare_many = sorted(models, key=lambda model: len(model.input_metadata))
    buffers = [Buffer.from_dlpack(torch.randn(8)) for _ in range(PARAMETERS + 1)]
    eager_one = lambda x: x + 1  # noqa: E731
    behind_dynamo = torch.compile(
        lambda x: x + 2, backend=lambda gm, inputs: lambda *args: bare_one.execute(buffers[0])
    )
    with torch.no_grad():
        result = microseconds(
            {
                "x + 1, eager": lambda: eager_one(x),
                "x + 1, bare execute": lambda: bare_one.execute(buffers[0]),
                "x + 1, bare execute behind Dynamo": lambda: behind_dynamo(x),
                "x + 1, compiled": lambda: add_one(x),
                "150 parameters, eager": lambda: many(x),
                "150 parameters, bare execute": lambda: bare_many.execute(*buffers),
                "150 parameters, compiled": lambda: add_many(x),
            },
            args.rounds,
            200,
        )
    ratio = result["x + 1, compiled"] / result["x + 1, bare execute"]
    added = result["150 parameters, compiled"] - result["x + 1, compiled"]
    bare = result["150 parameters, bare execute"] - result["x + 1, bare execute"]
    own = result["x + 1, compiled"] - result["x + 1, bare execute behind Dynamo"]
    summary = {"ratio": ratio, "own_us": own, "added_us": added, "bare_added_us": bare}
    if args.json:
        print(json.dumps({**result, **summary}))
        return
    table = Table(title="Time of a call in µs (median)")
    table.add_column("call")
    table.add_column("µs", justify="right")
    for name, value in result.items():
        table.add_row(name, f"{value:.1f}")
    console = Console()
    console.print(table)
    console.print(f"x + 1: {ratio:.2f} × the bare execute (limit 2.5); our overhead: {own:.0f} µs")
    console.print(
        f"150 unchanged parameters add {added:.0f} µs (limit 150; bare execute adds {bare:.0f})"
    )


if __name__ == "__main__":
    main()
