"""Updates of arguments as one call: which are fused, and that they compute the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.testing.programs import program
from torch_max_backend.flags import Options
from torch_max_backend.program import (
    Kind,
    Mutation,
    Program,
    Ref,
    graph_inputs,
    passes,
)
from torch_max_backend.program.own_ops import update
from torch_max_backend.program.update_program import decode
from torch_max_backend.runtime.interpreter import interpreted


def updated(function: Callable[..., Sequence[torch.Tensor]], *args: torch.Tensor) -> Program:
    """A function whose first results are the new values of its first arguments."""
    traced = program(lambda *args: list(function(*args)), *args, kind=Kind.FORWARD)
    count = len(traced.outputs) - EXTRA.get(function, 0)
    mutations = [
        Mutation(item.name, output.ref)
        for item, output in zip(traced.inputs, traced.outputs[:count], strict=False)
    ]
    changed = dataclasses.replace(traced, outputs=traced.outputs[count:], mutations=mutations)
    return passes.run(changed, Kind.INFERENCE, Options())


EXTRA: dict[Any, int] = {}
"""How many of a function's last results are results, not new values."""


def calls_of(made: Program) -> list[Any]:
    return [call for call in made.calls if call.op is update.default]


def check(
    function: Callable[..., Sequence[torch.Tensor]], *args: torch.Tensor, instances: int
) -> Program:
    """The function is fused to so many instances, and the program computes the same."""
    made = updated(function, *args)
    found = calls_of(made)
    assert sum(len(decode(call.args[2])) for call in found) == instances
    given = [arg.clone() for arg in args]
    expected = function(*args)
    interpreted(made)(given)
    new = len(expected) - EXTRA.get(function, 0)
    for actual, value in zip(given, expected[:new], strict=False):
        torch.testing.assert_close(actual, value)
    return made


P, G, M, V = torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4), torch.rand(3, 4)
STEP, RATE = torch.tensor(3.0), torch.tensor(0.1)


def adam(p, m, v, step, g, rate):  # type: ignore[no-untyped-def]
    step = step + 1
    p = p * (rate * -0.01 + 1)
    m = m + (g - m) * 0.1
    v = v * 0.999 + g * g * 0.001
    factor = rate / (-torch.pow(0.9, step) + 1)
    root = v.sqrt() / (-torch.pow(0.999, step) + 1).sqrt() + 1e-8
    return p - factor * m / root, m, v, step


def test_a_parameter_with_its_states_is_one_instance() -> None:
    made = check(adam, P, M, V, STEP, G, RATE, instances=1)
    assert len(made.calls) == 1
    assert graph_inputs(made)[-1].name == made.calls[0].name
    assert len(graph_inputs(made)) == 1, "all tensors are reached by their addresses"


def test_parameters_share_their_lines() -> None:
    def both(p, q, g, h, rate):  # type: ignore[no-untyped-def]
        return p - g * rate, q - h * rate

    args = (P, torch.randn(5), G, torch.randn(5), RATE)
    (call,) = calls_of(check(both, *args, instances=2))
    first, second = decode(call.args[2])
    assert (first.scalars, first.vectors) == (second.scalars, second.vectors)
    assert (first.numel, second.numel) == (12, 5)


def test_a_number_of_the_graph_is_an_argument() -> None:
    """As the factor of gradient clipping, which reads the gradients that are then scaled."""

    def clipped(p, g):  # type: ignore[no-untyped-def]
        scaled = g * (1 / (g.norm() + 1e-6)).clamp(max=1.0)
        return p - scaled * 0.1, scaled

    (call,) = calls_of(check(clipped, P, G, instances=1))
    assert len(call.args[1]) == 1


def test_a_number_that_is_computed_for_several_is_computed_once() -> None:
    def shared(p, q, step, g, h):  # type: ignore[no-untyped-def]
        step = step + 1
        return p - g / step, q - h / step, step

    made = check(shared, P, torch.randn(5), STEP, G, torch.randn(5), instances=2)
    (call,) = calls_of(made)
    assert len(call.args[1]) == 1
    assert [m.ref.name == call.name for m in made.mutations] == [True, True, False]


def test_old_values_are_read_before_they_are_overwritten() -> None:
    def turned(p, q):  # type: ignore[no-untyped-def]
        total = p + q
        return total * 2, total * p - q

    check(turned, P, G, instances=1)


def test_instances_that_read_what_others_write_are_left_alone() -> None:
    def swapped(p, q):  # type: ignore[no-untyped-def]
        return q + p * 0.5, p + q * 0.5

    check(swapped, P, G, instances=0)


def test_numbers_as_parameters() -> None:
    def descent(p, g):  # type: ignore[no-untyped-def]
        return ((p - g * 0.1) * 0.5,)

    check(descent, torch.tensor(2.0), torch.tensor(3.0), instances=1)


def descent(p, g):  # type: ignore[no-untyped-def]
    p = (p - g * 0.1) * 0.5
    return p + 1, p


def test_what_is_left_alone() -> None:
    def power(p, g):  # type: ignore[no-untyped-def]
        return (p - g.exp() * 0.1 + 1,)

    def widened(p, g):  # type: ignore[no-untyped-def]
        return (p - g.sum(0) * 0.1 + 1,)

    def wide(p, g):  # type: ignore[no-untyped-def]
        return ((p - g * 0.1) * 0.5 + 1,)

    check(power, P, G, instances=0)
    check(widened, P, G, instances=0)
    check(wide, P.double(), G.double(), instances=0)
    check(wide, P, G.t().contiguous().t(), instances=0)  # other strides
    EXTRA[descent] = 1
    check(descent, P, G, instances=0)  # a value inside is a result


def test_only_graphs_without_gradients() -> None:
    traced = program(lambda p, g: [p - g * 0.1 * 0.5 + 1], P, G, kind=Kind.FORWARD)
    first = traced.outputs[0]
    mutation = Mutation(traced.inputs[0].name, Ref(first.ref.name))
    changed = dataclasses.replace(traced, outputs=[], mutations=[mutation])
    assert not calls_of(passes.run(changed, Kind.FORWARD, Options()))
