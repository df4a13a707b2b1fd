"""The gradient of a cross entropy as one call."""

from __future__ import annotations

import torch

from tests.testing.programs import op_names, program
from torch_max_backend.program import Kind
from torch_max_backend.runtime.interpreter import interpreted

aten = torch.ops.aten
FUSED = "torch_max_backend.cross_entropy_backward.default"
LOGARITHMS = torch.randn(5, 9).log_softmax(1)
CLASSES = torch.tensor([3, 0, -100, 8, 5])
GRADIENT, TOTAL = torch.tensor(2.0), torch.tensor(4.0)


def gradient(grad, logarithms, classes, total, dim: int = 1):  # type: ignore[no-untyped-def]
    first = aten.nll_loss_backward(grad, logarithms, classes, None, 1, -100, total)
    return first, aten._log_softmax_backward_data(first, logarithms, dim, logarithms.dtype)


def made(function, *args):  # type: ignore[no-untyped-def]
    found = program(function, *args, kind=Kind.BACKWARD)
    torch.testing.assert_close(interpreted(found)(list(args)), function(*args))
    return op_names(found)


def test_both_steps_become_one_call() -> None:
    args = (GRADIENT, LOGARITHMS, CLASSES, TOTAL)
    assert made(lambda *args: [gradient(*args)[1]], *args) == [FUSED]
    assert made(lambda *args: [gradient(*args, dim=-1)[1]], *args) == [FUSED]


def test_what_is_left_alone() -> None:
    args = (GRADIENT, LOGARITHMS, CLASSES, TOTAL)
    assert FUSED not in made(lambda *args: list(gradient(*args)), *args)  # both are read
    line = (GRADIENT, LOGARITHMS[0], CLASSES[0], TOTAL)
    assert FUSED not in made(lambda *args: [gradient(*args, dim=0)[1]], *line)
