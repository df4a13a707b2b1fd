"""Outputs that share memory with an argument or with each other."""

from __future__ import annotations

import torch

from torch_max_backend.runtime.aliasing import AliasProbe, as_view
from torch_max_backend.runtime.buffers import to_buffer


def shared(outputs: list[torch.Tensor], arguments: list[torch.Tensor]) -> tuple[int, ...]:
    probe = AliasProbe()
    assert probe.pending
    probe.probe(outputs, [to_buffer(argument) for argument in arguments])
    return probe.indices


def test_separate_memory() -> None:
    probe = AliasProbe()
    probe.probe([torch.ones(3), torch.ones(2)], [to_buffer(torch.ones(3))])
    assert probe.indices == () and not probe.pending


def test_an_output_that_is_an_argument() -> None:
    x, y = torch.ones(6), torch.ones(3)
    assert shared([y.clone(), x], [y, x]) == (1,)
    assert shared([x.view(2, 3)], [x]) == (0,)
    assert shared([x[4:]], [x]) == (0,)


def test_outputs_that_are_one() -> None:
    x = torch.ones(6)
    assert shared([x, torch.ones(2), x, x[2:3]], []) == (2, 3)


def test_neighbours_are_separate() -> None:
    memory = torch.ones(6)
    assert shared([memory[:3]], [memory[3:]]) == ()
    assert shared([memory[3:]], [memory[:3]]) == ()


def test_an_empty_tensor_says_nothing_about_the_next_call() -> None:
    probe = AliasProbe()
    probe.probe([torch.ones(0), torch.ones(2)], [])
    assert probe.indices == () and probe.pending
    probe.probe([torch.ones(3), torch.ones(2)], [])
    assert not probe.pending


def test_a_saved_output_in_the_memory_of_an_argument_is_a_view_of_it() -> None:
    x, other = torch.ones(6), torch.ones(2)
    alias = torch.from_dlpack(x)[2:5]
    probe = AliasProbe(visible=1)
    probe.probe([torch.ones(3), alias], [to_buffer(other), to_buffer(x)])
    assert (probe.indices, probe.views) == ((), ((1, 1),))
    view = as_view(alias, x)
    x.add_(1)
    assert view._version == x._version and torch.equal(view, torch.full((3,), 2.0))
    assert as_view(other, x) is other, "in other memory"
