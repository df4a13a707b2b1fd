"""The errors: one base class, and what is a special case of what."""

from __future__ import annotations

import pytest

from torch_ir import errors


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_a_torch_ir_error(name: str) -> None:
    error = getattr(errors, name)
    assert issubclass(error, errors.TorchIRError) and error.__doc__


def test_a_weight_error_is_an_execution_error() -> None:
    assert issubclass(errors.WeightLoadError, errors.ExecutionError)
    others = (errors.ExportError, errors.ConversionError, errors.SerializationError)
    assert not any(issubclass(error, errors.ExecutionError) for error in others)
