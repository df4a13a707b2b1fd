"""Counts the results of the runner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.testing.runner import RunResult


@dataclass
class RunStatistics:
    """Number of models that passed and failed, by category, and the ops that they use."""

    passed: int = 0
    failed: int = 0
    by_category: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Category -> number that passed, and number of all."""
    ops: Counter[str] = field(default_factory=Counter)
    max_abs_error: float = 0.0


def collect(results: Iterable[RunResult]) -> RunStatistics:
    """Count the results."""
    found = RunStatistics()
    for result in results:
        found.passed += result.passed
        found.failed += not result.passed
        passed, total = found.by_category.get(result.spec.category, (0, 0))
        found.by_category[result.spec.category] = (passed + result.passed, total + 1)
        if result.ir is not None:
            found.ops.update(node.op_type for node in result.ir.nodes)
        if result.report is not None:
            found.max_abs_error = max(found.max_abs_error, result.report.max_abs_error)
    return found
