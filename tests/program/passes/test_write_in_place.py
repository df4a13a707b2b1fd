"""Caches: which writes to an argument happen in its memory."""

from __future__ import annotations

import pytest
import torch

from tests.testing.programs import op_names, written
from torch_max_backend.program import Kind, Ref

CACHE, LINES = torch.zeros(1, 2, 8, 4), torch.randn(1, 2, 3, 4)
POSITIONS = torch.tensor([5, 2, 7])
WRITE = "torch_max_backend.write_lines.default"


def update(cache, index, lines):
    new = cache.index_copy(2, index, lines)
    return new, new.sum(-1)


def test_lines_are_written_in_place() -> None:
    found = written(update, CACHE, POSITIONS, LINES)
    (call,) = (call for call in found.calls if str(call.op) == WRITE)
    cache, dim, index, lines = call.args
    assert (cache, dim) == (Ref(found.inputs[0].name), 2)
    assert (index, lines) == (Ref(found.inputs[1].name), Ref(found.inputs[2].name))


def test_index_put_of_whole_lines() -> None:
    def update(cache, index, lines):
        new = torch.ops.aten.index_put(cache, [None, None, index], lines)
        return new, new + 1

    assert WRITE in op_names(written(update, CACHE, POSITIONS, LINES))


def _accumulated(cache, index, lines):
    new = torch.ops.aten.index_put(cache, [None, None, index], lines, True)
    return new, new + 1


def _broadcast(cache, index, lines):
    new = torch.ops.aten.index_put(cache, [None, None, index], lines[..., :1, :])
    return new, new + 1


def _read_before(cache, index, lines):
    new = cache.index_copy(2, index, lines)
    return new, cache + 1


def _returned(cache, index, lines):
    new = cache.index_copy(2, index, lines)
    return new, new


def _two_indices(cache, index, lines):
    new = torch.ops.aten.index_put(cache, [None, index[:1] % 2, index[:1]], lines[0, :1, 0])
    return new, new + 1


@pytest.mark.parametrize(
    "function", [_accumulated, _broadcast, _read_before, _returned, _two_indices]
)
def test_other_writes_are_copies(function) -> None:
    assert WRITE not in op_names(written(function, CACHE, POSITIONS, LINES))


def test_a_value_that_is_written_elsewhere_is_a_copy() -> None:
    def update(cache, index, lines, other):
        new = cache.index_copy(2, index, lines)
        return new, other + 1

    found = written(update, CACHE, POSITIONS, LINES, torch.zeros(1, 2, 8, 4), mutates=3)
    assert WRITE not in op_names(found)


def test_a_transposed_cache_is_a_copy() -> None:
    cache = torch.zeros(1, 8, 2, 4).transpose(1, 2)
    assert WRITE not in op_names(written(update, cache, POSITIONS, LINES))


def test_training_copies() -> None:
    assert WRITE not in op_names(written(update, CACHE, POSITIONS, LINES, kind=Kind.FORWARD))
