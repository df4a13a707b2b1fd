"""How long the model's own code holds its values, and where it writes in place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.testing.live_memory import LiveMemory
from tests.torch_ir.roundtrip import save_and_load
from tests.torch_ir.small_models import Calls
from torch_ir import (
    IR,
    convert_exported_program,
    estimate_cost,
    extract_ir,
    extract_subgraph,
    to_exported_program,
)
from torch_ir.ir import EagerMemory

X = torch.ones(4, 8)


def eager_of(function: Callable[..., Any], *args: Any, **how: Any) -> EagerMemory:
    found = extract_ir(Calls(function), args or (X,), **how).eager
    assert found is not None
    return found


def test_a_variable_holds_its_value_until_it_is_assigned_again() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        z = y.cos()
        z = z.exp()
        return (z + 1).tanh()

    # y until the end; the first z until `exp`, which reads it; the second one until the end.
    assert eager_of(function).held == {"sin": "tanh", "exp": "tanh"}


def test_a_value_without_a_variable_is_freed_after_its_last_read() -> None:
    assert eager_of(lambda x: x.sin().cos().exp()).held == {}


def test_the_variables_of_a_call_end_with_it() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        z = y.cos()
        return z.exp()

    held = eager_of(lambda x: inner(x).tanh().neg()).held
    assert held == {"sin": "exp"}  # z is read last by `exp`, and the result has no variable


def test_what_an_attribute_keeps_is_held_to_the_end() -> None:
    kept: list[torch.Tensor] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        kept.append(x.sin())
        return kept[0].cos().exp()

    assert eager_of(function).held == {"sin": "exp"}


def test_in_place_ops_are_named() -> None:
    """Both those that are renamed and those of PyTorch's own functionalization."""
    assert eager_of(lambda x: x.sin().relu_().add_(1)).in_place == ["relu_", "add_"]

    def through_a_view(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        y[:, 0].mul_(2)
        return y.cos()

    assert eager_of(through_a_view).in_place == ["mul", "select_scatter"]


class Cache(nn.Module):
    """A cache that a model fills in place, and a residual that a variable holds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(64, 8))
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.up(x)
        active = hidden.relu()
        x = x + self.down(active)
        self.cache[: x.shape[0]] = x
        return self.cache.mean(0) + x


def measured(model: nn.Module, *args: torch.Tensor) -> int:
    fixed = [*model.parameters(), *model.buffers()]
    with torch.no_grad(), LiveMemory(fixed, args) as memory:
        model(*args)
    return memory.peak


@pytest.mark.parametrize("how", [{}, {"decompose": True}], ids=["torch.export", "core ATen"])
def test_the_peak_is_that_of_the_model_s_own_code(how: Any) -> None:
    ir = extract_ir(Cache(), (X,), **how)
    total = estimate_cost(ir).total
    assert total.peak_eager_bytes == measured(Cache(), X)
    assert total.peak_activation_bytes > 64 * 8 * 4, "a run of the graph copies the cache"


def test_the_peak_is_symbolic() -> None:
    rows = {0: torch.export.Dim("rows", min=2, max=64)}
    ir = extract_ir(Cache(), (X,), dynamic_shapes=(rows,))
    (name,) = ir.symbols
    cost = estimate_cost(ir)
    for size in (2, 17, 64):
        at = cost.at(**{name: size})
        assert at.total.peak_eager_bytes == measured(Cache(), torch.ones(size, 8))
        assert at.total.peak_eager_bytes == max(node.eager_bytes for node in at.nodes.values())


def test_it_is_in_the_file_and_in_an_exported_program(tmp_path: Path) -> None:
    ir = extract_ir(Cache(), (X,))
    assert ir.eager is not None and ir.eager.held and ir.eager.in_place
    assert save_and_load(ir, tmp_path).eager == ir.eager
    assert convert_exported_program(to_exported_program(ir)).eager == ir.eager


def test_a_part_holds_to_its_end_what_the_whole_holds_longer() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        z = y.cos().exp()
        return z.tanh().neg()

    ir = extract_ir(Calls(function), (X,))
    assert ir.eager is not None and ir.eager.held == {"sin": "neg", "exp": "neg"}
    part = extract_subgraph(ir, "sin", "cos", "exp")
    assert part.eager is not None and part.eager.held == {"sin": "exp", "exp": "exp"}


def no_eager(ir: IR) -> bool:
    cost = estimate_cost(ir)
    nodes = cost.nodes.values()
    return ir.eager is None and {n.eager_bytes for n in nodes} == {cost.total.peak_eager_bytes}


def test_it_is_unknown_where_the_code_was_not_run() -> None:
    """Dynamo does not run the model's code, and a program of others was not watched."""
    assert no_eager(extract_ir(nn.ReLU(), (X,), strict=True))
    assert no_eager(convert_exported_program(torch.export.export(nn.ReLU(), (X,))))


def test_a_program_without_notes_stays_as_it_was() -> None:
    program = torch.export.export(Cache(), (X,))
    before = [dict(node.meta) for node in program.graph.nodes]
    assert no_eager(convert_exported_program(program))
    assert [dict(node.meta) for node in program.graph.nodes] == before
