"""Costs as text."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from torch_ir import estimate_cost, extract_ir
from torch_ir.symbols import symbol_of
from torch_ir.visualize.cost_text import (
    cost_table,
    describe_bytes,
    describe_count,
    example_sizes,
    module_rows,
    node_rows,
)

IR = extract_ir(
    nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)),
    (torch.ones(3, 4),),
    dynamic_shapes=({0: torch.export.Dim("rows")},),
)


def test_numbers_are_scaled_and_expressions_are_kept() -> None:
    s0 = symbol_of("s0")
    assert describe_count(1_500_000) == "1.50M" and describe_bytes(3 * 2**20) == "3.00 MiB"
    assert describe_count(8 * s0) == "8*s0" and describe_bytes(8 * s0) == "8*s0 B"
    long = sum(symbol_of(f"s{i}") for i in range(200))
    assert describe_count(long).endswith(" characters)") and len(describe_count(long)) < 330


def test_the_table_has_the_model_and_its_largest_modules() -> None:
    lines = cost_table(estimate_cost(IR, dict.fromkeys(IR.symbols, 100)), rows=2)
    assert lines[0].split() == [
        "module",
        *["operations", "bytes", "moved", "weights", "peak", "activations", "peak", "in", "eager"],
    ]
    assert lines[1].split()[0] == "(whole)" and "9.60K" in lines[1]
    assert [line.split()[0] for line in lines[2:4]] == ["0", "2"]
    assert lines[4] == "and 1 modules more; --json lists all"


def test_sizes_stay_symbols_in_the_table() -> None:
    (name,) = IR.symbols
    cost = estimate_cost(IR)
    assert f"96*{name}" in cost_table(cost)[1]
    assert example_sizes(cost) == {name: 128}
    assert example_sizes(cost.at(**{name: 4})) == {}


def test_a_node_that_is_not_counted_says_why() -> None:
    cost = estimate_cost(IR)
    node = cost.nodes["linear"]
    node.unknown = "no such op"
    assert ("operations", "unknown: no such op") in node_rows(node)
    assert cost_table(cost)[-1] == "not counted: linear: no such op"
    assert [label for label, _ in module_rows(cost.total)] == [
        "operations", "bytes moved", "weights", "peak activations", "peak in eager",
    ]  # fmt: skip


def test_what_the_file_does_not_tell_is_not_shown() -> None:
    cost = estimate_cost(dataclasses.replace(IR, eager=None))  # as in files of version 1
    assert [label for label, _ in module_rows(cost.total)][-1] == "peak activations"
    assert [label for label, _ in node_rows(cost.nodes["linear"])][-1] == "activations"
    assert "eager" not in "".join(cost_table(cost))
