"""Warnings are told when the block has ended, however it ended, and none is lost."""

from __future__ import annotations

import warnings

import pytest

from torch_max_backend.observe.held_warnings import hold_warnings, warn


def test_without_a_block_a_warning_comes_at_once() -> None:
    with pytest.warns(UserWarning, match="now"):
        warn("now")


def test_a_warning_is_of_the_line_that_is_given_or_called_us() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn("here")
        warn("there", source="model.py:41  return x + 1")
        with hold_warnings():
            warn("held")
    assert [w.filename for w in caught] == [__file__, "model.py", __file__]
    assert caught[1].lineno == 41 and caught[2].lineno == caught[0].lineno + 3


def test_warnings_come_at_the_end_of_the_outermost_block() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with hold_warnings():
            with hold_warnings():
                warn("first")
            warn("second", DeprecationWarning)
            assert not caught
    assert [(str(w.message), w.category) for w in caught] == [
        ("first", UserWarning),
        ("second", DeprecationWarning),
    ]


def test_warnings_that_are_errors_let_the_block_end() -> None:
    done = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="first") as raised, hold_warnings():
            warn("first")
            warn("second")
            done = True
        warnings.simplefilter("ignore")
        warn("the block is closed")
    assert done and raised.value.__notes__ == ["second"]


def test_an_error_of_the_block_comes_first() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError) as raised, hold_warnings():
            warn("first")
            raise KeyError("why")
    assert raised.value.__notes__ == ["first"]
    with pytest.warns(UserWarning, match="told"), pytest.raises(KeyError), hold_warnings():
        warn("told")
        raise KeyError("why")
