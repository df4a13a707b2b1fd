"""The weights of image programs in panels, compared with matrices made of the parameters."""

from __future__ import annotations

import pytest
import torch

from torch_max_backend.program import image_weights, winograd
from torch_max_backend.program.image_weights import Filters, ImageWeights, Norm, Piece

COLUMNS = 16


def _sources(*shape: int) -> tuple[torch.Tensor, ...]:
    """A weight, and weight, bias, mean and variance of a norm."""
    torch.manual_seed(3)
    return torch.randn(shape), *(torch.rand(4, shape[0]) + 0.5).unbind()


def _packed(part: Filters, rows: int, channels: int, sources: tuple[torch.Tensor, ...]):
    size = -(-channels // COLUMNS) * COLUMNS * rows
    packed = ImageWeights((Piece(0, size, part),), size, COLUMNS).pack(*sources)
    return packed.view(-1, rows, COLUMNS)


@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_panels_hold_the_filters_scaled_by_the_norm(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_weights, "_AT_ONCE", at_once)
    sources = _sources(40, 3, 3, 3)
    panels = _packed(Filters(0, Norm(1, 2, 3, 4, 1e-5)), 27, 40, sources)
    scale = sources[1] / (sources[4] + 1e-5).sqrt()
    expected = (sources[0] * scale[:, None, None, None]).permute(2, 3, 1, 0).reshape(27, 40)
    found = panels.transpose(0, 1).flatten(1)
    torch.testing.assert_close(found[:, :40], expected)
    assert not found[:, 40:].any(), "what is beyond the last channel is zero"


@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_panels_of_a_group_hold_its_own_channels(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_weights, "_AT_ONCE", at_once)
    sources = _sources(60, 5, 1, 1)
    panels = _packed(Filters(0, first=20, count=20), 5, 20, sources)
    expected = sources[0][20:40, :, 0, 0].t()
    torch.testing.assert_close(panels.transpose(0, 1).flatten(1)[:, :20], expected)


@pytest.mark.parametrize("at_once", [1, 1 << 20])
def test_transformed_filters_are_panels_too(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_weights, "_AT_ONCE", at_once)
    sources = _sources(24, 4, 3, 3)
    panels = _packed(Filters(0, winograd=True), winograd.SPOTS * 4, 24, sources)
    expected = winograd.transformed(sources[0]).reshape(winograd.SPOTS * 4, 24).float()
    torch.testing.assert_close(panels.transpose(0, 1).flatten(1)[:, :24], expected)


def test_one_tap_of_a_transposed_convolution() -> None:
    sources = _sources(6, 20, 2, 2)
    panels = _packed(Filters(0, tap=(1, 0)), 6, 20, sources)
    expected = sources[0][:, :, 1, 0]
    torch.testing.assert_close(panels.transpose(0, 1).flatten(1)[:, :20], expected)


def test_depthwise_filters_lie_tap_by_tap() -> None:
    sources = _sources(20, 1, 3, 3)
    size = 9 * 2 * COLUMNS
    part = Filters(0, depthwise=True)
    packed = ImageWeights((Piece(0, size, part),), size, COLUMNS).pack(*sources)
    expected = sources[0].reshape(20, 9).t()
    torch.testing.assert_close(packed.view(9, -1)[:, :20], expected)
