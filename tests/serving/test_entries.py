"""Which entries can be served, and which requests can share a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from examples.serving.entries import Rows, describe
from torch_ir.converter import convert_exported_program


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


ROWS = {0: Dim("rows", min=2, max=9)}


@pytest.mark.parametrize(
    ("function", "dynamic", "expected"),
    [
        (lambda self, x: x * 2, ROWS, Rows(2, 9)),
        (lambda self, x: {"a": x, "b": x.sum(1)}, ROWS, Rows(2, 9)),
        (lambda self, x: x * 2, None, None),
        (lambda self, x: x.sum(0), ROWS, None),
        (lambda self, x: x @ x.T, ROWS, None),
        (lambda self, x: x * 2, {1: Dim("columns", min=2, max=9)}, None),
    ],
    ids=["rows", "dict", "static", "sum", "square", "columns"],
)
def test_rows(function: Callable[..., Any], dynamic: Any, expected: Rows | None) -> None:
    program = torch.export.export(
        Model(function), (torch.ones(3, 4),), dynamic_shapes={"x": dynamic} if dynamic else None
    )
    entry = describe("main", convert_exported_program(program, "main"))
    assert entry is not None and entry.rows == expected
    assert entry.inputs[0].name == "x" and entry.inputs[0].dtype == "float32"


def test_an_entry_with_a_state_is_not_served() -> None:
    model = Model(lambda self, x: self.total.add_(x.sum(0)) * x)
    program = torch.export.export(model, (torch.ones(3, 4),))
    assert describe("main", convert_exported_program(program, "main")) is None
