"""A call as a person reads it."""

from __future__ import annotations

import torch

from tests.testing.programs import program
from torch_max_backend.program.describe import describe


def test_arguments_have_their_names_and_types() -> None:
    found = program(
        lambda x, y: [torch.cat([x, y.double()], 1)], torch.ones(2, 3), torch.ones(2, 4)
    )
    call = found.calls[-1]
    arguments, source = describe(call, found.specs()).splitlines()
    assert arguments == "  tensors: [float32[2, 3] cpu, float64[2, 4] cpu]    dim: 1"
    assert source.startswith("  from ") and ("test_describe.py" in source or "unknown" in source)


def test_numbers_and_one_of_several_outputs() -> None:
    found = program(lambda x: [x.max(1)[1].clamp(0, 2)], torch.ones(2, 3))
    text = describe(found.calls[-1], found.specs())
    assert "self: int64[2] cpu" in text and "min: 0" in text and "max: 2" in text
