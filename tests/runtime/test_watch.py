"""Writes that no version counter counts: which are noticed, and which are not."""

from __future__ import annotations

import pytest
import torch

from torch_max_backend.runtime.watch import Watch, version_of

SHAPES = [(), (1,), (0,), (7,), (70, 300), (300, 70), (768, 768), (1024, 1024), (3, 4, 5)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8])
def test_a_write_to_every_element_is_noticed(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = torch.ones(shape, dtype=dtype)
    watch = Watch([tensor])
    assert not watch.changed()
    tensor.data += 1
    assert watch.changed() == (tensor.numel() > 0)


def test_nan_is_equal_to_itself_and_minus_zero_is_another_value() -> None:
    tensor = torch.full((40, 40), float("nan"))
    assert not Watch([tensor]).changed()
    tensor = torch.zeros(40, 40)
    watch = Watch([tensor])
    tensor.data.neg_()
    assert watch.changed()


@pytest.mark.parametrize("view", [lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[3:]])
def test_views(view) -> None:
    base = torch.randn(64, 96)
    watch = Watch([view(base)])
    assert not watch.changed()
    view(base).data.mul_(2)
    assert watch.changed()


def test_samples_are_spread_over_rows_and_columns() -> None:
    """In a square matrix a step of whole rows would look at one column only."""
    for size in (64, 512, 768, 1024):
        tensor = torch.zeros(size, size)
        for part in (slice(None), slice(0, size // 2), slice(size // 2, size)):
            watch = Watch([tensor])
            tensor.data[:, part] += 1
            assert watch.changed(), (size, part)
            watch = Watch([tensor])
            tensor.data[part] += 1
            assert watch.changed(), (size, part)


def test_what_goes_unnoticed() -> None:
    """docs/weights.md says so: a write that misses every sample."""
    tensor = torch.zeros(768, 768)
    watch = Watch([tensor])
    tensor.data[1, 5] = 1
    assert not watch.changed()


def test_versions() -> None:
    tensor = torch.ones(3)
    before = version_of(tensor)
    tensor.add_(1)
    assert version_of(tensor) == before + 1
    with torch.inference_mode():
        assert version_of(torch.ones(3)) == 0
