"""A program, run call by call on PyTorch, gives what the function gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from torch_max_backend.flags import Options
from torch_max_backend.frontend.complex_numbers import without_complex_numbers
from torch_max_backend.frontend.fx_importer import import_fx
from torch_max_backend.lowering.registry import decomposition_table
from torch_max_backend.program import Kind, passes
from torch_max_backend.runtime.interpreter import interpreted

X = torch.randn(6, 8)
W = torch.randn(5, 8)


def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values, indices = x.topk(3)
    return values, indices, x.t().reshape(-1), x.mean(0, keepdim=True).expand(6, 8)


def norm(x: torch.Tensor) -> tuple[torch.Tensor]:
    return (x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6),)


def masked(x: torch.Tensor) -> tuple[torch.Tensor]:
    return (x.masked_fill(torch.ones(6, 8).tril() == 0, -1.0),)


def spectrum(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z = torch.fft.fft(x)
    return z * 2, z.abs()


CASES = [(several, "symbolic"), (norm, "symbolic"), (masked, "symbolic")]
CASES += [(function, "fake") for function in (several, norm, masked, spectrum)]


@pytest.mark.parametrize(("function", "mode"), CASES)
def test_results(function: Any, mode: str) -> None:
    gm = make_fx(function, decomposition_table=decomposition_table(), tracing_mode=mode)(X)
    gm = without_complex_numbers(gm, decomposition_table)
    program = passes.run(import_fx(gm), Kind.INFERENCE, Options())
    args = [X.clone()]
    torch.testing.assert_close(interpreted(program)(args), list(function(X)))
    assert args == [], "the arguments are given up"


def test_packed_weights() -> None:
    gm = make_fx(lambda x, w: (torch.mm(x, w.t()),))(X, W)
    program = passes.run(import_fx(gm, [1]), Kind.INFERENCE, Options())
    assert program.packed
    torch.testing.assert_close(interpreted(program)([X, W]), [X @ W.t()])


def test_writes_reach_the_argument() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor]:
        y = x * 2
        torch.ops.aten.copy_(x, y)
        return (y + 1,)

    program = import_fx(make_fx(function)(X))
    assert program.mutations
    argument = X.clone()
    torch.testing.assert_close(interpreted(program)([argument]), [X * 2 + 1])
    torch.testing.assert_close(argument, X * 2)


def test_numbers_of_sizes() -> None:
    gm = make_fx(lambda x: (x.shape[0] * 3 + 1, x + x.shape[1]), tracing_mode="symbolic")(X)
    program = import_fx(gm)
    count, result = interpreted(program)([torch.ones(4, 2)])
    assert count == 13
    torch.testing.assert_close(result, torch.full((4, 2), 3.0))
