"""Cuts: what is alive at them, and how many fit into memory."""

from __future__ import annotations

from tests.tools.explainer.test_fates import SPEC, call, program
from torch_max_backend.program import Ref
from torch_max_backend.runtime.interpreter import values_of
from torch_max_backend.tools.bisector import cuts

import torch  # isort: skip

aten = torch.ops.aten
CHAIN = program(
    call("a", aten.tanh.default, "x"),
    call("b", aten.exp.default, "a"),
    call("c", aten.add.Tensor, "b", "a"),
    call("d", aten.neg.default, "c"),
    result="d",
)


def test_frontiers_are_what_is_read_later() -> None:
    names = [[ref.name for ref in front] for front in cuts.frontiers(CHAIN)]
    assert names == [[], ["a"], ["a", "b"], ["c"], ["d"]]


def test_all_cuts_if_they_fit_else_fewer() -> None:
    size = cuts.bytes_of(SPEC, {})
    assert size == 8
    assert cuts.choose(CHAIN, 0, 4, 4 * size, {}) == [0, 1, 2, 3, 4]
    assert cuts.choose(CHAIN, 0, 4, size, {}) == [0, 2, 4]
    assert cuts.choose(CHAIN, 1, 3, size, {}) == [1, 2, 3], "three cuts always"


def test_the_values_at_cuts_are_results() -> None:
    opened, refs = cuts.exposed(CHAIN, [2, 4])
    assert refs == [Ref("a"), Ref("b"), Ref("d")]
    assert opened.results() == refs and opened.calls == CHAIN.calls


def test_a_segment_computed_from_values_at_a_cut() -> None:
    state = values_of(CHAIN, [torch.zeros(2)])
    state.by_name["c"] = torch.ones(2)
    assert state.compute(CHAIN.calls[3]).tolist() == [-1, -1]
