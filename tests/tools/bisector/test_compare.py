"""What counts as rounding, and what does not."""

from __future__ import annotations

import math

import pytest
import torch

from torch_max_backend.tools.bisector.compare import compare, histogram, is_finite

ONE = torch.linspace(-1, 1, 101)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_rounding_is_explained_and_one_percent_is_not(dtype: torch.dtype) -> None:
    values = ONE.to(dtype)
    rounded = (values.double() * (1 + torch.finfo(dtype).eps)).to(dtype)
    assert not compare(rounded, values).unexplained
    wrong = compare((values.double() * 1.1).to(dtype), values)
    assert wrong.unexplained and wrong.largest == pytest.approx(0.1, rel=0.1)
    assert not compare(values * 1.1, values, tolerance=0.2).unexplained


def test_integers_are_equal_or_wrong() -> None:
    ours = torch.tensor([1, 2, 3])
    assert not compare(ours, ours.clone()).unexplained
    assert compare(ours + torch.tensor([0, 0, 1]), ours).wrong == 1


def test_nan_and_infinity() -> None:
    odd = torch.tensor([math.nan, math.inf, 1.0])
    assert not compare(odd, odd.clone()).unexplained
    assert compare(torch.zeros(3), odd).wrong >= 2
    assert compare(odd, torch.ones(3)).largest == math.inf
    assert not is_finite(odd) and is_finite(ONE) and is_finite(torch.tensor([1]))


def test_another_shape_is_wrong() -> None:
    assert compare(torch.ones(2), torch.ones(3)).wrong == 3


def test_an_empty_tensor_is_right() -> None:
    assert not compare(torch.empty(0), torch.empty(0)).unexplained


def test_a_histogram_counts_powers_of_ten() -> None:
    text = histogram(torch.tensor([1.0, 1.5, 1.05, math.nan]), torch.ones(4))
    rows = [line.split()[:2] for line in text.splitlines()]
    assert rows[:3] == [["0", "1"], ["1e-02", "1"], ["1e-01", "1"]]
    assert "nan or inf" in text
