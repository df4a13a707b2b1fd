"""`aten._foreach_*`: every one of them, compared with PyTorch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torch_max_backend.compat.torch import schema_of
from torch_max_backend.lowering.decompositions.foreach import foreach_decompositions

FOREACH = foreach_decompositions()
COUNT = 3

IN_RANGE = {"acos", "asin", "erf"}  # of [-1, 1]
POSITIVE = {"log", "log10", "log1p", "log2", "lgamma", "pow", "rsqrt", "sqrt"}


def tensors(name: str) -> list[torch.Tensor]:
    low, high = (-1.0, 1.0) if name in IN_RANGE else (0.1 if name in POSITIVE else -3.0, 3.0)
    return [torch.rand(4, 4) * (high - low) + low for _ in range(COUNT)]


def argument(name: str, kind: str, parameter: str) -> Any:
    """A value for one parameter of a `_foreach_` op."""
    if kind == "List[Tensor]":
        return tensors(name)
    if kind == "Tensor":
        return torch.rand(COUNT) + 0.5 if parameter == "scalars" else torch.tensor(1.5)
    if kind in ("List[number]", "List[float]"):
        return [1.5, 2.0, 0.5]
    if kind in ("number", "float"):
        return 2.0
    if kind in ("bool", "int", "Optional[int]"):
        return None
    raise AssertionError(f"{name}: no value for {parameter}: {kind}")


def test_there_are_many() -> None:
    assert len(FOREACH) > 60


@pytest.mark.parametrize("op", FOREACH, ids=str)
def test_as_pytorchs_own(op: Any) -> None:
    torch.manual_seed(0)
    name = str(op).removeprefix("aten._foreach_").split(".")[0]
    args = []
    for parameter in schema_of(op).arguments:
        value = argument(name, str(parameter.type), parameter.name)
        if value is None or (parameter.kwarg_only and parameter.name != "alpha"):
            break
        if not parameter.kwarg_only:
            args.append(value)
    expected = op(*args)
    actual = FOREACH[op](*args)
    torch.testing.assert_close(actual, expected, equal_nan=True)
    assert len(actual) == COUNT
    finite = [result for result in expected if result.isfinite().any()]
    assert finite, "nothing but NaN: the comparison says nothing"


def test_keywords() -> None:
    aten = torch.ops.aten
    x, y = tensors("add"), tensors("add")
    torch.testing.assert_close(
        FOREACH[aten._foreach_add.List](x, y, alpha=3), torch._foreach_add(x, y, alpha=3)
    )
    norms = FOREACH[aten._foreach_norm.Scalar](x, 1, dtype=torch.float64)
    torch.testing.assert_close(norms, torch._foreach_norm(x, 1, dtype=torch.float64))


def test_the_norm_of_nothing_is_zero() -> None:
    aten = torch.ops.aten
    for order in (2, float("inf")):
        (norm,) = FOREACH[aten._foreach_norm.Scalar]([torch.empty(0)], order)
        assert norm.item() == 0


def test_lists_of_different_lengths_are_an_error() -> None:
    op = torch.ops.aten._foreach_add.List
    with pytest.raises(RuntimeError, match=r"different lengths \(self 2, other 1\)"):
        FOREACH[op]([torch.ones(1)] * 2, [torch.ones(1)])
