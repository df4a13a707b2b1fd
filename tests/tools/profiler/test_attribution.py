"""Trace names of kernels, and the calls that they stand for."""

from __future__ import annotations

import pytest
import torch

from tests.testing.programs import op_names, program
from torch_max_backend.tools.profiler.attribution import calls_of, executions, split_name

TAG = "3f2a1c"


@pytest.mark.parametrize(
    ("name", "kernel", "labels"),
    [
        ("custom__tmb_softmax [4567ab.3]", "tmb_softmax", ["4567ab.3"]),
        (
            "View(a, Elementwise(mul, custom__tmb_gelu)) [x.1:x.2]",
            "View(a, Elementwise(mul, tmb_gelu))",
            ["x.1", "x.2"],
        ),
        (
            "Prologue(reshape, reduce.add, operandIndices=[0])",
            "Prologue(reshape, reduce.add, operandIndices=[0])",
            [],
        ),
        (
            "Prologue(reduce.add, operandIndices=[0]) [x.7]",
            "Prologue(reduce.add, operandIndices=[0])",
            ["x.7"],
        ),
        ("elementwise(mogg.foreach)", "elementwise(mogg.foreach)", []),
    ],
)
def test_a_name_is_kernel_and_labels(name: str, kernel: str, labels: list[str]) -> None:
    assert split_name(name) == (kernel, labels)


def test_labels_of_other_graphs_and_of_no_call_are_left_out() -> None:
    labels = [f"{TAG}.3", "3f2a1d.4", f"{TAG}.in", f"{TAG}.12", "strange"]
    assert calls_of(labels, TAG) == [3, 12]


def layers(x: torch.Tensor) -> list[torch.Tensor]:
    for _ in range(3):
        x = (torch.softmax(x, -1) * 2).tanh()
    return [x]


def test_a_kernel_that_runs_for_several_calls() -> None:
    of = program(layers, torch.ones(3, 4))
    assert [name.split(".")[1] for name in op_names(of)] == ["_softmax", "mul", "tanh"] * 3
    assert executions([0, 3, 6], 3, of) == [(0,), (3,), (6,)]
    assert executions([1, 2, 4, 5, 7, 8], 3, of) == [(1, 2), (4, 5), (7, 8)]
    assert executions([1, 2, 4, 5, 7, 8], 1, of) == [(1, 2, 4, 5, 7, 8)]
    assert executions([], 2, of) == [(), ()]


def test_executions_of_different_length_are_told_apart_by_who_reads_whom() -> None:
    of = program(layers, torch.ones(3, 4))
    # Labels that are named once though two executions have them: 1, 2 | 4, 5 without the 4.
    assert executions([1, 2, 5], 2, of) == [(1, 2), (5,)]


def test_what_cannot_be_told_is_not_guessed() -> None:
    of = program(layers, torch.ones(3, 4))
    assert executions([0, 1, 2, 3], 2, of) is None
    assert executions([0, 1, 2], 2, of) is None
