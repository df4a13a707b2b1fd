"""PyTorch's dtype rules: compared with `torch.result_type` and with the ops themselves."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from max.graph import Dim, ops

from tests.lowering.cases import ALL, HALF
from tests.lowering.max_graph import CPU, inputs
from torch_max_backend.lowering import promotion
from torch_max_backend.lowering.devices import max_dtype, torch_dtype
from torch_max_backend.lowering.promotion import elementwise
from torch_max_backend.lowering.types import MaxTensor

NUMBERS = [True, 3, 2.5]


@pytest.mark.parametrize(("rank", "other_rank"), list(itertools.product([0, 1], [0, 1])))
def test_two_operands(rank: int, other_rank: int) -> None:
    shapes = [*[[2] * rank] * len(ALL), *[[2] * other_rank] * len(ALL)]
    with inputs(*shapes, dtypes=[*ALL, *ALL]) as tensors:
        lefts = dict(zip(ALL, tensors, strict=False))
        rights: dict[Any, Any] = {
            **dict(zip(ALL, tensors[len(ALL) :], strict=True)),
            **{str(number): number for number in NUMBERS},
        }
        for left, right in itertools.product(lefts, rights):
            first = torch.ones([2] * rank, dtype=left)
            second = rights[right]
            if isinstance(right, torch.dtype):
                second = torch.ones([2] * other_rank, dtype=right)
            expected = torch.result_type(first, second)
            assert promotion.result_dtype(lefts[left], rights[right]) == expected, (left, right)
            assert promotion.result_dtype(rights[right], lefts[left]) == expected, (left, right)


def test_three_operands() -> None:
    with inputs([2], [], [3, 1], dtypes=[torch.int8, torch.int64, torch.bool]) as (x, y, z):
        assert promotion.result_dtype(x, y, z) == torch.int8
        assert promotion.result_dtype(y, z) == torch.int64
        assert promotion.result_dtype(y, z, 1.5) == torch.get_default_dtype()
        assert promotion.result_dtype(y, True) == torch.int64
        assert promotion.result_dtype(z, Dim("n")) == torch.int64


def test_numbers_alone_have_the_default_dtypes() -> None:
    assert [promotion.result_dtype(n) for n in NUMBERS] == [
        torch.bool,
        torch.int64,
        torch.get_default_dtype(),
    ]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_dtypes_of_results(dtype: torch.dtype) -> None:
    x = torch.ones(2).to(dtype)
    assert promotion.floating(dtype) == x.sqrt().dtype
    with inputs([2], dtypes=[dtype]) as (y,):
        assert promotion.sum_dtype(y, None) == x.sum().dtype
        assert promotion.sum_dtype(y, torch.float64) == torch.float64
        assert (promotion.opmath(y) is y) == (dtype not in HALF)
        assert promotion.cast(y, dtype) is y
        for target in ALL:
            assert torch_dtype(promotion.cast(y, target).dtype) == target


def test_device_and_promotion() -> None:
    with inputs([], [2], dtypes=[torch.float64, torch.int32]) as (x, y):
        assert promotion.device_of(x, 3, y) == CPU
        promoted = promotion.promote(x, 3, y)
        assert {torch_dtype(t.dtype) for t in promoted} == {torch.float64}
        assert [len(t.shape) for t in promoted] == [0, 0, 1]
        assert {torch_dtype(t.dtype) for t in promotion.promote(x, y, to=torch.int8)} == {
            torch.int8
        }
        with pytest.raises(AssertionError, match="needs a tensor"):
            promotion.device_of(3)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_numbers_are_rounded_as_pytorch_rounds_them(dtype: torch.dtype) -> None:
    rounded = promotion.round_to(0.1, dtype)
    assert rounded == torch.tensor(0.1, dtype=dtype).item() != 0.1
    assert promotion.round_to(Dim("n"), dtype) == Dim("n")
    assert promotion.round_to(0.1, torch.int64) == 0.1  # no float dtype: nothing to round


def _seen(*names: str, **how: bool) -> tuple[Any, list[Any]]:
    """A decorated lowering of three arguments, and what it was called with."""
    seen: list[Any] = []

    def lowering(self: MaxTensor, other: Any = None, alpha: Any = 1) -> MaxTensor:
        seen[:] = [self, other, alpha]
        return self

    return elementwise(*names, **how)(lowering), seen


def test_elementwise_promotes_the_named_arguments() -> None:
    decorated, seen = _seen("self", "other")
    with inputs([2], [2], dtypes=[torch.int32, torch.float32]) as (x, y):
        result = decorated(x, other=y, alpha=7)
        assert torch_dtype(result.dtype) == torch.float32
        assert torch_dtype(seen[0].dtype) == torch_dtype(seen[1].dtype) == torch.float32
        assert seen[2] == 7  # not named
        decorated(x, None)
        assert seen == [x, None, 1]
        decorated(x, 3)
        assert torch_dtype(seen[1].dtype) == torch.int32 and not seen[1].shape
    assert decorated.__name__ == "lowering"


def test_elementwise_with_ints_as_floats() -> None:
    decorated, _ = _seen(int_to_float=True)
    with inputs([2], [2], dtypes=[torch.int32, torch.float64]) as (x, y):
        assert torch_dtype(decorated(x).dtype) == torch.get_default_dtype()
        assert torch_dtype(decorated(y).dtype) == torch.float64


@pytest.mark.parametrize("rounded", [False, True])
def test_elementwise_computes_16_bits_in_32(rounded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[float] = []

    def scalar(value: float, dtype: torch.dtype, device: object) -> MaxTensor:
        numbers.append(value)
        return ops.constant(0, max_dtype(dtype), CPU)

    monkeypatch.setattr(promotion.constants, "scalar", scalar)
    decorated, seen = _seen("self", "other", wide=True, rounded=rounded)
    with inputs([2], [2], dtypes=[torch.bfloat16, torch.float64]) as (x, y):
        result = decorated(x, 0.1)
        assert torch_dtype(result.dtype) == torch.bfloat16
        assert torch_dtype(seen[0].dtype) == torch_dtype(seen[1].dtype) == torch.float32
        assert numbers == [torch.tensor(0.1, dtype=torch.bfloat16).item() if rounded else 0.1]
        assert torch_dtype(decorated(y, 0.1).dtype) == torch_dtype(seen[0].dtype) == torch.float64
        assert numbers[1:] == [0.1]
