"""The timer slack of threads that MAX starts. What it is for is in `test_call.py`."""

from __future__ import annotations

import ctypes
import sys
import threading

import pytest
from max import driver

from torch_max_backend.runtime.threads import SLACK, long_timer_slack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="of Linux alone")


PR_GET_TIMERSLACK = 30


def slack() -> int:
    """Of the calling thread, in nanoseconds."""
    return ctypes.CDLL(None).prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0)


def slack_of_a_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(slack()))
    thread.start()
    thread.join()
    return found[0]


def test_threads_started_inside_sleep_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "accelerator_count", lambda: 0)
    before = slack()
    assert before < SLACK
    with long_timer_slack():
        assert slack_of_a_new_thread() == SLACK
    assert slack() == before == slack_of_a_new_thread()


def test_the_own_slack_is_restored_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "accelerator_count", lambda: 0)
    before = slack()
    with pytest.raises(ZeroDivisionError), long_timer_slack():
        raise ZeroDivisionError
    assert slack() == before


def test_nothing_changes_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "accelerator_count", lambda: 1)
    before = slack()
    with long_timer_slack():
        assert slack_of_a_new_thread() == before
