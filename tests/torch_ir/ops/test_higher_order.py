"""Ops that call subgraphs: each through extraction, a file and a verified run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.torch_ir.roundtrip import node_of, roundtrip
from tests.torch_ir.small_models import Calls
from torch_ir import execute_ir

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
    from torch._higher_order_ops.scan import scan

    def function(x: torch.Tensor) -> Any:
        return scan(lambda c, row: (c + row, c * row), torch.zeros(6), x)

    ir = roundtrip(Calls(function), (X,), tmp_path)
    torch.testing.assert_close(execute_ir(ir, (X,))[0], X.sum(0))


def test_autocast_region(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.T
        return y.float()

    roundtrip(Calls(function), (X,), tmp_path)
