"""Dropout, embeddings, segments, fma: our decompositions give what PyTorch's kernels give."""

from __future__ import annotations

import pytest
import torch

from torch_max_backend.lowering.decompositions import basic

aten = torch.ops.aten


@pytest.mark.parametrize("norm_type", [1.0, 2.0])
def test_embedding_renorm(norm_type: float) -> None:
    torch.manual_seed(0)
    table, indices = torch.randn(6, 4), torch.tensor([[0, 2], [2, 5]])
    before = table.clone()
    actual = basic.embedding_renorm(table, indices, 1.0, norm_type)
    assert torch.equal(table, before)
    torch.testing.assert_close(
        actual, aten.embedding_renorm_(before.clone(), indices, 1.0, norm_type)
    )
    assert torch.equal(actual[[1, 3, 4]], before[[1, 3, 4]])
    assert not torch.equal(actual[[0, 2, 5]], before[[0, 2, 5]])


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("train", [True, False, None])
def test_native_dropout_draws_pytorchs_mask(p: float, train: bool | None) -> None:
    x = torch.randn(40, 30)
    torch.manual_seed(3)
    expected, expected_mask = aten.native_dropout.default(x, p, train)
    torch.manual_seed(3)
    actual, mask = basic.native_dropout(x, p, train)
    torch.testing.assert_close(actual, expected)
    assert torch.equal(mask, expected_mask) and mask.dtype is torch.bool
    assert actual is not x
    if train is not False:
        assert mask.float().mean().item() == pytest.approx(1 - p, abs=0.05)


def test_native_dropout_of_nothing() -> None:
    actual, mask = basic.native_dropout(torch.randn(0, 3), 0.5, True)
    assert actual.shape == mask.shape == (0, 3)


LENGTHS = torch.tensor([2, 0, 3, 1])


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("inner", [(), (3,)])
def test_segments_by_length(reduce: str, initial: float | None, inner: tuple[int, ...]) -> None:
    data = torch.randn(6, *inner)
    expected = torch.segment_reduce(data, reduce, lengths=LENGTHS, initial=initial)
    actual = basic.segment_reduce(data, reduce, lengths=LENGTHS, initial=initial)
    torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_segments_by_offset_and_along_another_axis(reduce: str) -> None:
    data = torch.randn(2, 6, 3)
    offsets = torch.tensor([[0, 2, 2, 6], [0, 1, 5, 6]])
    expected = torch.segment_reduce(data, reduce, offsets=offsets, axis=1)
    torch.testing.assert_close(
        basic.segment_reduce(data, reduce, offsets=offsets, axis=1), expected, equal_nan=True
    )


def test_segments_by_index_stay_with_pytorch() -> None:
    assert basic.segment_reduce(torch.randn(3), "sum", indices=torch.arange(3)) is NotImplemented


def test_fma() -> None:
    a, b, c = torch.randn(3, 5).unbind()
    torch.testing.assert_close(basic.fma(a, b, c), torch.addcmul(c, a, b))
