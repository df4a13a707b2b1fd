"""Ops that call subgraphs: each through extraction, a file and a verified run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.torch_ir.roundtrip import node_of, roundtrip
from tests.torch_ir.small_models import Calls
from torch_ir import ExecutionError, execute_ir
from torch_ir.ops.higher_order import map_impl, scan

X = torch.linspace(-2, 2, 24).reshape(4, 6)


def test_cond(tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda t: self.fc(t).sin(), lambda t: t - 1, (x,))

    model = Model()
    ir = roundtrip(model, (X + 1,), tmp_path)
    assert len(ir.subgraphs) == 2 and node_of(ir, "higher_order.cond").subgraphs
    for x in (X + 1, X - 1):
        assert torch.equal(execute_ir(ir, (x,), model.state_dict()), model(x))


def test_while_loop(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.while_loop(
            lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (torch.tensor(0), x)
        )

    ir = roundtrip(Calls(function), (X,), tmp_path)
    assert torch.equal(execute_ir(ir, (X,))[1], X * 8)


def test_scan(tmp_path: Path) -> None:
    from torch._higher_order_ops.scan import scan as scan_over

    def function(x: torch.Tensor) -> Any:
        return scan_over(lambda c, row: (c + row, c * row), torch.zeros(6), x)

    ir = roundtrip(Calls(function), (X,), tmp_path)
    torch.testing.assert_close(execute_ir(ir, (X,))[0], X.sum(0))


def test_autocast_region(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.T
        return y.float()

    ir = roundtrip(Calls(function), (X,), tmp_path)
    exact = Calls(lambda x: x @ x.T)(X)
    error = (execute_ir(ir, (X,)) - exact).abs().max()
    assert 1e-4 < error < 0.1, "computed in bfloat16"


def test_map(tmp_path: Path) -> None:
    from torch._higher_order_ops.map import map as map_over

    ir = roundtrip(Calls(lambda x, y: map_over(lambda row, y: row * y, x, y)), (X, X[0]), tmp_path)
    assert node_of(ir, "higher_order.map_impl").subgraphs
    assert torch.equal(execute_ir(ir, (X, X[0])), X * X[0])


@pytest.mark.parametrize(
    ("run", "arguments"), [(scan, ([X[0]], [X[:0]])), (map_impl, ([X[:0]],)), (map_impl, ([],))]
)
def test_no_steps(run: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ExecutionError, match="needs at least one step"):
        run(lambda values: values, *arguments)
