"""The pause of the garbage collector, and its end."""

from __future__ import annotations

import gc

import pytest

from torch_ir.pause import paused_gc


@pytest.fixture(autouse=True)
def collector_on() -> object:
    gc.enable()
    yield
    gc.enable()


def test_off_inside_and_on_again() -> None:
    with paused_gc():
        assert not gc.isenabled()
        with paused_gc():
            assert not gc.isenabled()
        assert not gc.isenabled(), "the inner pause does not end the outer one"
    assert gc.isenabled()


def test_on_again_after_an_error() -> None:
    with pytest.raises(KeyError), paused_gc():
        raise KeyError
    assert gc.isenabled()


def test_off_stays_off() -> None:
    gc.disable()
    with paused_gc():
        pass
    assert not gc.isenabled()
