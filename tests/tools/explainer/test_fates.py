"""What calls became in passes, told from the programs before and after."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from torch_max_backend.program import (
    Call,
    Program,
    Ref,
    TensorInput,
    TensorOutput,
    TensorSpec,
    passes,
)
from torch_max_backend.program.passes import Step
from torch_max_backend.tools.explainer.fates import (
    CONSTANT,
    OF_WEIGHTS,
    UNUSED,
    Fate,
    fates,
)

aten = torch.ops.aten
SPEC = TensorSpec((2,), torch.float32, torch.device("cpu"))


def call(name: str, op: object, *reads: str) -> Call:
    args = tuple(map(Ref, reads))
    return Call(name, op, args, {}, (SPEC,), True, frozenset({0}))  # type: ignore[arg-type]


def program(*calls: Call, result: str) -> Program:
    return Program([TensorInput("x", SPEC)], list(calls), [TensorOutput(Ref(result))])


TANH, EXP, NEG = aten.tanh.default, aten.exp.default, aten.neg.default
BEFORE = program(
    call("a", TANH, "x"), call("b", EXP, "a"), call("c", NEG, "b"), call("d", TANH, "x"), result="c"
)


@pytest.mark.parametrize("name", [UNUSED, CONSTANT, OF_WEIGHTS])
def test_dropped_calls_have_no_heir(name: str) -> None:
    after = dataclasses.replace(BEFORE, calls=BEFORE.calls[:3])
    assert fates([Step(name, BEFORE, after)], after) == {"d": Fate(name, None)}
    assert name in [item.name for item in passes.PIPELINE]


def test_a_reader_that_became_another_op_is_the_heir() -> None:
    after = program(call("b", aten.sigmoid.default, "x"), call("c", NEG, "b"), result="c")
    found = fates([Step("fuse", BEFORE, after)], after)
    assert found["a"] == found["b"] == Fate("fuse", "b")


def test_a_new_call_that_a_reader_reads_is_the_heir() -> None:
    after = program(call("new", aten.sigmoid.default, "x"), call("c", NEG, "new"), result="c")
    found = fates([Step("fuse", BEFORE, after)], after)
    assert found["a"] == found["b"] == Fate("fuse", "new")


def test_heirs_are_followed_through_later_passes() -> None:
    middle = program(call("new", aten.sigmoid.default, "x"), call("c", NEG, "new"), result="c")
    after = program(call("last", aten.sin.default, "x"), result="last")
    steps = [Step("fuse", BEFORE, middle), Step("again", middle, after)]
    found = fates(steps, after)
    assert found["a"] == found["new"] == found["c"] == Fate("again", "last")


def test_an_untouched_program() -> None:
    assert fates([], BEFORE) == {}
