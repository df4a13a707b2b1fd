"""Every Mojo kernel has a row: a kernel that no row reaches is compiled and run by nobody."""

from __future__ import annotations

import re

import pytest
from max.graph import ops

from tests.lowering.cases import Row
from tests.lowering.test_ops import ROWS
from tests.testing.graph_of_call import OpCall, lowered
from torch_max_backend.lowering import mojo_kernels
from torch_max_backend.lowering.registry import decomposition_table


def registered_kernels() -> set[str]:
    sources = (path.read_text() for path in mojo_kernels.SOURCES.rglob("*.mojo"))
    return {name for text in sources for name in re.findall(r'register\("(\w+)"\)', text)}


def _by_novelty() -> list[Row]:
    """One row of each case, at its first dtype; first those of ops not seen before."""
    cases: dict[tuple[str, int], Row] = {}
    for row in ROWS:
        if row.xfail is None:
            cases.setdefault((row.table, row.number), row)
    first: dict[str, Row] = {}
    for row in cases.values():
        first.setdefault(str(row.case.op), row)
    new = list(first.values())
    return new + [row for row in cases.values() if row not in new]


def test_every_kernel_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = registered_kernels()
    assert missing
    custom = ops.custom

    def spy(name: str, *args: object, **kwargs: object) -> object:
        missing.discard(name)
        return custom(name, *args, **kwargs)

    monkeypatch.setattr(ops, "custom", spy)
    table = decomposition_table()
    for row in _by_novelty():
        if not missing:
            break
        lowered(OpCall(row.case.op, *row.arguments()), table)
    assert not missing, f"no row in tests/lowering reaches {sorted(missing)}"
