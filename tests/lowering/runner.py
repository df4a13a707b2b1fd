"""Runs rows: PyTorch eager is the reference, MAX compiles many rows as one Module.

Each row goes the product's own way (trace with the decomposition table, rewrite complex numbers,
import, passes, lower, compile, run); only Dynamo and AOTAutograd are left out, which keeps a row at
some 20 ms beside its compile. A row that fails to lower or to compile fails alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tests.lowering.cases import Row
from tests.testing.graph_of_call import OpCall, graph_for_max, run_on_max
from torch_max_backend.compat.torch import pytree
from torch_max_backend.engine.graph import CompiledGraph
from torch_max_backend.engine.queue import ENGINE
from torch_max_backend.errors import MaxCompilerError
from torch_max_backend.lowering.registry import decomposition_table

COMPILED = {"rows": 0, "seconds": 0.0}
"""What this process compiled, for the summary line."""


class Outcome:
    """What became of one row: its compiled graph, or the error that stands in its way."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.error: Exception | None = None
        self.graph: CompiledGraph | None = None
        self.tensors: list[torch.Tensor] = []
        self.expected: Any = None

    def prepare(self, table: Mapping[Any, Any]) -> None:
        """Run PyTorch, trace, lower; raises nothing, keeps the error for the row's own test."""
        try:
            args, kwargs = self.row.arguments()
            self.expected = self.row.case.op(*args, **kwargs)
            call = OpCall(self.row.case.op, *self.row.arguments())
            self.tensors = call.tensors
            gm, _ = call.trace(table)
            self.graph = graph_for_max(gm)
            ENGINE.submit([self.graph])
        except Exception as error:
            self.error = error

    def check(self) -> None:
        """Compare with PyTorch; raises what kept the row from running."""
        if self.error is not None:
            raise self.error
        assert self.graph is not None
        given = [tensor.clone() if _dense(tensor) else tensor for tensor in self.tensors]
        actual = run_on_max(self.graph, given)
        expected = [e for e in pytree.tree_leaves(self.expected) if isinstance(e, torch.Tensor)]
        case = self.row.case
        if case.expand is not None:
            actual, expected = case.expand(actual), case.expand(expected)
        assert expected and len(actual) == len(expected)
        assert set(case.outputs or ()) <= set(range(len(expected)))
        for index, (got, want) in enumerate(zip(actual, expected, strict=True)):
            if case.outputs is not None and index not in case.outputs:
                continue
            atol, rtol = case.tolerance(want.dtype)
            torch.testing.assert_close(got, want, atol=atol, rtol=rtol, equal_nan=True)


def _dense(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous()


def run(rows: Sequence[Row]) -> dict[str, Outcome]:
    """Prepare and compile `rows` as one Module; results by row id."""
    table = decomposition_table()
    outcomes = {row.id: Outcome(row) for row in rows}
    for outcome in outcomes.values():
        outcome.prepare(table)
    start = time.perf_counter()
    try:
        ENGINE.flush()
    except MaxCompilerError:
        # Each failed graph carries its own error, which its own row reports.
        failed = [o for o in outcomes.values() if o.graph is not None and o.graph.error is not None]
        assert failed, "the engine failed without a failing graph"
    COMPILED["rows"] += len(rows)
    COMPILED["seconds"] += time.perf_counter() - start
    return outcomes
