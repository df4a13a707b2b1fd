"""Every Mojo kernel has a row: a kernel that no row reaches is compiled and run by nobody."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
import torch
from max.graph import Module, ops

from tests.lowering.cases import Row
from tests.lowering.test_ops import ROWS
from tests.testing.graph_of_call import OpCall, lowered
from tests.testing.programs import written
from torch_max_backend.compat.max import in_default_mlir_context
from torch_max_backend.errors import LoweringError
from torch_max_backend.lowering import devices, gpu_forms, graph_builder, mojo_kernels
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


def _matrix_rows() -> list[Row]:
    tables = ("matmul", "convolution")
    integers = [row for row in ROWS if row.table == "matmul" and row.dtype is torch.int64]
    return [*(row for row in _by_novelty() if row.table in tables), *integers]


@in_default_mlir_context
def lower_what_is_written() -> None:
    """A row has no arguments that change; tests/runtime and tests/training run these on MAX."""
    cache, index, lines = torch.zeros(1, 2, 8, 4), torch.tensor([5]), torch.ones(1, 2, 1, 4)
    for program in (
        written(lambda *args: (torch.index_copy(args[0], 2, *args[1:]),), cache, index, lines),
        written(lambda p, g: ((p - g * 0.1) * 0.5 + 1,), lines, lines),
    ):
        lowerings, kernels = graph_builder.lowerings(program), mojo_kernels.packages()
        graph_builder.build(program, lowerings, Module(), "written", kernels)


def test_every_kernel_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = registered_kernels()
    assert missing
    custom, inplace_custom = ops.custom, ops.inplace_custom

    def spy(name: str, *args: object, **kwargs: object) -> object:
        missing.discard(name)
        return custom(name, *args, **kwargs)

    def spy_in_place(name: str, *args: object, **kwargs: object) -> object:
        missing.discard(name)
        return inplace_custom(name, *args, **kwargs)

    monkeypatch.setattr(ops, "custom", spy)
    monkeypatch.setattr(ops, "inplace_custom", spy_in_place)
    table = decomposition_table()
    # First what only few rows reach: the others are lowered until the last kernel was reached.
    lower_what_is_written()
    of_gpus = set(re.findall(r'"(tmb_\w+)"', Path(gpu_forms.__file__).read_text()))
    assert of_gpus & missing
    with monkeypatch.context() as on_gpus:
        on_gpus.setattr(devices, "is_gpu", lambda device: True)
        for row in _matrix_rows():
            if not missing & of_gpus:
                break
            with contextlib.suppress(LoweringError):  # of ops for CPUs
                lowered(OpCall(row.case.op, *row.arguments()), table)
    for row in _by_novelty():
        if not missing:
            break
        lowered(OpCall(row.case.op, *row.arguments()), table)
    assert not missing, f"no row in tests/lowering reaches {sorted(missing)}"
