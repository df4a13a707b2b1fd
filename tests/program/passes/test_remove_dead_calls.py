"""Dead calls: what nothing reads is not computed; what has an effect is kept."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from torch_max_backend.frontend.fx_importer import import_fx
from torch_max_backend.program import Program
from torch_max_backend.program.passes.remove_dead_calls import remove_dead_calls


def imported(function) -> Program:
    return import_fx(make_fx(function, tracing_mode="fake")(torch.randn(3)))


def test_a_chain_that_nothing_reads() -> None:
    def wasteful(x):
        x.sin().cos()
        return [x + 1]

    before = imported(wasteful)
    after = remove_dead_calls(before)
    assert len(before.calls) == 3
    assert [str(call.op) for call in after.calls] == ["aten.add.Tensor"]


def test_a_program_without_dead_calls_is_left_alone() -> None:
    program = imported(lambda x: [x.sin().cos()])
    assert remove_dead_calls(program) is program


def test_one_result_of_several_is_enough() -> None:
    program = imported(lambda x: [x.max(0)[1]])
    assert remove_dead_calls(program) is program
